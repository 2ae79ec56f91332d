//! Anthropic messages.

mod cache;
mod decoder;
mod request;
mod version;

use crate::exchange::{Endpoint, run};
use crate::legalise::Rules;
use crate::settings::Settings;
use crate::transport::WireRequest;
use deerflow_core::{ChatModel, ChatRequest, ModelError, ModelEvent, ModelInfo};
use deerflow_net::reqwest::header::HeaderMap;
use futures::stream::BoxStream;
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
        let decoder = decoder::MessagesDecoder::new(self.endpoint.errors.clone());
        let wire = WireRequest { url: self.url.clone(), headers: self.headers.clone(), body };
        run(Arc::clone(&self.endpoint), wire, decoder, cancel)
    }
}
