//! The scripted model: a chat-completions server on a thread of its own.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
    serve::ListenerExt,
};
use futures::stream;
use serde_json::{Value, json};
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};

use crate::{
    Request, Turn, Violation, marked_turn,
    turn::Kind,
    violations,
    wire::{self, Step},
};

/// What a request without tools (a title, a summary) is answered with, unless the test scripts it.
pub const AUXILIARY_TEXT: &str = "Short scripted text";
const BODY_LIMIT: usize = 256 << 20;

type Program = Arc<dyn Fn(&Request) -> Turn + Send + Sync>;

/// A model that says what the test tells it to. Clones are the same model; with the last one the server stops and
/// every open connection breaks.
///
/// A request that offers tools gets the next pushed [`Turn`], else what [`ScriptedModel::always`] says, else what a
/// marker in it asks for ([`marked_turn`]), else status 400. A request without tools gets the next turn of
/// [`ScriptedModel::push_auxiliary`], else a marker's turn, else [`AUXILIARY_TEXT`].
///
/// The server runs on its own thread and clock: a test may block its runtime, or pause its time.
#[derive(Clone)]
pub struct ScriptedModel(Arc<Inner>);

struct Inner {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    script: Mutex<Script>,
    /// Requests received.
    received: watch::Sender<usize>,
    /// Replies whose reader left before their end.
    abandoned: watch::Sender<usize>,
}

#[derive(Default)]
struct Script {
    turns: VecDeque<Turn>,
    auxiliary: VecDeque<Turn>,
    program: Option<Program>,
    requests: Vec<Request>,
    forgets_requests: bool,
    counts: BTreeMap<String, u64>,
}

impl ScriptedModel {
    /// Starts a model on a free port of loopback.
    ///
    /// # Panics
    /// When the machine has no port or thread left.
    pub async fn start() -> Self {
        Self::listen(0).expect("loopback has a free port")
    }

    /// Starts a model on a port of loopback; 0 takes a free one.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn listen(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let app = Router::new()
            .route("/health", get(|| async { Json(json!({"status": "ok"})) }))
            .route("/v1/models", get(models))
            .route("/v1/chat/completions", post(complete))
            .route("/stats", get(stats))
            .route("/reset", post(reset))
            .layer(DefaultBodyLimit::max(BODY_LIMIT))
            .with_state(Arc::clone(&shared));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let thread = std::thread::Builder::new().name("scripted-model".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a reactor is running");
                let listener = listener.tap_io(|stream| {
                    // Only costs time when it fails.
                    let _ = stream.set_nodelay(true);
                });
                tokio::select! {
                    served = async { axum::serve(listener, app).await } => served.expect("accepting goes on for ever"),
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self(Arc::new(Inner { address, shared, stop: Some(stop), thread: Some(thread) })))
    }

    /// What to configure as `base_url`: `http://127.0.0.1:PORT/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.0.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Adds a turn for a request that offers tools.
    pub fn push(&self, turn: Turn) {
        self.script().turns.push_back(turn);
    }

    /// Adds turns for requests that offer tools.
    pub fn extend(&self, turns: impl IntoIterator<Item = Turn>) {
        self.script().turns.extend(turns);
    }

    /// Adds a turn for a request that offers no tools.
    pub fn push_auxiliary(&self, turn: Turn) {
        self.script().auxiliary.push_back(turn);
    }

    /// Answers every request that offers tools, once the pushed turns are used up, by a function of it.
    pub fn always(&self, program: impl Fn(&Request) -> Turn + Send + Sync + 'static) {
        self.script().program = Some(Arc::new(program));
    }

    /// Stops keeping requests: for long runs, where they would fill the memory.
    pub fn forget_requests(&self) {
        self.script().forgets_requests = true;
    }

    /// Every request so far, in the order in which they came.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.script().requests.clone()
    }

    /// The requests so far that offered tools.
    #[must_use]
    pub fn agent_requests(&self) -> Vec<Request> {
        self.requests().into_iter().filter(Request::offers_tools).collect()
    }

    /// The pushed turns that no request has taken yet.
    #[must_use]
    pub fn turns_left(&self) -> usize {
        self.script().turns.len()
    }

    /// How often each label was played.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.script().counts.clone()
    }

    /// Waits until so many requests have come in altogether.
    ///
    /// # Panics
    /// When that takes longer than [`crate::DEADLINE`].
    pub async fn received(&self, count: usize) {
        reaches(&self.0.shared.received, count, "requests to reach the model").await;
    }

    /// Waits until so many replies were left by their reader before the end, as a cancelled run must.
    ///
    /// # Panics
    /// When that takes longer than [`crate::DEADLINE`].
    pub async fn abandoned(&self, count: usize) {
        reaches(&self.0.shared.abandoned, count, "replies to be abandoned").await;
    }

    /// Asserts that in every captured request each tool call has exactly one result, right after it.
    ///
    /// # Panics
    /// When not, naming the request and the call.
    #[track_caller]
    pub fn assert_every_tool_call_answered(&self) {
        self.assert_none(Violation::is_about_answers);
    }

    /// Asserts that no captured request breaks a rule of [`Violation`].
    ///
    /// # Panics
    /// When one does, with all that is wrong.
    #[track_caller]
    pub fn assert_legal(&self) {
        self.assert_none(|_| true);
    }

    #[track_caller]
    fn assert_none(&self, relevant: impl Fn(&Violation) -> bool) {
        let mut report = String::new();
        for (number, request) in self.requests().iter().enumerate() {
            for violation in violations(&request.body).into_iter().filter(|violation| relevant(violation)) {
                report += &format!("\nrequest {number}: {violation}");
            }
        }
        assert!(report.is_empty(), "the model was sent what a provider refuses:{report}");
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.shared.script()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic over there has been reported over there.
            let _ = thread.join();
        }
    }
}

async fn reaches(counter: &watch::Sender<usize>, count: usize, what: &str) {
    let mut counter = counter.subscribe();
    crate::within(what, async move {
        let _ = counter.wait_for(|seen| *seen >= count).await;
    })
    .await;
}

impl Shared {
    fn script(&self) -> MutexGuard<'_, Script> {
        // A test that panicked while it held the lock leaves nothing half done.
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the request and picks its turn.
    fn take(&self, request: &Request) -> Turn {
        let mut script = self.script();
        if !script.forgets_requests {
            script.requests.push(request.clone());
        }
        let pushed = match request.offers_tools() {
            true => script.turns.pop_front(),
            false => script.auxiliary.pop_front(),
        };
        let program = script.program.clone().filter(|_| request.offers_tools());
        drop(script);
        // The program runs without the lock: it may look at the model itself.
        let turn = pushed
            .or_else(|| program.map(|program| program(request)))
            .or_else(|| marked_turn(request))
            .unwrap_or_else(|| if request.offers_tools() { exhausted() } else { auxiliary() });
        *self.script().counts.entry(turn.label.clone()).or_default() += 1;
        self.received.send_modify(|seen| *seen += 1);
        turn
    }
}

fn auxiliary() -> Turn {
    Turn::text(AUXILIARY_TEXT).label("auxiliary")
}

fn exhausted() -> Turn {
    let message = "the script has no turn left for this request";
    Turn::status(400).error(json!({"message": message, "type": "script_exhausted"})).label("exhausted")
}

async fn models() -> Json<Value> {
    Json(json!({"object": "list", "data": [{"id": "scripted", "object": "model", "owned_by": "testkit"}]}))
}

async fn stats(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let counts = shared.script().counts.clone();
    Json(json!({"requests": *shared.received.borrow(), "abandoned": *shared.abandoned.borrow(), "turns": counts}))
}

async fn reset(State(shared): State<Arc<Shared>>) -> StatusCode {
    let mut script = shared.script();
    script.counts.clear();
    script.requests.clear();
    shared.received.send_replace(0);
    shared.abandoned.send_replace(0);
    StatusCode::NO_CONTENT
}

async fn complete(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let body = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => {
            let error = json!({"error": {"message": error.to_string(), "type": "invalid_request_error"}});
            return (StatusCode::BAD_REQUEST, Json(error)).into_response();
        }
    };
    let text = |(name, value): (&header::HeaderName, &header::HeaderValue)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    };
    let request = Request { body, headers: headers.iter().filter_map(text).collect() };
    let turn = shared.take(&request);
    let mut reply = Reply::new(shared, Vec::new());
    if let Some(hold) = &turn.hold
        && (hold.after_tokens.is_none() || !request.is_streamed())
    {
        hold.gate.pass().await;
    }
    if let Kind::Status { code, retry_after, error } = &turn.kind {
        tokio::time::sleep(turn.first_token_after).await;
        reply.finish();
        let status = StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(json!({"error": error}))).into_response();
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, (*seconds).into());
        }
        return response;
    }
    let wire::Body { content_type, steps } = wire::body(&turn, &request);
    reply.steps = steps.into();
    let stream = stream::unfold(reply, |mut reply| async move { reply.next().await.map(|item| (item, reply)) });
    let head = [(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, "no-cache")];
    (head, Body::from_stream(stream)).into_response()
}

/// A reply being played. Dropped before its end, it counts as abandoned.
struct Reply {
    steps: VecDeque<Step>,
    start: Instant,
    shared: Arc<Shared>,
    finished: bool,
}

impl Reply {
    fn new(shared: Arc<Shared>, steps: Vec<Step>) -> Self {
        Self { steps: steps.into(), start: Instant::now(), shared, finished: false }
    }

    fn finish(&mut self) {
        self.finished = true;
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        while let Some(step) = self.steps.pop_front() {
            match step {
                Step::At(offset) => {
                    if offset > Duration::ZERO {
                        tokio::time::sleep_until(self.start + offset).await;
                    }
                }
                Step::Hold(gate) => gate.pass().await,
                Step::Send(bytes) => {
                    // The last bytes are the end of it, even if nobody asks for more.
                    self.finished = self.steps.is_empty();
                    return Some(Ok(bytes));
                }
                Step::Break => {
                    // Being pending once lets the server flush what was sent before.
                    tokio::task::yield_now().await;
                    self.steps.clear();
                    self.finish();
                    return Some(Err(io::Error::other("the script breaks the reply off here")));
                }
            }
        }
        self.finish();
        None
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.abandoned.send_modify(|seen| *seen += 1);
        }
    }
}
