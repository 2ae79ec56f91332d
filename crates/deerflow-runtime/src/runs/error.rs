//! What can be wrong with a request.

use crate::RuntimeError;
use deerflow_core::{RunId, RunStatus, StoreError, ThreadId};
use deerflow_harness::LeadError;

/// A run cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Storage failed, or the thread is busy ([`StoreError::ThreadBusy`]).
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The agent cannot be made with these options.
    #[error(transparent)]
    Lead(#[from] LeadError),
    /// The runtime refused.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The thread does not exist and is not to be made.
    #[error("thread {0} not found")]
    NoThread(ThreadId),
    /// The checkpoint is none of the thread's.
    #[error("checkpoint {0} not found")]
    NoCheckpoint(String),
    /// The key was used with another body.
    #[error("idempotency key {0:?} was used for another request; use a new key for a new request")]
    KeyReused(String),
    /// An answer was given and nobody asked.
    #[error("thread {0} waits for no answer")]
    NotWaiting(ThreadId),
    /// There is nothing to begin with.
    #[error("thread {0} is empty: a run needs an input")]
    NoInput(ThreadId),
    /// An option has a value that means nothing.
    #[error("{field}: {reason}")]
    BadOption {
        /// The option.
        field: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The process is shutting down.
    #[error("the server is shutting down; try again")]
    Closed,
}

/// A run cannot be cancelled.
#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    /// Storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No such run.
    #[error("run {0} not found")]
    NotFound(RunId),
    /// It has ended by itself.
    #[error("run {run_id} is over ({})", .status.wire())]
    Over {
        /// The run.
        run_id: RunId,
        /// How it ended.
        status: RunStatus,
    },
}
