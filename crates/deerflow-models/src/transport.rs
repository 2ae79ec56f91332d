//! How a request reaches its provider, and how the reply's bytes come back: over HTTP, or from a recording.

use crate::errors::ErrorContext;
use bytes::Bytes;
use deerflow_core::{ModelError, ModelErrorKind};
use deerflow_net::reqwest::{self, header::HeaderMap};
use deerflow_net::{HttpOptions, http_client};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt as _};
use serde_json::Value;
use std::time::Duration;
use tokio::sync::OnceCell;
use url::Url;

/// One request. Its headers may hold keys; the body never does.
#[derive(Debug, Clone)]
pub struct WireRequest {
    /// Where to.
    pub url: Url,
    /// Headers; those with keys are marked sensitive.
    pub headers: HeaderMap,
    /// The JSON body.
    pub body: Value,
}

/// A reply, whose body is still to come.
pub struct WireResponse {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The body as the network cut it. An error ends it.
    pub body: BoxStream<'static, Result<Bytes, String>>,
}

/// Carries requests to a provider.
pub trait Transport: Send + Sync {
    /// Sends a request and waits for the head of the reply. Dropping the future, or the body, stops the exchange.
    fn send(&self, request: WireRequest) -> BoxFuture<'_, Result<WireResponse, ModelError>>;
}

/// The real thing.
pub(crate) struct HttpTransport {
    options: HttpOptions,
    /// Made at the first request: a start without a model call need not load certificates.
    client: OnceCell<reqwest::Client>,
    errors: ErrorContext,
}

impl HttpTransport {
    pub(crate) fn new(connect_timeout: Option<Duration>, errors: ErrorContext) -> Self {
        let mut options = HttpOptions { tls: errors.url.scheme() == "https", ..HttpOptions::default() };
        if let Some(timeout) = connect_timeout {
            options.connect_timeout = timeout;
        }
        Self { options, client: OnceCell::new(), errors }
    }

    async fn client(&self) -> Result<&reqwest::Client, ModelError> {
        let make = || async {
            let options = self.options.clone();
            let made = if options.tls {
                match tokio::task::spawn_blocking(move || http_client(&options)).await {
                    Ok(made) => made,
                    Err(error) => return Err(self.errors.error(ModelErrorKind::Transient, &error.to_string())),
                }
            } else {
                http_client(&options)
            };
            made.map_err(|error| self.errors.error(ModelErrorKind::Unreachable, &error.to_string()))
        };
        self.client.get_or_try_init(make).await
    }
}

impl Transport for HttpTransport {
    fn send(&self, request: WireRequest) -> BoxFuture<'_, Result<WireResponse, ModelError>> {
        Box::pin(async move {
            let response = self
                .client()
                .await?
                .post(request.url)
                .headers(request.headers)
                .json(&request.body)
                .send()
                .await
                .map_err(|error| self.errors.send_failed(error))?;
            Ok(WireResponse {
                status: response.status().as_u16(),
                headers: response.headers().clone(),
                body: response
                    .bytes_stream()
                    .map(|chunk| chunk.map_err(|error| root_cause(&error.without_url())))
                    .boxed(),
            })
        })
    }
}

/// The innermost reason of an error: reqwest's own text only says that something failed.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
