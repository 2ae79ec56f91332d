//! The Codex service of a ChatGPT subscription: Responses over the login of the Codex CLI.
//!
//! It always streams, stores nothing, wants instructions and refuses a bound on the answer. The CLI owns the login: we read
//! its file before every request, so that a login it renewed is ours too, and never renew it ourselves. A refresh token
//! can be used once; whoever spends it logs everybody else out.

mod credentials;
mod request;

pub(crate) use credentials::Credentials;

use crate::exchange::{Endpoint, run};
use crate::legalise::Rules;
use crate::responses::{Keep, ResponsesDecoder, has_reasoning, origin, refuses_reasoning, unless_refused};
use crate::settings::Settings;
use crate::transport::WireRequest;
use credentials::{Login, Refused};
use deerflow_core::{ChatModel, ChatRequest, ModelError, ModelErrorKind, ModelEvent, ModelInfo};
use deerflow_net::reqwest::header::{HeaderMap, HeaderValue};
use futures::StreamExt as _;
use futures::future::ready;
use futures::stream::{self, BoxStream};
use secrecy::ExposeSecret as _;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use url::Url;

/// A model behind the Codex service.
pub(crate) struct CodexModel {
    settings: Settings,
    call: Arc<Caller>,
}

impl CodexModel {
    pub(crate) fn new(
        settings: Settings,
        url: Url,
        headers: HeaderMap,
        endpoint: Arc<Endpoint>,
        credentials: Credentials,
    ) -> Self {
        let keep = Keep { blocks: settings.content_blocks, origin: origin(&url, &settings.info.model) };
        let call = Caller { url, headers, endpoint, credentials, keep, failures: AtomicU32::new(0) };
        Self { settings, call: Arc::new(call) }
    }
}

impl ChatModel for CodexModel {
    fn info(&self) -> &ModelInfo {
        &self.settings.info
    }

    fn stream(
        &self,
        request: ChatRequest,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        // Images become a note: the service takes them, and the original sends text only.
        let rules = Rules::responses().without_vision();
        let origin = self.call.keep.origin.clone();
        let body = request::build(&self.settings, &rules, &request, Some(&origin));
        if !has_reasoning(&body) {
            return Arc::clone(&self.call).stream(body, cancel);
        }
        let without = request::build(&self.settings, &rules, &request, None);
        let again = Arc::clone(&self.call);
        let first = Arc::clone(&self.call).stream(body, cancel.clone());
        unless_refused(first, refuses_reasoning, move || again.stream(without, cancel))
    }
}

/// What all requests of a model share.
struct Caller {
    url: Url,
    headers: HeaderMap,
    endpoint: Arc<Endpoint>,
    credentials: Credentials,
    keep: Keep,
    /// Failures in a row that a pause may mend.
    failures: AtomicU32,
}

impl Caller {
    fn stream(
        self: Arc<Self>,
        body: Value,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let begun = async move {
            let login = tokio::select! {
                biased;
                () = cancel.cancelled() => Err(ModelError::cancelled()),
                login = self.credentials.read() => login.map_err(|refused| self.refused(&refused)),
            };
            match login {
                Err(error) => stream::once(ready(Err(error))).boxed(),
                Ok(login) => self.with(&login, body, cancel),
            }
        };
        stream::once(begun).flatten().boxed()
    }

    fn with(
        self: Arc<Self>,
        login: &Login,
        body: Value,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let mut headers = self.headers.clone();
        let mut add = |name: &'static str, text: &str| {
            let mut value = HeaderValue::try_from(text).map_err(|_| self.refused(&Refused::Damaged))?;
            value.set_sensitive(true);
            headers.insert(name, value);
            Ok::<_, ModelError>(())
        };
        let bearer = format!("Bearer {}", login.token.expose_secret());
        let account = login.account.as_deref().map_or(Ok(()), |account| add("chatgpt-account-id", account));
        if let Err(error) = account.and_then(|()| add("authorization", &bearer)) {
            return stream::once(ready(Err(error))).boxed();
        }
        // The token of this request has to stay out of its errors.
        let mut errors = self.endpoint.errors.clone();
        errors.secrets.push(login.token.clone());
        errors.has_key = true;
        let decoder = ResponsesDecoder::new(errors.clone(), self.keep.clone());
        let endpoint = Arc::new(self.endpoint.with_errors(errors));
        let wire = WireRequest { url: self.url.clone(), headers, body };
        run(endpoint, wire, decoder, cancel).map(move |item| self.note(item)).boxed()
    }

    /// An error of the login, and what to do about it.
    fn refused(&self, refused: &Refused) -> ModelError {
        self.endpoint.errors.error(ModelErrorKind::Auth, &refused.to_string()).with_hint(refused.hint())
    }

    /// Says how to log in, and how long to wait: 2 s after the first failure in a row, then twice that, up to 8 s. Whoever
    /// owns the retries waits that long.
    fn note(&self, item: Result<ModelEvent, ModelError>) -> Result<ModelEvent, ModelError> {
        match item {
            Ok(ModelEvent::Finished(turn)) => {
                self.failures.store(0, Ordering::Relaxed);
                Ok(ModelEvent::Finished(turn))
            }
            Err(mut error) => {
                if error.kind == ModelErrorKind::Auth {
                    error.hint = Some(Refused::Stale.hint().to_owned());
                }
                if matches!(error.status, Some(429 | 500 | 529)) && error.kind.is_retriable() {
                    let before = self.failures.fetch_add(1, Ordering::Relaxed);
                    error.retry_after.get_or_insert(Duration::from_secs(2 << before.min(2)));
                }
                Err(error)
            }
            delta => delta,
        }
    }
}
