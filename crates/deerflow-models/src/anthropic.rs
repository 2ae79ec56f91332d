//! Anthropic messages.

mod blocks;
mod cache;
mod decoder;
mod request;
mod version;

use crate::exchange::{Endpoint, run};
use crate::legalise::Rules;
use crate::responses::unless_refused;
use crate::settings::Settings;
use crate::transport::WireRequest;
use deerflow_core::{ChatModel, ChatRequest, ModelError, ModelEvent, ModelInfo};
use deerflow_net::reqwest::header::HeaderMap;
use futures::stream::BoxStream;
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use url::Url;

/// A model behind a messages endpoint.
pub(crate) struct AnthropicModel {
    pub(crate) settings: Settings,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) endpoint: Arc<Endpoint>,
}

impl ChatModel for AnthropicModel {
    fn info(&self) -> &ModelInfo {
        &self.settings.info
    }

    fn stream(
        &self,
        request: ChatRequest,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let rules =
            if self.settings.info.supports_vision { Rules::anthropic() } else { Rules::anthropic().without_vision() };
        let body = request::build(&self.settings, &rules, &request);
        let (url, headers, endpoint) = (self.url.clone(), self.headers.clone(), Arc::clone(&self.endpoint));
        let call = move |body: Value, cancel: CancellationToken| {
            let decoder = decoder::MessagesDecoder::new(endpoint.errors.clone());
            let wire = WireRequest { url: url.clone(), headers: headers.clone(), body };
            run(Arc::clone(&endpoint), wire, decoder, cancel)
        };
        if !request::has_thinking(&body) {
            return call(body, cancel);
        }
        let without = request::build(&self.settings, &rules.without_thinking(), &request);
        unless_refused(call(body, cancel.clone()), refuses_thinking, move || call(without, cancel))
    }
}

/// Thinking is bound to the model that made it and to all that stood before it, and a history that was compacted since is
/// another one (<https://platform.claude.com/docs/en/build-with-claude/preserved-thinking>). A thread must not end there.
fn refuses_thinking(error: &ModelError) -> bool {
    let said = error.message.to_lowercase();
    error.status == Some(400) && said.contains("thinking") && (said.contains("signature") || said.contains("block"))
}
