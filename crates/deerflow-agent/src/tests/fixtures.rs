//! A model that says what it is told, tools that record what they did, and a log that fails on demand.

use crate::{Agent, Middleware, RunContext};
use async_trait::async_trait;
use deerflow_core::ports::{Checkpoint, Committed, HistoryEntry, StepCommit, StepKind, StepLog};
use deerflow_core::*;
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// Answers from the history alone: the n-th assistant turn since the last user message is the n-th of the script.
pub(super) struct Script {
    info: ModelInfo,
    turns: Vec<Message>,
    pub(super) requests: Mutex<Vec<ChatRequest>>,
    /// Waits for cancellation in place of this turn.
    pub(super) hang_at: Option<usize>,
}

impl Script {
    pub(super) fn new(turns: Vec<Message>) -> Arc<Self> {
        Arc::new(Self {
            info: ModelInfo { name: "script".into(), ..Default::default() },
            turns,
            requests: Mutex::default(),
            hang_at: None,
        })
    }
    pub(super) fn hanging(turns: Vec<Message>, hang_at: usize) -> Arc<Self> {
        Arc::new(Self { info: ModelInfo::default(), turns, requests: Mutex::default(), hang_at: Some(hang_at) })
    }
}

impl ChatModel for Script {
    fn info(&self) -> &ModelInfo {
        &self.info
    }
    fn stream(
        &self,
        request: ChatRequest,
        _cancel: CancellationToken,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let turn =
            request.messages.iter().rev().take_while(|m| !m.is_real_user()).filter(|m| m.as_ai().is_some()).count();
        self.requests.lock().unwrap().push(request);
        if self.hang_at == Some(turn) {
            return stream::pending().boxed();
        }
        let message = self.turns.get(turn).cloned().unwrap_or_else(|| Message::ai("end of script"));
        let delta = MessageDelta::text(message.text().into_owned());
        let finished = ModelEvent::Finished(Box::new(ModelTurn { message }));
        stream::iter([Ok(ModelEvent::Delta(delta)), Ok(finished)]).boxed()
    }
}

pub(super) fn call(id: &str, name: &str, args: Value) -> ToolCall {
    ToolCall::new(id, name, args.as_object().cloned().unwrap_or_default())
}

/// Appends to a journal every time it acts.
pub(super) struct Recorder {
    spec: ToolSpec,
    effects: Effects,
    pub(super) acted: Mutex<Vec<String>>,
    pub(super) running: AtomicUsize,
    pub(super) most_at_once: AtomicUsize,
}

impl Recorder {
    pub(super) fn new(name: &str, effects: Effects) -> Arc<Self> {
        Arc::new(Self {
            spec: ToolSpec { name: name.into(), description: String::new(), parameters: json!({"type": "object"}) },
            effects,
            acted: Mutex::default(),
            running: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
        })
    }
    pub(super) fn count(&self) -> usize {
        self.acted.lock().unwrap().len()
    }
}

#[async_trait]
impl Tool for Recorder {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn effects(&self) -> Effects {
        self.effects
    }
    async fn fingerprint(&self, _ctx: &ToolContext, args: &JsonMap) -> Option<Value> {
        Some(args.get("text").cloned().unwrap_or_default())
    }
    async fn verify(&self, _ctx: &ToolContext, _args: &JsonMap, fingerprint: &Value) -> Verdict {
        let text = fingerprint.as_str().unwrap_or_default();
        if self.acted.lock().unwrap().iter().any(|t| t == text) {
            Verdict::Done(ToolOutput::text(format!("did {text}")))
        } else {
            Verdict::NotDone
        }
    }
    async fn call(&self, ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let text = args.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
        match text.as_str() {
            "panic" => panic!("boom at {}", "界"),
            "fail" => return Err(ToolError::respond("it does not work")),
            "fatal" => return Err(ToolError::Fatal("gone".into())),
            "hang" => {
                ctx.cancel.cancelled().await;
                return Err(ToolError::Cancelled);
            }
            _ => {}
        }
        let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        // The first call finishes last.
        for _ in 0..(20usize.saturating_sub(ctx.call_index * 5)) {
            tokio::task::yield_now().await;
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.acted.lock().unwrap().push(text.clone());
        let update = StateUpdate { artifacts: Some(vec![text.clone()]), ..Default::default() };
        Ok(ToolOutput { update, end_run: text == "end", ..ToolOutput::text(format!("did {text}")) })
    }
}

/// Fails from the n-th commit on: before writing, or after (the answer is lost).
pub(super) struct CrashingLog {
    pub(super) inner: Arc<crate::EphemeralLog>,
    pub(super) left: AtomicUsize,
    pub(super) after_write: bool,
    pub(super) kinds: Mutex<Vec<StepKind>>,
}

impl CrashingLog {
    pub(super) fn new(inner: Arc<crate::EphemeralLog>, survive: usize, after_write: bool) -> Arc<Self> {
        Arc::new(Self { inner, left: AtomicUsize::new(survive), after_write, kinds: Mutex::default() })
    }
}

#[async_trait]
impl StepLog for CrashingLog {
    async fn commit(&self, commit: StepCommit) -> Result<Committed, StoreError> {
        let crash = StoreError::Database("crashed".into());
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| Some(n.saturating_sub(1))).unwrap();
        if left == 0 {
            if self.after_write && !self.kinds.lock().unwrap().is_empty() {
                return Err(crash);
            }
            if self.after_write {
                self.kinds.lock().unwrap().push(commit.kind);
                self.inner.commit(commit).await?;
            }
            return Err(crash);
        }
        if !self.after_write {
            self.kinds.lock().unwrap().push(commit.kind);
        }
        self.inner.commit(commit).await
    }
    async fn load(&self, lineage: &Lineage, at: Option<&CheckpointId>) -> Result<Option<Checkpoint>, StoreError> {
        self.inner.load(lineage, at).await
    }
    async fn history(
        &self,
        lineage: &Lineage,
        before: Option<&CheckpointId>,
        limit: u32,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        self.inner.history(lineage, before, limit).await
    }
}

/// Its caller holds the only pen while it writes, and takes longer than a tool that only looks.
#[derive(Default)]
pub(super) struct OneAtATime {
    inner: crate::EphemeralLog,
    pen: tokio::sync::Mutex<()>,
}

#[async_trait]
impl StepLog for OneAtATime {
    async fn commit(&self, commit: StepCommit) -> Result<Committed, StoreError> {
        let _pen = self.pen.lock().await;
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        self.inner.commit(commit).await
    }
    async fn load(&self, lineage: &Lineage, at: Option<&CheckpointId>) -> Result<Option<Checkpoint>, StoreError> {
        self.inner.load(lineage, at).await
    }
    async fn history(
        &self,
        lineage: &Lineage,
        before: Option<&CheckpointId>,
        limit: u32,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        self.inner.history(lineage, before, limit).await
    }
}

pub(super) fn context() -> RunContext {
    context_with(EventSink::none())
}

pub(super) fn context_with(events: EventSink) -> RunContext {
    RunContext::new(
        UserId::local(),
        ThreadId::parse("t").unwrap(),
        RunId::parse("r").unwrap(),
        CancellationToken::new(),
        events,
    )
}

pub(super) fn agent(model: &Arc<Script>, tools: &[&Arc<Recorder>], chain: Vec<Arc<dyn Middleware>>) -> Agent {
    let tools = tools.iter().map(|t| (*t).clone() as Arc<dyn Tool>);
    Agent::builder(model.clone()).tools(tools).middleware(chain).build().unwrap()
}

pub(super) fn input(text: &str) -> crate::Start {
    crate::Start::Input(StateUpdate::messages([Message::human(text)]))
}

/// Roles and texts, without ids.
pub(super) fn story(state: &ThreadState) -> Vec<String> {
    state.messages.iter().map(|m| format!("{}:{}", m.role(), m.text())).collect()
}
