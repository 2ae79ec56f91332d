//! OpenAI's Responses interface (`use_responses_api: true`).
//!
//! The whole history goes with every request and nothing is stored at the provider. Reasoning comes back encrypted, is kept
//! as it is, and goes back right before what it led to, to the service and model that made it.

mod decoder;
mod items;
pub(crate) mod request;
mod usage;

pub(crate) use decoder::{Keep, ResponsesDecoder};

use crate::exchange::{Endpoint, run};
use crate::legalise::Rules;
use crate::settings::Settings;
use crate::transport::WireRequest;
use deerflow_core::{ChatModel, ChatRequest, ModelError, ModelEvent, ModelInfo};
use deerflow_net::reqwest::header::HeaderMap;
use futures::StreamExt as _;
use futures::future::ready;
use futures::stream::{self, BoxStream};
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use url::Url;

/// A model behind a Responses endpoint.
pub(crate) struct ResponsesModel {
    pub(crate) settings: Settings,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) endpoint: Arc<Endpoint>,
}

/// Names the service and model that can read a reasoning item.
pub(crate) fn origin(url: &Url, model: &str) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}/{model}", url.host_str().unwrap_or_default())
}

impl ChatModel for ResponsesModel {
    fn info(&self) -> &ModelInfo {
        &self.settings.info
    }

    fn stream(
        &self,
        request: ChatRequest,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let rules =
            if self.settings.info.supports_vision { Rules::responses() } else { Rules::responses().without_vision() };
        let origin = origin(&self.url, &self.settings.info.model);
        let body = request::build(&self.settings, &rules, &request, Some(&origin));
        let keep = Keep { blocks: self.settings.content_blocks, origin };
        let (url, headers, endpoint) = (self.url.clone(), self.headers.clone(), Arc::clone(&self.endpoint));
        let call = move |body: Value, cancel: CancellationToken| {
            let decoder = ResponsesDecoder::new(endpoint.errors.clone(), keep.clone());
            run(
                Arc::clone(&endpoint),
                WireRequest { url: url.clone(), headers: headers.clone(), body },
                decoder,
                cancel,
            )
        };
        if !has_reasoning(&body) {
            return call(body, cancel);
        }
        let without = request::build(&self.settings, &rules, &request, None);
        unless_refused(call(body, cancel.clone()), refuses_reasoning, move || call(without, cancel))
    }
}

pub(crate) fn has_reasoning(body: &Value) -> bool {
    let input = body.get("input").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    input.iter().any(|item| item.get("type").and_then(Value::as_str) == Some("reasoning"))
}

/// `first`, or `second` if the provider refuses the reasoning in it, which `refuses` tells. A thread must not end there.
pub(crate) fn unless_refused(
    mut first: BoxStream<'static, Result<ModelEvent, ModelError>>,
    refuses: fn(&ModelError) -> bool,
    second: impl FnOnce() -> BoxStream<'static, Result<ModelEvent, ModelError>> + Send + 'static,
) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let begun = async move {
        match first.next().await {
            Some(Err(error)) if refuses(&error) => {
                tracing::warn!(%error, "sending the request again without the reasoning of earlier turns");
                second()
            }
            Some(item) => stream::once(ready(item)).chain(first).boxed(),
            None => first,
        }
    };
    stream::once(begun).flatten().boxed()
}

/// The key was changed for one of another organisation, or the secret has grown too old.
pub(crate) fn refuses_reasoning(error: &ModelError) -> bool {
    let said = error.message.to_lowercase();
    error.status == Some(400) && (said.contains("encrypted content") || said.contains("encrypted_content"))
}
