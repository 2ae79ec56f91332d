//! What a failure means and what to do about it.

mod classify;
mod google;

pub(crate) use classify::classify;

use crate::transport::root_cause;
use deerflow_core::{ModelError, ModelErrorKind, text};
use deerflow_net::reqwest::{self, header::HeaderMap};
use deerflow_net::{is_loopback, retry_after};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use std::time::Duration;
use url::Url;

/// What error texts name: the model, the host, where the key comes from. It also knows the keys, to keep them out.
#[derive(Debug, Clone)]
pub(crate) struct ErrorContext {
    /// Name of the model in the configuration.
    pub(crate) name: String,
    /// The provider's name for it.
    pub(crate) model: String,
    /// Where requests go.
    pub(crate) url: Url,
    /// The variable that holds the key by default.
    pub(crate) key_variable: Option<&'static str>,
    /// Whether there is a key at all.
    pub(crate) has_key: bool,
    /// Texts that must not appear anywhere.
    pub(crate) secrets: Vec<SecretString>,
}

/// Longest part of a provider's own words in an error, in characters.
const EXCERPT: usize = 600;

impl ErrorContext {
    /// `model `x` at host:port`
    fn who(&self) -> String {
        let host = self.url.host_str().unwrap_or("?");
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("model `{}` at {host}{port}", self.name)
    }

    /// The address without query and user, as people may see it.
    fn address(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.to_string()
    }

    /// `text` without any of our keys.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for secret in &self.secrets {
            let secret = secret.expose_secret();
            if secret.len() >= 4 {
                clean = clean.replace(secret, "[redacted]");
            }
        }
        clean
    }

    fn excerpt(&self, text: &str) -> String {
        text::ellipsis(&self.redact(text.trim()), EXCERPT)
    }

    /// An error of `kind` about this model.
    pub(crate) fn error(&self, kind: ModelErrorKind, what: &str) -> ModelError {
        ModelError::new(kind, format!("{}: {}", self.who(), self.excerpt(what)))
    }

    /// No connection, or none that lasted until the reply began.
    pub(crate) fn send_failed(&self, error: reqwest::Error) -> ModelError {
        let (connect, timeout) = (error.is_connect(), error.is_timeout());
        let cause = root_cause(&error.without_url());
        if !connect && !timeout {
            return self.error(ModelErrorKind::Transient, &format!("the request failed: {cause}"));
        }
        let what = format!("cannot reach {}: {cause}", self.address());
        let host = self.url.host_str().unwrap_or_default();
        let hint = if is_loopback(host) {
            format!("is the server running? Nothing answers at {}", self.address())
        } else {
            "check `base_url`, the network and the proxy settings".to_owned()
        };
        self.error(ModelErrorKind::Unreachable, &what).with_hint(hint)
    }

    /// Nothing came for too long.
    pub(crate) fn silent(&self, limit: Duration, before_reply: bool) -> ModelError {
        let what = if before_reply { "no reply" } else { "the reply fell silent" };
        self.error(ModelErrorKind::StreamInterrupted, &format!("{what} for {} s", limit.as_secs_f64()))
            .with_hint("raise `stream_chunk_timeout` if the model needs longer, or ask for less at once")
    }

    /// What came for too long was keep-alives.
    pub(crate) fn no_content(&self, limit: Duration) -> ModelError {
        let what = format!("the provider sent nothing but keep-alives for {} s", limit.as_secs_f64());
        self.error(ModelErrorKind::StreamInterrupted, &what)
            .with_hint("is the server overloaded? Raise `stream_chunk_timeout` if the model needs longer to begin")
    }

    /// The reply outgrew what one turn may hold.
    pub(crate) fn too_large(&self, what: &str, limit: usize) -> ModelError {
        let what = format!("{what} is larger than {} MiB", limit / (1024 * 1024));
        self.error(ModelErrorKind::BadResponse, &what)
            .with_hint("does the model repeat itself? Set `max_tokens`, or ask for less at once")
    }

    /// The whole exchange took too long.
    pub(crate) fn too_long(&self, limit: Duration) -> ModelError {
        self.error(ModelErrorKind::StreamInterrupted, &format!("no complete reply within {} s", limit.as_secs_f64()))
            .with_hint("raise `timeout` of the model, or ask for less at once")
    }

    /// The stream broke off before the turn was complete.
    pub(crate) fn broke_off(&self, why: &str) -> ModelError {
        self.error(ModelErrorKind::StreamInterrupted, &format!("the reply broke off: {why}"))
    }

    /// Something that should have been JSON of a certain shape is not.
    pub(crate) fn unreadable(&self, what: &str, data: &str) -> ModelError {
        let data = text::ellipsis(data.trim(), 200);
        self.error(ModelErrorKind::BadResponse, &format!("{what}: {data:?}"))
            .with_hint("is `base_url` the address of the API, and does `use` name its protocol?")
    }

    /// A reply with an error status.
    pub(crate) fn refused(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
        let body = String::from_utf8_lossy(body);
        let mut error = self.provider_error(Some(status), &body);
        error.retry_after = retry_after(headers, jiff::Timestamp::now()).or(error.retry_after);
        if (300..400).contains(&status) {
            let target = headers.get("location").and_then(|value| value.to_str().ok()).unwrap_or("elsewhere");
            error.hint = Some(format!("the server redirects to {}: correct `base_url`", self.excerpt(target)));
        }
        error
    }

    /// What a provider said, in an error reply or within a stream.
    pub(crate) fn provider_error(&self, status: Option<u16>, body: &str) -> ModelError {
        let said = Said::read(body);
        let google = google::Details::read(body);
        let kind = google.kind.unwrap_or_else(|| classify(status, &said));
        let status_text = status.map(|status| format!("HTTP {status}: ")).unwrap_or_default();
        let words = if said.message.is_empty() { "no explanation" } else { said.message.as_str() };
        let mut error = self.error(kind, &format!("{status_text}{words}"));
        error.status = status;
        error.retry_after = google.retry_after;
        error.hint = self.hint(kind, status, &said);
        error
    }

    fn hint(&self, kind: ModelErrorKind, status: Option<u16>, said: &Said) -> Option<String> {
        Some(match kind {
            ModelErrorKind::Auth => self.key_hint(),
            ModelErrorKind::Quota => {
                "the account has no credit or quota left: top it up, or choose another model".to_owned()
            }
            ModelErrorKind::UnknownModel if said.offers.is_empty() => {
                format!("the provider does not offer {:?}: correct `model` of `{}`", self.model, self.name)
            }
            ModelErrorKind::UnknownModel => format!("the provider offers: {}", self.excerpt(&said.offers.join(", "))),
            ModelErrorKind::ContextLength => "the conversation does not fit into the model's context window".to_owned(),
            ModelErrorKind::BadRequest if status == Some(404) => {
                format!("nothing answers at {}: correct `base_url`", self.address())
            }
            _ => return None,
        })
    }

    /// What to do about a key that is missing or refused.
    pub(crate) fn key_hint(&self) -> String {
        let verb = if self.has_key { "correct" } else { "set" };
        match self.key_variable {
            Some(variable) => {
                format!(
                    "{verb} the environment variable {variable}, or `api_key` of model `{}` in config.yaml",
                    self.name
                )
            }
            None => format!("{verb} `api_key` of model `{}` in config.yaml", self.name),
        }
    }
}

/// What an error body says, whatever its shape.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// The words for people.
    pub(crate) message: String,
    /// Those words, code and type in lower case: where a telling word is looked for.
    pub(crate) all: String,
    /// Models that the body lists.
    pub(crate) offers: Vec<String>,
}

impl Said {
    fn read(body: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            // Proxies answer in HTML; its tags help nobody.
            let plain = if body.trim_start().starts_with('<') { strip_tags(body) } else { body.trim().to_owned() };
            return Self { all: lower(&plain), message: plain, offers: Vec::new() };
        };
        // `[{"error": …}]` is how one gateway of Google wraps it.
        let value = value.get(0).cloned().unwrap_or(value);
        let inner = value.get("error").unwrap_or(&value);
        let message = match inner {
            Value::String(text) => text.clone(),
            inner => words(inner).or_else(|| words(&value)).unwrap_or_else(|| value.to_string()),
        };
        // OpenRouter puts the words of the provider behind it into the metadata.
        let raw = inner.pointer("/metadata/raw").and_then(Value::as_str).unwrap_or_default();
        let message = if raw.is_empty() { message } else { format!("{message}: {raw}") };
        let codes = ["code", "type", "status", "error_code"].iter().flat_map(|key| [inner.get(*key), value.get(*key)]);
        let codes: Vec<&str> = codes.flatten().filter_map(Value::as_str).collect();
        Self { all: lower(&format!("{message} {}", codes.join(" "))), message, offers: offers(&value) }
    }
}

fn lower(text: &str) -> String {
    text::head(text, 8_000).to_lowercase()
}

/// The words for people. Of a list of validation errors only their messages: they repeat the request, whose words mean
/// nothing here.
fn words(value: &Value) -> Option<String> {
    ["message", "detail", "msg", "error_msg", "error"].iter().find_map(|key| match value.get(*key)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Array(items) => {
            let said: Vec<String> = items.iter().filter_map(words).collect();
            (!said.is_empty()).then(|| said.join("; "))
        }
        inner @ Value::Object(_) => words(inner),
        _ => None,
    })
}

fn offers(value: &Value) -> Vec<String> {
    let lists = ["available_models", "models", "data"];
    let found = lists.iter().find_map(|key| {
        value.get(*key).or_else(|| value.get("error").and_then(|error| error.get(*key))).and_then(Value::as_array)
    });
    let name = |item: &Value| {
        item.as_str().or_else(|| item.get("id").or_else(|| item.get("name")).and_then(Value::as_str)).map(str::to_owned)
    };
    found.map(|items| items.iter().filter_map(name).take(30).collect()).unwrap_or_default()
}

fn strip_tags(html: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for c in html.chars() {
        match c {
            '<' => inside = true,
            '>' => {
                inside = false;
                text.push(' ');
            }
            c if !inside => text.push(c),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
