//! What the tests of the middlewares share.

use deerflow_agent::{RunContext, Start};
use deerflow_core::{
    ChatModel, ChatRequest, EventSink, Message, ModelError, ModelEvent, ModelInfo, ModelTurn, RunId, StateUpdate,
    ThreadId, UserId,
};
use futures::stream::{self, BoxStream, StreamExt};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

pub(crate) fn context() -> RunContext {
    context_with(EventSink::none())
}

pub(crate) fn context_with(events: EventSink) -> RunContext {
    RunContext::new(
        UserId::local(),
        ThreadId::parse("thread").unwrap(),
        RunId::parse("run").unwrap(),
        CancellationToken::new(),
        events,
    )
}

/// The start of a run with a user's message.
pub(crate) fn says(text: &str) -> Start {
    Start::Input(StateUpdate::messages([Message::human(text)]))
}

/// Says one turn after the other, then `done`, and keeps what it was asked.
pub(crate) struct Script {
    info: ModelInfo,
    turns: Mutex<Vec<Message>>,
    requests: Mutex<Vec<ChatRequest>>,
}

pub(crate) fn script(turns: Vec<Message>) -> Arc<Script> {
    Arc::new(Script {
        info: ModelInfo::default(),
        turns: Mutex::new(turns.into_iter().rev().collect()),
        requests: Mutex::default(),
    })
}

impl Script {
    /// A script under a model name.
    pub(crate) fn named(name: &str, turns: Vec<Message>) -> Self {
        let info = ModelInfo { name: name.to_owned(), ..ModelInfo::default() };
        Self { info, turns: Mutex::new(turns.into_iter().rev().collect()), requests: Mutex::default() }
    }
    /// A script under a model name, of a model that takes images.
    pub(crate) fn seeing(name: &str, turns: Vec<Message>) -> Self {
        let mut script = Self::named(name, turns);
        script.info.supports_vision = true;
        script
    }
    pub(crate) fn requests(&self) -> MutexGuard<'_, Vec<ChatRequest>> {
        self.requests.lock().unwrap()
    }
    /// The messages of the n-th request.
    pub(crate) fn sent(&self, n: usize) -> Vec<Arc<Message>> {
        self.requests()[n].messages.clone()
    }
}

impl ChatModel for Script {
    fn info(&self) -> &ModelInfo {
        &self.info
    }
    fn stream(&self, request: ChatRequest, _: CancellationToken) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.requests.lock().unwrap().push(request);
        let message = self.turns.lock().unwrap().pop().unwrap_or_else(|| Message::ai("done"));
        stream::iter([Ok(ModelEvent::Finished(Box::new(ModelTurn { message })))]).boxed()
    }
}
