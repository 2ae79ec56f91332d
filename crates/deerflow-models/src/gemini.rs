//! Gemini's own interface, `generateContent`.
//!
//! Calls come whole and often without an id. What the model thought is sealed in a signature that belongs to one part of
//! the turn; it goes back on that very part, to the service and model that made it.

mod address;
mod decoder;
mod finish;
mod options;
mod parts;
mod request;
mod schema;
mod thinking;
mod usage;
mod version;

pub(crate) use address::address;

use crate::exchange::{Endpoint, run};
use crate::legalise::Rules;
use crate::responses::{origin, unless_refused};
use crate::settings::Settings;
use crate::transport::WireRequest;
use deerflow_core::{ChatModel, ChatRequest, ModelError, ModelEvent, ModelInfo};
use deerflow_net::reqwest::header::HeaderMap;
use futures::stream::BoxStream;
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use url::Url;

/// A model behind a `generateContent` endpoint.
pub(crate) struct GeminiModel {
    pub(crate) settings: Settings,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) endpoint: Arc<Endpoint>,
}

impl GeminiModel {
    fn rules(&self) -> Rules {
        let rules = Rules::gemini();
        let rules =
            if version::images_in_results(&self.settings.info.model) { rules } else { rules.without_tool_images() };
        if self.settings.info.supports_vision { rules } else { rules.without_vision() }
    }
}

impl ChatModel for GeminiModel {
    fn info(&self) -> &ModelInfo {
        &self.settings.info
    }

    fn stream(
        &self,
        request: ChatRequest,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let rules = self.rules();
        let origin = origin(&self.url, &self.settings.info.model);
        let body = request::build(&self.settings, &rules, &request, Some(&origin));
        let seed = decoder::seed(&body);
        let offered: Arc<[String]> = request.tools.iter().map(|tool| tool.name.clone()).collect();
        let (url, headers, endpoint) = (self.url.clone(), self.headers.clone(), Arc::clone(&self.endpoint));
        let call = move |body: Value, cancel: CancellationToken| {
            let turn = decoder::Turn { seed: seed.clone(), offered: Arc::clone(&offered), origin: origin.clone() };
            let decoder = decoder::GeminiDecoder::new(endpoint.errors.clone(), turn);
            let wire = WireRequest { url: url.clone(), headers: headers.clone(), body };
            run(Arc::clone(&endpoint), wire, decoder, cancel)
        };
        if !request::has_signatures(&body) {
            return call(body, cancel);
        }
        let without = request::build(&self.settings, &rules, &request, None);
        unless_refused(call(body, cancel.clone()), refuses_signature, move || call(without, cancel))
    }
}

/// The key belongs to another project now, or the signature has grown too old. A thread must not end there.
fn refuses_signature(error: &ModelError) -> bool {
    let said = error.message.to_lowercase();
    let signature = said.contains("thought signature") || said.contains("thought_signature");
    error.status == Some(400) && signature && !said.contains("missing")
}
