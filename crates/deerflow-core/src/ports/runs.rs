//! Run rows and the journal.

use super::run_control::RunCounts;
use super::step_log::{Fence, JournalRow, NewJournalRow, RunOutcome};
use crate::{RunId, RunStatus, StateUpdate, StoreError, ThreadId, Usage, UserId};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `stop_reason` of a run that was undone: its status is `error`, and it can be neither adopted nor resumed.
pub const ROLLED_BACK: &str = "rolled_back";

/// Who executes a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// Unique for one life of a process.
    pub id: String,
    /// `process 4711 on host alpha`, for people.
    pub label: String,
}

/// A run to be admitted.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its id.
    pub run_id: RunId,
    /// The thread; created when it is new.
    pub thread_id: ThreadId,
    /// Owner.
    pub user_id: UserId,
    /// Who will execute it.
    pub worker: Worker,
    /// What the user gave, durable with the admission.
    pub input: StateUpdate,
    /// Options of the run (model, plan mode …), for resuming it the same way.
    pub options: Value,
    /// Two admissions with the same key are one.
    pub idempotency_key: Option<String>,
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// Its id.
    pub run_id: RunId,
    /// The thread.
    pub thread_id: ThreadId,
    /// Owner.
    pub user_id: UserId,
    /// Where it is in its life.
    pub status: RunStatus,
    /// Who executes it, or did.
    pub worker: Worker,
    /// Epoch of the current owner.
    pub epoch: u64,
    /// What the user gave.
    pub input: StateUpdate,
    /// Options of the run.
    pub options: Value,
    /// Error text of a failed run.
    pub error: Option<String>,
    /// Which limit ended it.
    pub stop_reason: Option<String>,
    /// Tokens of the run.
    pub usage: Usage,
    /// Counters, once it has ended.
    pub counts: RunCounts,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
    /// Microseconds since 1970, UTC.
    pub updated_at: i64,
}

/// Which runs to list.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Of this thread only.
    pub thread_id: Option<ThreadId>,
    /// In one of these states; any when empty.
    pub status: Vec<RunStatus>,
    /// At most this many, newest first; 0 means 100.
    pub limit: u32,
    /// Skips this many.
    pub offset: u32,
}

/// Which journal rows of a thread to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalQuery {
    /// Of this run only.
    pub run_id: Option<RunId>,
    /// Rows after this one only.
    pub after_seq: Option<u64>,
    /// Rows before this one only.
    pub before_seq: Option<u64>,
    /// Of these events; any when empty.
    pub events: Vec<String>,
    /// Of this category; any when absent.
    pub category: Option<String>,
    /// With this `task_id` in the metadata.
    pub task_id: Option<String>,
    /// Takes the newest of them, newest first, instead of the oldest.
    pub newest_first: bool,
    /// At most this many.
    pub limit: u32,
}

/// Run rows. One live run per thread, by constraint.
#[async_trait]
pub trait RunRepo: Send + Sync {
    /// Admits a run: creates thread and row, or nothing.
    ///
    /// # Errors
    /// [`StoreError::ThreadBusy`], naming the holder, when another run of the thread is live; [`StoreError::ModeMismatch`].
    async fn admit(&self, run: NewRun) -> Result<RunRow, StoreError>;

    /// Makes `worker` the owner of a live or interrupted run; the epoch grows, so that the former owner's writes are refused.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::ThreadBusy`] when another run of the thread is live.
    async fn adopt(&self, run_id: &RunId, expected_epoch: u64, worker: &Worker) -> Result<RunRow, StoreError>;

    /// Marks an owned run as running.
    ///
    /// # Errors
    /// [`StoreError::Fenced`].
    async fn start(&self, fence: &Fence) -> Result<(), StoreError>;

    /// Ends an owned run without a step (one that failed before its first, say).
    ///
    /// # Errors
    /// [`StoreError::Fenced`].
    async fn finish(&self, fence: &Fence, outcome: RunOutcome, events: Vec<NewJournalRow>) -> Result<(), StoreError>;

    /// One run.
    ///
    /// # Errors
    /// When the database fails.
    async fn run(&self, run_id: &RunId) -> Result<Option<RunRow>, StoreError>;

    /// Runs of a user, newest first.
    ///
    /// # Errors
    /// When the database fails.
    async fn runs(&self, user_id: &UserId, filter: RunFilter) -> Result<Vec<RunRow>, StoreError>;

    /// How many runs of a user there are; `limit` and `offset` do not count.
    ///
    /// # Errors
    /// When the database fails.
    async fn count_runs(&self, user_id: &UserId, filter: RunFilter) -> Result<u64, StoreError>;

    /// Deletes the row of a run that has ended, its feedback and its token counts. What it did stays: its checkpoints are the
    /// thread's history, and its journal rows what the conversation is shown from.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the user has no such run; [`StoreError::ThreadBusy`] when it has not ended.
    async fn delete_run(&self, user_id: &UserId, run_id: &RunId) -> Result<(), StoreError>;
}

/// The journal: what happened, in order per thread.
#[async_trait]
pub trait EventRepo: Send + Sync {
    /// Rows of a thread after `after_seq`, in order, at most `limit`.
    ///
    /// # Errors
    /// When the database fails.
    async fn journal(
        &self,
        thread_id: &ThreadId,
        run_id: Option<&RunId>,
        after_seq: u64,
        limit: u32,
    ) -> Result<Vec<JournalRow>, StoreError>;

    /// Rows of a user's thread that fit all conditions. An unknown thread has none.
    ///
    /// # Errors
    /// When the database fails.
    async fn journal_page(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        query: JournalQuery,
    ) -> Result<Vec<JournalRow>, StoreError>;
}
