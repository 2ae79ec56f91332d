//! Runs as durable things: admission, ownership, execution, recovery.
//!
//! **Invariant:** every run has one owner at a time. Ownership is an epoch in the run's row; each durable write carries it,
//! and a write of a former owner is refused by the store.

mod edit;
mod manager;
mod run_log;
mod worker;

pub use edit::{EditError, StateEdit, rollback_run, update_state};
pub use manager::{Finished, RunHandle, RunManager, RunRequest, RuntimeError, RuntimeStore, Started, answering_model};
pub use worker::{WorkerError, WorkerLock};
