//! OpenAI chat completions, with the quirks of those who imitate it.

mod decoder;
pub(crate) use decoder::drop_half_call;
mod newlines;
mod reasoning;
mod request;
mod text_calls;
mod think;
mod usage;

use crate::errors::ErrorContext;
use crate::exchange::{Endpoint, run};
use crate::legalise::Rules;
use crate::quirks::Quirks;
use crate::settings::Settings;
use crate::transport::WireRequest;
use deerflow_core::{ChatModel, ChatRequest, ModelError, ModelEvent, ModelInfo};
use deerflow_net::reqwest::header::HeaderMap;
use futures::stream::BoxStream;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use url::Url;

/// A model behind a chat-completions endpoint.
pub(crate) struct OpenAiModel {
    pub(crate) settings: Settings,
    pub(crate) quirks: &'static Quirks,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) endpoint: Arc<Endpoint>,
}

impl OpenAiModel {
    fn rules(&self) -> Rules {
        let rules = self.quirks.rules.clone();
        if self.settings.info.supports_vision { rules } else { rules.without_vision() }
    }
    fn errors(&self) -> &ErrorContext {
        &self.endpoint.errors
    }
}

impl ChatModel for OpenAiModel {
    fn info(&self) -> &ModelInfo {
        &self.settings.info
    }

    fn stream(
        &self,
        request: ChatRequest,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let quirks = self.quirks;
        let body = request::build(&self.settings, quirks, &self.rules(), &request);
        let whole = !request::streams(&self.settings, quirks, &request);
        let tool_calls = self.settings.tool_calls.unwrap_or(quirks.tool_calls);
        let decoder = decoder::ChatDecoder::new(self.errors().clone(), quirks, tool_calls, request.tools);
        let wire = WireRequest { url: self.url.clone(), headers: self.headers.clone(), body };
        let endpoint = if whole && self.endpoint.streaming {
            Arc::new(self.endpoint.without_streaming())
        } else {
            Arc::clone(&self.endpoint)
        };
        run(endpoint, wire, decoder, cancel)
    }
}
