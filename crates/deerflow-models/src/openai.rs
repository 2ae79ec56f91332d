//! OpenAI chat completions, in the dialects of those who imitate it.

mod decoder;
pub(crate) use decoder::drop_half_call;
pub(crate) mod dialect;
mod reasoning;
mod request;
mod text_calls;
mod think;
mod usage;

use crate::errors::ErrorContext;
use crate::exchange::{Endpoint, run};
use crate::legalise::Rules;
use crate::settings::Settings;
use crate::transport::WireRequest;
use deerflow_core::{ChatModel, ChatRequest, ModelError, ModelEvent, ModelInfo};
use deerflow_net::reqwest::header::HeaderMap;
use dialect::Dialect;
use futures::stream::BoxStream;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use url::Url;

/// A model behind a chat-completions endpoint.
pub(crate) struct OpenAiModel {
    pub(crate) settings: Settings,
    pub(crate) dialect: &'static Dialect,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) endpoint: Arc<Endpoint>,
}

impl OpenAiModel {
    fn rules(&self) -> Rules {
        let rules = self.dialect.rules.clone();
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
        let body = request::build(&self.settings, self.dialect, &self.rules(), &request);
        let offered = request.tools.iter().map(|tool| tool.name.clone()).collect();
        let text_calls = self.settings.text_calls.unwrap_or(self.dialect.text_calls);
        let decoder = decoder::ChatDecoder::new(self.errors().clone(), self.dialect, text_calls, offered);
        let wire = WireRequest { url: self.url.clone(), headers: self.headers.clone(), body };
        run(Arc::clone(&self.endpoint), wire, decoder, cancel)
    }
}
