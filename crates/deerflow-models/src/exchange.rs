//! One model call: send, read, decode, finish. Shared by all adapters.

use crate::errors::ErrorContext;
use crate::transport::{Transport, WireRequest, WireResponse};
use deerflow_core::{Message, MessageDelta, ModelError, ModelErrorKind, ModelEvent, ModelTurn};
use deerflow_net::{SseDecoder, SseEvent, SseOptions, reqwest::header::CONTENT_TYPE};
use futures::FutureExt as _;
use futures::stream::{self, BoxStream, StreamExt as _};
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
    fn head_timeout(&self) -> Duration {
        if self.streaming {
            self.chunk_timeout
        } else {
            self.total_timeout.unwrap_or(WHOLE_REPLY).max(self.chunk_timeout)
        }
    }
}

/// After the turn is over only usage can follow; nobody waits long for that.
const AFTER_THE_END: Duration = Duration::from_secs(5);
/// Longest wait for a reply that comes whole, unless the profile says otherwise.
const WHOLE_REPLY: Duration = Duration::from_secs(600);
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
        watch: Watch { endpoint, cancel, deadline },
        decoder,
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
        let kind = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "application/json" => {
                let body = self.watch.collect(head, MAX_BODY).await.map_err(|(error, _)| error)?;
                self.decoder.body(&String::from_utf8_lossy(&body), &mut self.out)?;
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
        let chunk = match self.watch.wait(body.next(), patience, false).await {
            Ok(chunk) => chunk,
            Err(error) if complete && error.kind != ModelErrorKind::Cancelled => None,
            Err(error) => return self.end(Some(error)),
        };
        let mut cut = None;
        match chunk {
            Some(Ok(bytes)) => {
                if sse.push(&bytes).is_err() {
                    cut = Some(endpoint.errors.unreadable("an event of the stream is too large", ""));
                }
            }
            Some(Err(why)) => cut = Some(endpoint.errors.broke_off(&why)),
            None => {
                sse.finish();
                cut = Some(endpoint.errors.broke_off("the connection closed before the turn was complete"));
            }
        }
        while let Some(event) = sse.next_event() {
            if self.decoder.event(&event, &mut self.out)? == Flow::Done {
                // Reading the end of the body lets the connection be used again; it is usually here already.
                let _ = body.next().now_or_never();
                return self.end(None);
            }
        }
        if cut.is_some() {
            return self.end(cut);
        }
        self.phase = Phase::Events { body, sse };
        Ok(None)
    }

    fn end(&mut self, cut: Option<ModelError>) -> Result<Option<Message>, ModelError> {
        match cut.filter(|_| !self.decoder.is_complete()) {
            Some(error) => Err(error),
            None => self.decoder.finish(&mut self.out).map(Some),
        }
    }
}

/// Bounds on waiting: cancellation, silence, the deadline of the whole exchange.
struct Watch {
    endpoint: Arc<Endpoint>,
    cancel: CancellationToken,
    deadline: Option<Instant>,
}

impl Watch {
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
        }
    }

    /// The whole body, or why not and what came of it.
    async fn collect(&self, mut head: WireResponse, limit: usize) -> Result<Vec<u8>, (ModelError, Vec<u8>)> {
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
                    all.extend_from_slice(&chunk);
                }
            }
        }
    }
}
