//! One model call: send, read, decode, finish. Shared by all adapters.

use crate::errors::ErrorContext;
use crate::transport::{Transport, WireRequest, WireResponse};
use deerflow_core::{Message, MessageDelta, ModelError, ModelErrorKind, ModelEvent, ModelTurn};
use deerflow_net::{SseDecoder, SseEvent, SseOptions, reqwest::header::CONTENT_TYPE};
use futures::FutureExt as _;
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Understands the replies of one wire protocol.
pub(crate) trait Decoder: Send + 'static {
    /// Takes one event of a stream; what it says goes into `out`.
    fn event(&mut self, event: &SseEvent, out: &mut Vec<MessageDelta>) -> Result<Flow, ModelError>;
    /// Takes a reply that came whole.
    fn body(&mut self, body: &str, out: &mut Vec<MessageDelta>) -> Result<(), ModelError>;
    /// How much content has come, in bytes: text, thinking and calls, also what is held back.
    fn received(&self) -> usize;
    /// Whether the provider has said that the turn is over, so that a stream that ends now is complete.
    fn is_complete(&self) -> bool;
    /// The finished message; what was held back until now goes into `out`. Called once, when the turn is complete.
    fn finish(&mut self, out: &mut Vec<MessageDelta>) -> Result<Message, ModelError>;
}

/// Whether more events are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    More,
    Done,
}

/// How much content a piece of a reply holds, in bytes: its texts, at any depth.
pub(crate) fn content_bytes(piece: &Value) -> usize {
    match piece {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(content_bytes).sum(),
        // These say what a piece is; an empty piece has them too.
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| *key != "role" && *key != "type")
            .map(|(_, value)| content_bytes(value))
            .sum(),
        _ => 0,
    }
}

/// Where and how an adapter's requests go.
pub(crate) struct Endpoint {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) errors: ErrorContext,
    /// Longest silence.
    pub(crate) chunk_timeout: Duration,
    /// Longest exchange, if bounded.
    pub(crate) total_timeout: Option<Duration>,
    /// Whether replies come in pieces. One that comes whole is silent until it is complete.
    pub(crate) streaming: bool,
}

impl Endpoint {
    /// The same with other secrets to keep out of error texts.
    pub(crate) fn with_errors(&self, errors: ErrorContext) -> Self {
        Self { transport: Arc::clone(&self.transport), errors, ..*self }
    }

    /// The same for a reply that comes whole.
    pub(crate) fn without_streaming(&self) -> Self {
        Self { transport: Arc::clone(&self.transport), errors: self.errors.clone(), streaming: false, ..*self }
    }

    fn head_timeout(&self) -> Duration {
        if self.streaming {
            self.chunk_timeout
        } else {
            self.total_timeout.unwrap_or(WHOLE_REPLY).max(self.chunk_timeout)
        }
    }

    /// Longest time without content, while keep-alives come.
    fn content_timeout(&self) -> Duration {
        self.chunk_timeout.saturating_mul(10).min(NO_CONTENT).max(self.head_timeout())
    }
}

/// After the turn is over only usage can follow; nobody waits long for that.
const AFTER_THE_END: Duration = Duration::from_secs(5);
/// Longest wait for a reply that comes whole, unless the profile says otherwise.
const WHOLE_REPLY: Duration = Duration::from_secs(600);
/// Nobody waits longer than this for a reply that keeps saying that it will come.
const NO_CONTENT: Duration = Duration::from_secs(30 * 60);
/// Longest content of one reply: text, thinking and calls, in bytes.
const MAX_CONTENT: usize = 16 * 1024 * 1024;
/// Longest stream, in bytes. Each token comes in some hundred bytes of JSON, so this is far more than its content.
const MAX_STREAM: usize = 128 * 1024 * 1024;
/// Longest reply that comes whole, in bytes.
const MAX_BODY: usize = 64 * 1024 * 1024;
/// How much of an error body is read, in bytes.
const MAX_ERROR_BODY: usize = 256 * 1024;

/// Runs one call as a stream of events.
pub(crate) fn run<D: Decoder>(
    endpoint: Arc<Endpoint>,
    request: WireRequest,
    decoder: D,
    cancel: CancellationToken,
) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let now = Instant::now();
    let deadline = endpoint.total_timeout.and_then(|limit| now.checked_add(limit));
    let call = Call {
        watch: Watch { endpoint, cancel, deadline, content_deadline: None },
        decoder,
        stream_bytes: 0,
        ending: false,
        phase: Phase::Start(Box::new(request)),
        out: Vec::new(),
        ready: VecDeque::new(),
    };
    stream::unfold(call, |mut call| async move {
        let item = call.next().await?;
        Some((item, call))
    })
    .boxed()
}

enum Phase {
    Start(Box<WireRequest>),
    Events { body: BoxStream<'static, Result<bytes::Bytes, String>>, sse: Box<SseDecoder> },
    Over,
}

struct Call<D> {
    watch: Watch,
    decoder: D,
    /// Length of the stream so far.
    stream_bytes: usize,
    /// Whether the turn is over and only usage can follow.
    ending: bool,
    phase: Phase,
    /// What the last step decoded.
    out: Vec<MessageDelta>,
    ready: VecDeque<Result<ModelEvent, ModelError>>,
}

impl<D: Decoder> Call<D> {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            // Cancelling stops at once, also what is already here.
            if self.watch.cancel.is_cancelled() && !matches!(self.phase, Phase::Over) {
                self.phase = Phase::Over;
                return Some(Err(ModelError::cancelled()));
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            // Taking the phase out means that a step that does not go on drops the connection.
            let step = match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Over => return None,
                Phase::Start(request) => self.start(*request).await,
                Phase::Events { body, sse } => self.read(body, sse).await,
            };
            // What was decoded before a failure comes before it.
            self.ready.extend(self.out.drain(..).map(|delta| Ok(ModelEvent::Delta(delta))));
            match step {
                Ok(None) => {}
                Ok(Some(message)) => self.ready.push_back(Ok(ModelEvent::Finished(Box::new(ModelTurn { message })))),
                Err(error) if error.kind == ModelErrorKind::Cancelled => {
                    self.ready.clear();
                    self.ready.push_back(Err(error));
                }
                Err(error) => self.ready.push_back(Err(error)),
            }
        }
    }

    async fn start(&mut self, request: WireRequest) -> Result<Option<Message>, ModelError> {
        let endpoint = Arc::clone(&self.watch.endpoint);
        let head = self.watch.wait(endpoint.transport.send(request), endpoint.head_timeout(), true).await??;
        if !(200..300).contains(&head.status) {
            let (status, headers) = (head.status, head.headers.clone());
            // A body that breaks off or never ends is no reason to lose the status.
            let body = self.watch.collect(head, MAX_ERROR_BODY).await.unwrap_or_else(|(_, partial)| partial);
            if self.watch.cancel.is_cancelled() {
                return Err(ModelError::cancelled());
            }
            return Err(endpoint.errors.refused(status, &headers, &body));
        }
        self.watch.content_within(endpoint.content_timeout());
        let kind = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "application/json" => {
                let body = self.watch.collect(head, MAX_BODY).await.map_err(|(error, _)| error)?;
                self.decoder.body(&String::from_utf8_lossy(&body), &mut self.out)?;
                self.bound_content()?;
                self.end(None)
            }
            "text/html" => {
                let body = self.watch.collect(head, MAX_ERROR_BODY).await.unwrap_or_else(|(_, partial)| partial);
                Err(endpoint.errors.unreadable("the reply is a web page", &String::from_utf8_lossy(&body)))
            }
            _ => {
                let sse = Box::new(SseDecoder::new(SseOptions::model_traffic()));
                self.phase = Phase::Events { body: head.body, sse };
                Ok(None)
            }
        }
    }

    /// Reads one chunk and decodes the events it completes.
    async fn read(
        &mut self,
        mut body: BoxStream<'static, Result<bytes::Bytes, String>>,
        mut sse: Box<SseDecoder>,
    ) -> Result<Option<Message>, ModelError> {
        let endpoint = Arc::clone(&self.watch.endpoint);
        let complete = self.decoder.is_complete();
        let patience = if complete { AFTER_THE_END.min(endpoint.chunk_timeout) } else { endpoint.chunk_timeout };
        if complete && !std::mem::replace(&mut self.ending, true) {
            // Keep-alives do not prolong this either.
            self.watch.content_within(patience);
        }
        let chunk = match self.watch.wait(body.next(), patience, false).await {
            Ok(chunk) => chunk,
            Err(error) if complete && error.kind != ModelErrorKind::Cancelled => None,
            Err(error) => return self.end(Some(error)),
        };
        let mut cut = None;
        match chunk {
            Some(Ok(bytes)) => {
                self.stream_bytes = self.stream_bytes.saturating_add(bytes.len());
                if self.stream_bytes > MAX_STREAM {
                    cut = Some(endpoint.errors.too_large("the stream of the reply", MAX_STREAM));
                } else if sse.push(&bytes).is_err() {
                    cut = Some(endpoint.errors.unreadable("an event of the stream is too large", ""));
                }
            }
            Some(Err(why)) => cut = Some(endpoint.errors.broke_off(&why)),
            None => {
                sse.finish();
                cut = Some(endpoint.errors.broke_off("the connection closed before the turn was complete"));
            }
        }
        let before = self.decoder.received();
        while let Some(event) = sse.next_event() {
            let flow = self.decoder.event(&event, &mut self.out)?;
            self.bound_content()?;
            if flow == Flow::Done {
                // Reading the end of the body lets the connection be used again; it is usually here already.
                let _ = body.next().now_or_never();
                return self.end(None);
            }
        }
        if cut.is_some() {
            return self.end(cut);
        }
        if !self.ending && self.decoder.received() > before {
            self.watch.content_within(endpoint.content_timeout());
        }
        self.phase = Phase::Events { body, sse };
        Ok(None)
    }

    fn bound_content(&self) -> Result<(), ModelError> {
        if self.decoder.received() > MAX_CONTENT {
            return Err(self.watch.endpoint.errors.too_large("the reply", MAX_CONTENT));
        }
        Ok(())
    }

    fn end(&mut self, cut: Option<ModelError>) -> Result<Option<Message>, ModelError> {
        match cut.filter(|_| !self.decoder.is_complete()) {
            Some(error) => Err(error),
            None => self.decoder.finish(&mut self.out).map(Some),
        }
    }
}

/// Bounds on waiting: cancellation, silence, traffic without content, the deadline of the whole exchange.
struct Watch {
    endpoint: Arc<Endpoint>,
    cancel: CancellationToken,
    deadline: Option<Instant>,
    /// Until when content has to come; set once the reply has begun.
    content_deadline: Option<Instant>,
}

impl Watch {
    /// Content has come, or is expected from now on.
    fn content_within(&mut self, limit: Duration) {
        self.content_deadline = Instant::now().checked_add(limit);
    }

    /// Waits for a part of the exchange, no longer than allowed.
    async fn wait<T>(
        &self,
        part: impl Future<Output = T>,
        patience: Duration,
        before_reply: bool,
    ) -> Result<T, ModelError> {
        let endpoint = &self.endpoint;
        let far = Instant::now() + Duration::from_secs(86_400 * 365);
        let silence = Instant::now().checked_add(patience).unwrap_or(far);
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(ModelError::cancelled()),
            value = part => Ok(value),
            () = tokio::time::sleep_until(silence) => Err(endpoint.errors.silent(patience, before_reply)),
            () = tokio::time::sleep_until(self.deadline.unwrap_or(far)) => {
                Err(endpoint.errors.too_long(endpoint.total_timeout.unwrap_or_default()))
            }
            () = tokio::time::sleep_until(self.content_deadline.unwrap_or(far)) => {
                Err(endpoint.errors.no_content(endpoint.content_timeout()))
            }
        }
    }

    /// The whole body, or why not and what came of it.
    async fn collect(&mut self, mut head: WireResponse, limit: usize) -> Result<Vec<u8>, (ModelError, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            match self.wait(head.body.next(), self.endpoint.head_timeout(), false).await {
                Err(error) => return Err((error, all)),
                Ok(None) => return Ok(all),
                Ok(Some(Err(why))) => return Err((self.endpoint.errors.broke_off(&why), all)),
                Ok(Some(Ok(chunk))) => {
                    if all.len() + chunk.len() > limit {
                        return Err((self.endpoint.errors.unreadable("the reply is too large", ""), all));
                    }
                    // White space before a reply keeps the connection alive.
                    if !chunk.trim_ascii().is_empty() {
                        self.content_within(self.endpoint.content_timeout());
                    }
                    all.extend_from_slice(&chunk);
                }
            }
        }
    }
}
