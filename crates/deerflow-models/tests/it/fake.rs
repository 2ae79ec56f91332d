//! A provider on loopback that says what it is told, cut as it is told.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response};
use axum::{Json, Router};
use deerflow_core::{ChatModel, ChatRequest, Message, MessageDelta, ModelError, ModelEvent};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How a reply ends.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    End,
    /// Nothing more comes, and the connection stays open.
    Hang,
    /// The connection breaks.
    Abort,
}

/// A reply.
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    chunks: Vec<Vec<u8>>,
    then: Then,
}

impl Reply {
    pub(crate) fn sse(text: &str) -> Self {
        Self::new(200, "text/event-stream; charset=utf-8", text)
    }
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", &body.to_string())
    }
    pub(crate) fn new(status: u16, kind: &str, text: &str) -> Self {
        let headers = vec![("content-type", kind.to_owned())];
        Self { status, headers, chunks: vec![text.as_bytes().to_vec()], then: Then::End }
    }
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
    /// Cuts the body into pieces of so many bytes.
    pub(crate) fn cut(mut self, bytes: usize) -> Self {
        self.chunks = self.chunks.concat().chunks(bytes).map(<[u8]>::to_vec).collect();
        self
    }
    pub(crate) fn then(mut self, then: Then) -> Self {
        self.then = then;
        self
    }
}

/// `data:` lines of these values, and `[DONE]`.
pub(crate) fn chunks(values: &[Value]) -> String {
    values.iter().map(|value| format!("data: {value}\n\n")).collect::<String>() + "data: [DONE]\n\n"
}

/// A chunk with this delta.
pub(crate) fn delta(delta: Value) -> Value {
    json!({"id": "c1", "model": "fake-1", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

/// A chunk with this finish reason.
pub(crate) fn finish(reason: &str) -> Value {
    json!({"id": "c1", "model": "fake-1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

/// Events of the messages interface.
pub(crate) fn events(values: &[Value]) -> String {
    let name = |value: &Value| value["type"].as_str().unwrap_or_default().to_owned();
    values.iter().map(|value| format!("event: {}\ndata: {value}\n\n", name(value))).collect()
}

#[derive(Default)]
struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    seen: Mutex<Vec<(String, HeaderMap, Value)>>,
}

pub(crate) struct Fake {
    pub(crate) base: String,
    shared: Arc<Shared>,
    dropped: mpsc::UnboundedReceiver<()>,
    _tasks: JoinSet<()>,
}

/// Reports when the server gives up on a body.
struct DropSignal(mpsc::UnboundedSender<()>);

impl Drop for DropSignal {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

impl Fake {
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let shared = Arc::new(Shared { replies: Mutex::new(replies.into_iter().collect()), seen: Mutex::default() });
        let (sender, dropped) = mpsc::unbounded_channel();
        let app = Router::new().fallback(answer).with_state((Arc::clone(&shared), sender));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { base, shared, dropped, _tasks: tasks }
    }
    /// Bodies of the requests so far.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.shared.seen.lock().unwrap().iter().map(|(_, _, body)| body.clone()).collect()
    }
    /// Path and query of the last request, and one of its headers.
    pub(crate) fn path_and_header(&self, name: &str) -> (String, String) {
        let seen = self.shared.seen.lock().unwrap();
        let (path, headers, _) = seen.last().unwrap();
        (path.clone(), headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default())
    }
    /// Waits until the server has seen the client give up.
    pub(crate) async fn client_gone(&mut self) {
        self.dropped.recv().await.unwrap();
    }
    /// A model that talks to this provider.
    pub(crate) fn model(&self, provider: &str, extra: Value) -> Arc<dyn ChatModel> {
        let mut profile =
            json!({"name": "main", "use": provider, "model": "fake", "api_key": "sk-secret-1", "base_url": self.base});
        for (key, value) in extra.as_object().unwrap() {
            profile[key] = value.clone();
        }
        deerflow_models::create_chat_model(&serde_json::from_value(profile).unwrap(), &|_| None).unwrap()
    }
}

type Context = (Arc<Shared>, mpsc::UnboundedSender<()>);

async fn answer(
    State((shared, sender)): State<Context>,
    uri: axum::http::Uri,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response<Body> {
    let path = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    shared.seen.lock().unwrap().push((path, headers, body));
    let reply = shared.replies.lock().unwrap().pop_front().expect("a reply for every request");
    let mut response = Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(*name, value);
    }
    let signal = DropSignal(sender);
    let then = reply.then;
    // A pause between chunks keeps the network from joining them again.
    let paced = stream::iter(reply.chunks).then(|chunk| async move {
        tokio::task::yield_now().await;
        Ok::<_, std::io::Error>(chunk)
    });
    let tail = stream::once(async move {
        let _signal = signal;
        match then {
            Then::End => Ok(Vec::new()),
            Then::Abort => {
                // What was said before has to leave first.
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                Err(std::io::Error::other("broken"))
            }
            Then::Hang => std::future::pending().await,
        }
    });
    response.body(Body::from_stream(paced.chain(tail))).unwrap()
}

/// Everything that a turn gave.
pub(crate) struct Outcome {
    pub(crate) deltas: Vec<MessageDelta>,
    pub(crate) result: Result<Message, ModelError>,
}

impl Outcome {
    pub(crate) fn text(&self) -> String {
        self.deltas.iter().map(|delta| delta.text.as_str()).collect()
    }
    pub(crate) fn message(self) -> Message {
        self.result.unwrap()
    }
    #[track_caller]
    pub(crate) fn error(self) -> ModelError {
        self.result.unwrap_err()
    }
}

/// Runs one turn to its end and checks the contract of the stream.
pub(crate) async fn run(model: &dyn ChatModel, request: ChatRequest) -> Outcome {
    run_until(model, request, CancellationToken::new()).await
}

pub(crate) async fn run_until(model: &dyn ChatModel, request: ChatRequest, cancel: CancellationToken) -> Outcome {
    let mut stream = model.stream(request, cancel);
    let mut deltas = Vec::new();
    loop {
        let result = match stream.next().await.expect("a stream ends with Finished or an error") {
            Ok(ModelEvent::Delta(delta)) => {
                deltas.push(delta);
                continue;
            }
            Ok(ModelEvent::Finished(turn)) => Ok(turn.message),
            Err(error) => Err(error),
        };
        assert!(stream.next().await.is_none(), "nothing follows the end");
        return Outcome { deltas, result };
    }
}

/// A request with these messages.
pub(crate) fn ask(messages: Vec<Message>) -> ChatRequest {
    ChatRequest { messages: messages.into_iter().map(Arc::new).collect(), ..ChatRequest::default() }
}

pub(crate) fn hello() -> ChatRequest {
    ask(vec![Message::human("hello")])
}
