//! What several processes agree on about runs: who waits, who owns, who shall stop.

use super::runs::{NewRun, RunRow, Worker};
use crate::{RunId, StoreError, ThreadId, Usage};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a run is to be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelAction {
    /// Keep its steps.
    Interrupt,
    /// Restore the state before it.
    Rollback,
}

impl CancelAction {
    /// Stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::Rollback => "rollback",
        }
    }
    /// Action of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Interrupt, Self::Rollback].into_iter().find(|action| action.as_str() == name)
    }
}

/// Counters of a run. All `*_tokens` are tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunCounts {
    /// Configured name of the model.
    pub model_name: Option<String>,
    /// Model calls, those of middlewares included.
    pub llm_call_count: u64,
    /// Messages that the run added to the conversation.
    pub message_count: u64,
    /// Tokens of the agent's own model turns.
    pub lead_agent_tokens: u64,
    /// Tokens of sub-agents.
    pub subagent_tokens: u64,
    /// Tokens of middlewares' model calls.
    pub middleware_tokens: u64,
    /// Tokens by configured model name.
    pub token_usage_by_model: BTreeMap<String, Usage>,
    /// Beginning of the user's first message, at most 2000 characters.
    pub first_human_message: Option<String>,
    /// Beginning of the last answer, at most 2000 characters.
    pub last_ai_message: Option<String>,
}

/// A live run as its owner and its rivals see it.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveRun {
    /// The run.
    pub run_id: RunId,
    /// Its thread.
    pub thread_id: ThreadId,
    /// Who owns it.
    pub worker: Worker,
    /// Epoch of the owner.
    pub epoch: u64,
    /// Until when the owner may be taken for alive (microseconds since 1970); `None` when it keeps no lease.
    pub lease_until: Option<i64>,
    /// Whether it was asked to stop.
    pub cancel: Option<CancelAction>,
}

/// Queue, leases and requests to stop, over the rows of [`super::RunRepo`].
#[async_trait]
pub trait RunControl: Send + Sync {
    /// Stores a run that waits for its turn ([`crate::RunStatus::Queued`]): not before `not_before` (microseconds since
    /// 1970; 0 for at once), and not while another run of the thread is live. Creates the thread when it is new.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] for another user's thread; [`StoreError::ModeMismatch`].
    async fn queue(&self, run: NewRun, not_before: i64) -> Result<RunRow, StoreError>;

    /// Makes the waiting run of a thread whose turn it is live, owned by `worker`. `None` when none is due or another is live.
    ///
    /// # Errors
    /// When the database fails.
    async fn claim(
        &self,
        thread_id: &ThreadId,
        worker: &Worker,
        lease_until: i64,
    ) -> Result<Option<RunRow>, StoreError>;

    /// Threads without a live run on which a waiting run is due at `now` (microseconds since 1970).
    ///
    /// # Errors
    /// When the database fails.
    async fn claimable(&self, now: i64, limit: u32) -> Result<Vec<ThreadId>, StoreError>;

    /// Waiting runs of a thread, in their order.
    ///
    /// # Errors
    /// When the database fails.
    async fn waiting(&self, thread_id: &ThreadId) -> Result<Vec<RunId>, StoreError>;

    /// Ends a run that waits. `false` when it does not wait (any more).
    ///
    /// # Errors
    /// When the database fails.
    async fn withdraw(&self, run_id: &RunId, reason: &str) -> Result<bool, StoreError>;

    /// Renews the lease of all live runs of a worker and tells which those are.
    ///
    /// # Errors
    /// When the database fails.
    async fn renew(&self, worker: &Worker, lease_until: i64) -> Result<Vec<LiveRun>, StoreError>;

    /// Asks the owner of a live run to stop it; the first request stays. Tells what stands; `None` when it is not live.
    ///
    /// # Errors
    /// When the database fails.
    async fn request_cancel(&self, run_id: &RunId, action: CancelAction) -> Result<Option<CancelAction>, StoreError>;

    /// All live runs: of one worker, or of everybody.
    ///
    /// # Errors
    /// When the database fails.
    async fn live(&self, worker: Option<&Worker>) -> Result<Vec<LiveRun>, StoreError>;

    /// Stores the counters of a run.
    ///
    /// # Errors
    /// When the database fails.
    async fn record(&self, run_id: &RunId, counts: &RunCounts) -> Result<(), StoreError>;
}
