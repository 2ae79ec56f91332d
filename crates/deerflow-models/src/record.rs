//! Recording of real exchanges: request body and raw reply, as one JSONL file that [`crate::replay`] reads.
//!
//! The first line describes the model. Headers are not recorded, except those of the reply that say how to read it.

use crate::errors::ErrorContext;
use crate::transport::{Transport, WireRequest, WireResponse};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use deerflow_config::{ModelProfile, redact_value};
use deerflow_core::ModelError;
use deerflow_net::reqwest::header::HeaderMap;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// Version of the format.
pub(crate) const FORMAT: u64 = 1;
/// Headers of a reply that are worth keeping.
const KEPT: &[&str] = &["content-type", "retry-after", "retry-after-ms", "location"];

/// The first line of a recording.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) deerflow_recording: u64,
    /// The profile that was recorded, without its secrets.
    pub(crate) profile: Value,
}

/// One exchange.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) request: Value,
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// The body as the network cut it.
    pub(crate) chunks: Vec<Chunk>,
    /// Why the body broke off, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) broken: Option<String>,
}

/// A piece of a body: text where it is text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Chunk {
    Text(String),
    Binary { base64: String },
}

impl Chunk {
    fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Binary { base64: BASE64.encode(bytes) },
        }
    }
    /// The bytes; `None` when the base64 is damaged.
    pub(crate) fn bytes(&self) -> Option<Bytes> {
        match self {
            Self::Text(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
            Self::Binary { base64 } => BASE64.decode(base64).ok().map(Bytes::from),
        }
    }
}

/// Passes exchanges through and writes them down.
pub(crate) struct Recorder {
    inner: Arc<dyn Transport>,
    file: Arc<Sink>,
}

struct Sink {
    path: PathBuf,
    header: String,
    errors: ErrorContext,
    lock: Mutex<()>,
}

impl Recorder {
    pub(crate) fn new(inner: Arc<dyn Transport>, path: &Path, profile: &ModelProfile, errors: ErrorContext) -> Self {
        let mut profile = serde_json::to_value(profile).unwrap_or_default();
        redact_value(&mut profile);
        if let Value::Object(profile) = &mut profile {
            profile.remove("record_to");
        }
        let header = json!(Header { deerflow_recording: FORMAT, profile }).to_string();
        let file = Sink { path: path.to_owned(), header, errors, lock: Mutex::new(()) };
        Self { inner, file: Arc::new(file) }
    }
}

impl Transport for Recorder {
    fn send(&self, request: WireRequest) -> BoxFuture<'_, Result<WireResponse, ModelError>> {
        Box::pin(async move {
            let body = request.body.clone();
            let response = self.inner.send(request).await?;
            let entry =
                Entry { request: body, status: response.status, headers: kept(&response.headers), ..Entry::default() };
            let tape = Tape { body: response.body, entry: Some(entry), file: Arc::clone(&self.file) };
            Ok(WireResponse { body: tape.boxed(), ..response })
        })
    }
}

fn kept(headers: &HeaderMap) -> BTreeMap<String, String> {
    KEPT.iter().filter_map(|name| Some(((*name).to_owned(), headers.get(*name)?.to_str().ok()?.to_owned()))).collect()
}

impl Sink {
    /// Appends a line, and the header to a new file. One write of some kilobytes: not worth a thread.
    fn append(&self, entry: &Entry) {
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let result = (|| {
            if let Some(folder) = self.path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.path)?;
            let mut lines = String::new();
            if file.metadata()?.len() == 0 {
                lines.push_str(&self.header);
                lines.push('\n');
            }
            lines.push_str(&serde_json::to_string(entry)?);
            lines.push('\n');
            file.write_all(self.errors.redact(&lines).as_bytes())
        })();
        if let Err(error) = result {
            tracing::warn!(path = %self.path.display(), %error, "cannot write the recording");
        }
    }
}

/// A body that is written down when it ends or is dropped.
struct Tape {
    body: BoxStream<'static, Result<Bytes, String>>,
    entry: Option<Entry>,
    file: Arc<Sink>,
}

impl Tape {
    fn end(&mut self, broken: Option<String>) {
        if let Some(mut entry) = self.entry.take() {
            entry.broken = broken;
            self.file.append(&entry);
        }
    }
}

impl Stream for Tape {
    type Item = Result<Bytes, String>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = std::task::ready!(self.body.poll_next_unpin(cx));
        match &next {
            Some(Ok(bytes)) => {
                if let Some(entry) = &mut self.entry {
                    entry.chunks.push(Chunk::new(bytes));
                }
            }
            Some(Err(why)) => self.end(Some(why.clone())),
            None => self.end(None),
        }
        Poll::Ready(next)
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.end(None);
    }
}
