//! What the kernel asks of a tool.

use crate::{Content, EventSink, JsonMap, RunId, StateUpdate, ThreadId, ThreadState, ToolError, ToolStatus, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a model sees of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name it is called by.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of the arguments object.
    pub parameters: Value,
}

/// What resuming may do with a call that was begun and not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effects {
    /// Depends on its arguments only: run again.
    Pure,
    /// Changes nothing: run again.
    ReadOnly,
    /// The same key makes a second run harmless: run again.
    Idempotent,
    /// [`Tool::verify`] can tell whether it happened.
    Verifiable,
    /// [`Tool::call`] goes on with the child it started.
    Resumable,
    /// Unknown: never run again.
    Mutating,
}

impl Effects {
    /// Whether a start must be durable before the tool acts.
    #[must_use]
    pub fn needs_record(self) -> bool {
        !matches!(self, Self::Pure | Self::ReadOnly)
    }
}

/// What [`Tool::verify`] found.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "made once per resumed call and taken apart at once")]
pub enum Verdict {
    /// It happened; this is its result.
    Done(ToolOutput),
    /// It did not happen: run it.
    NotDone,
    /// Nobody can tell.
    Unknown,
}

/// Ids, cancellation, state and events for one call. Collaborators come through the tool's constructor instead.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// Owner of the thread.
    pub user_id: UserId,
    /// The thread.
    pub thread_id: ThreadId,
    /// The run.
    pub run_id: RunId,
    /// The call.
    pub call_id: String,
    /// Position of the call among those of its message.
    pub call_index: usize,
    /// Namespace of the lineage; empty for the lead agent.
    pub namespace: String,
    /// Stops the call, with every process it started.
    pub cancel: CancellationToken,
    /// State when the batch began.
    pub state: Arc<ThreadState>,
    /// Progress for the outside.
    pub events: EventSink,
}

/// A tool's result.
#[derive(Debug, Clone, Default)]
pub struct ToolOutput {
    /// What the model sees.
    pub content: Content,
    /// Structured payload for the client.
    pub artifact: Option<Value>,
    /// Whether it did what it was asked.
    pub status: ToolStatus,
    /// Extras of the tool message.
    pub additional_kwargs: JsonMap,
    /// Writes to other channels than `messages`, folded in call order.
    pub update: StateUpdate,
    /// Id of the tool message, where the protocol wants a certain one.
    pub message_id: Option<String>,
    /// Ends the run after this batch.
    pub end_run: bool,
}

impl ToolOutput {
    /// A successful result.
    #[must_use]
    pub fn text(content: impl Into<Content>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }
    /// A failed result; `text` should start with `Error:`.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self { content: Content::Text(text.into()), status: ToolStatus::Error, ..Self::default() }
    }
}

/// Something the model can call.
///
/// `spec` is pure. `call` may be cancelled at any await, and then must leave no process behind. A failure that the model can
/// act on is [`ToolError::Respond`].
#[async_trait::async_trait]
pub trait Tool: Send + Sync {
    /// What the model sees.
    fn spec(&self) -> &ToolSpec;
    /// What resuming may do with an unfinished call.
    fn effects(&self) -> Effects {
        Effects::Mutating
    }
    /// Facts to store before acting, so that [`Self::verify`] can tell later whether it happened.
    async fn fingerprint(&self, _ctx: &ToolContext, _args: &JsonMap) -> Option<Value> {
        None
    }
    /// Whether an unfinished [`Effects::Verifiable`] call happened.
    async fn verify(&self, _ctx: &ToolContext, _args: &JsonMap, _fingerprint: &Value) -> Verdict {
        Verdict::Unknown
    }
    /// Does the work.
    async fn call(&self, ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError>;
}
