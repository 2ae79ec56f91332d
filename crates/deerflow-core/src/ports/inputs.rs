//! What users say while a run works: a queue per run.
//!
//! An input is delivered by the commit that shows it in the state: a step whose updates write `applied_run_inputs`
//! (`{"run_id": …, "ids": […], "last_seq": n}`) marks these rows as acknowledged in its own transaction. So it is applied
//! exactly once, whenever a process dies.

use super::step_log::Fence;
use crate::{Message, RunId, StoreError, ThreadId, UserId};
use async_trait::async_trait;

/// Inputs that may wait for one run.
pub const QUEUED_INPUTS: u32 = 64;

/// Where an input is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InputState {
    /// Waits for its run.
    Queued,
    /// Is in the state of the thread.
    Acknowledged,
    /// Its run ended without it; waits to be taken by another.
    Returned,
}

impl InputState {
    /// Stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Acknowledged => "acknowledged",
            Self::Returned => "returned",
        }
    }
    /// State of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Queued, Self::Acknowledged, Self::Returned].into_iter().find(|state| state.as_str() == name)
    }
}

/// An input to be queued.
#[derive(Debug, Clone, PartialEq)]
pub struct NewInput {
    /// The client's name for it, unique in its thread: the same id is the same input. At most 128 bytes.
    pub run_input_id: String,
    /// The run that is to get it.
    pub run_id: RunId,
    /// What was said.
    pub content: Message,
    /// Who said it.
    pub created_by: UserId,
}

/// An input.
#[derive(Debug, Clone, PartialEq)]
pub struct InputRow {
    /// The client's name for it, unique in its thread.
    pub run_input_id: String,
    /// The thread.
    pub thread_id: ThreadId,
    /// The run it waits for, or that applied it, or that ended without it.
    pub run_id: RunId,
    /// Order within the thread, from 1.
    pub seq: u64,
    /// What was said.
    pub content: Message,
    /// Who said it.
    pub created_by: UserId,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
    /// Where it is in its life.
    pub state: InputState,
}

/// Inputs of runs.
#[async_trait]
pub trait InputQueue: Send + Sync {
    /// Queues an input for a live run of the user. An id that is known answers with its row as it is, whatever its state.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the user has no such run; [`StoreError::RunOver`] when it has ended;
    /// [`StoreError::QueueFull`] when [`QUEUED_INPUTS`] wait already; [`StoreError::BadInput`] for an empty or long id.
    async fn enqueue(&self, user_id: &UserId, input: NewInput) -> Result<InputRow, StoreError>;

    /// What waits for a run, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    async fn queued(&self, run_id: &RunId) -> Result<Vec<InputRow>, StoreError>;

    /// What runs of a thread left behind, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    async fn returned(&self, user_id: &UserId, thread_id: &ThreadId) -> Result<Vec<InputRow>, StoreError>;

    /// Queues everything returned of the thread for the run that holds the fence, and answers with it, oldest first. As
    /// before, a commit acknowledges it; until then it is [`Self::queued`], so that a crash loses nothing.
    ///
    /// # Errors
    /// [`StoreError::Fenced`].
    async fn take_returned(&self, fence: &Fence) -> Result<Vec<InputRow>, StoreError>;

    /// Returns what still waits for the run that holds the fence, and says how many that were. The end of a run does it by
    /// itself, in the same transaction.
    ///
    /// # Errors
    /// [`StoreError::Fenced`].
    async fn release(&self, fence: &Fence) -> Result<u64, StoreError>;
}
