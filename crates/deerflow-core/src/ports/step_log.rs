//! The step log: the only durable write of a run.

use crate::run::Next;
use crate::{
    CheckpointId, JsonMap, Lineage, NodeUpdate, RunId, RunStatus, StateUpdate, StoreError, ThreadState, Usage,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// What a step was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The user's message and `before_agent`.
    Input,
    /// `before_model` to `after_model`.
    Model,
    /// The calls of one message.
    Tools,
    /// `after_agent`.
    End,
    /// Progress inside a tool batch: effects only, no checkpoint.
    Effects,
    /// A client's edit of the state. Without a fence it is refused while a run of the thread is live.
    Edit,
}

/// Proof that the writer still owns the run; checked in the same transaction as the write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// The run.
    pub run_id: RunId,
    /// Grows with every change of owner.
    pub epoch: u64,
}

/// A side effect of a tool call, before and after. Identity is `(run_id, step, index)`, since provider call ids repeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum EffectRecord {
    /// Written before the tool acts.
    Started {
        /// Number of the step that made the calls.
        step: u64,
        /// Position of the call in its message.
        index: usize,
        /// Provider's call id.
        call_id: String,
        /// The tool.
        tool: String,
        /// What [`crate::Tool::fingerprint`] gave.
        fingerprint: Option<Value>,
    },
    /// Written when the call has ended and a sibling has not.
    Finished {
        /// Number of the step that made the calls.
        step: u64,
        /// Position of the call in its message.
        index: usize,
        /// Its write, tool message included.
        update: Box<StateUpdate>,
        /// Whether it asked to end the run.
        end_run: bool,
    },
}

/// An effect of a batch that was not committed as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenEffect {
    /// Position of the call in its message.
    pub index: usize,
    /// Provider's call id.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// Facts stored before acting.
    pub fingerprint: Option<Value>,
    /// Its write and whether it asked to end the run, if it finished.
    pub finished: Option<(StateUpdate, bool)>,
}

/// A journal row to be written. The names of events and their categories are those of DeerFlow's run event stream; ours
/// beside them are `llm.usage`, `state.edit`, `run.recovered` and `run.rolled_back`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NewJournalRow {
    /// `message`, `outputs`, `error`, `trace`, `lifecycle` …
    pub category: String,
    /// What happened, `run.start` say.
    pub event: String,
    /// What it was: a message in the `message` category.
    pub content: Value,
    /// Facts about it: `caller`, `node`, `task_id`, `usage` …
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub metadata: JsonMap,
}

impl NewJournalRow {
    /// A row without metadata.
    #[must_use]
    pub fn new(category: impl Into<String>, event: impl Into<String>, content: Value) -> Self {
        Self { category: category.into(), event: event.into(), content, metadata: JsonMap::new() }
    }
    /// The same row with one more fact.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }
}

/// A journal row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalRow {
    /// Order within the thread, from 1 without gaps.
    pub seq: u64,
    /// The run.
    pub run_id: RunId,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
    /// What happened.
    #[serde(flatten)]
    pub row: NewJournalRow,
}

/// Terminal facts of a run, written with its last step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// Terminal status.
    pub status: RunStatus,
    /// Error text for people.
    pub error: Option<String>,
    /// Which limit ended it, if one did.
    pub stop_reason: Option<String>,
    /// Tokens of the run.
    pub usage: Usage,
}

/// One durable write of a run.
#[derive(Debug, Clone)]
pub struct StepCommit {
    /// Where it belongs.
    pub lineage: Lineage,
    /// Run that made it; `None` for an edit from outside a run.
    pub run_id: Option<RunId>,
    /// Checkpoint it was built on; `None` for the first.
    pub parent: Option<CheckpointId>,
    /// Whether the parent may be any checkpoint of the lineage (or none, to begin afresh) instead of its head. The new
    /// checkpoint becomes the head; what it leaves aside stays in the history.
    pub branch: bool,
    /// Proof of ownership; filled in by the runtime.
    pub fence: Option<Fence>,
    /// What the step was. [`StepKind::Effects`] makes no checkpoint.
    pub kind: StepKind,
    /// Number of the step in its lineage, from 0.
    pub step: u64,
    /// What the run goes on with.
    pub next: Next,
    /// Writes in order. Those of a tool batch are folded as concurrent ones.
    pub updates: Vec<NodeUpdate>,
    /// State after the writes, from which the store may take a snapshot.
    pub state: Arc<ThreadState>,
    /// Effects begun or finished.
    pub effects: Vec<EffectRecord>,
    /// Journal rows.
    pub events: Vec<NewJournalRow>,
    /// Set with the last step of a run.
    pub outcome: Option<RunOutcome>,
}

/// What a commit made.
#[derive(Debug, Clone, PartialEq)]
pub struct Committed {
    /// The new checkpoint; the parent for [`StepKind::Effects`].
    pub checkpoint_id: Option<CheckpointId>,
    /// Sequence numbers of the journal rows, in order.
    pub seqs: Vec<u64>,
    /// Last sequence number of the thread.
    pub last_seq: u64,
}

/// A checkpoint with its state.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// Its id.
    pub id: CheckpointId,
    /// The one before.
    pub parent: Option<CheckpointId>,
    /// Run that made it.
    pub run_id: Option<RunId>,
    /// What the step was.
    pub kind: StepKind,
    /// Number of the step.
    pub step: u64,
    /// What the run goes on with.
    pub next: Next,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
    /// State after the step.
    pub state: ThreadState,
    /// Effects of a tool batch that began after this checkpoint and was not committed.
    pub open_effects: Vec<OpenEffect>,
}

/// A checkpoint without its state.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    /// Its id.
    pub id: CheckpointId,
    /// The one before.
    pub parent: Option<CheckpointId>,
    /// Run that made it.
    pub run_id: Option<RunId>,
    /// What the step was.
    pub kind: StepKind,
    /// Number of the step.
    pub step: u64,
    /// What the run goes on with.
    pub next: Next,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
}

/// Durable history of threads.
#[async_trait]
pub trait StepLog: Send + Sync {
    /// Writes one step: all of it, or nothing. May hold the only connection that writes until it is done, so whoever began it
    /// polls it to the end or drops it, and does not wait for another write meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when the fence is stale; [`StoreError::StaleParent`] when the parent is not the head of its
    /// lineage; for a branch [`StoreError::NotFound`] when it is not in the lineage; [`StoreError::ThreadBusy`] for an edit
    /// beside a live run; [`StoreError::ModeMismatch`]; [`StoreError::DiskFull`] and others when the database fails.
    /// Nothing is written then.
    async fn commit(&self, commit: StepCommit) -> Result<Committed, StoreError>;

    /// A checkpoint of a lineage, the head when `at` is `None`. `Ok(None)` when the lineage is empty.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when `at` names no checkpoint of the lineage; [`StoreError::ModeMismatch`].
    async fn load(&self, lineage: &Lineage, at: Option<&CheckpointId>) -> Result<Option<Checkpoint>, StoreError>;

    /// Checkpoints of a lineage on all its branches, newest first, at most `limit`, those before `before` when given.
    ///
    /// # Errors
    /// When the database fails.
    async fn history(
        &self,
        lineage: &Lineage,
        before: Option<&CheckpointId>,
        limit: u32,
    ) -> Result<Vec<HistoryEntry>, StoreError>;
}
