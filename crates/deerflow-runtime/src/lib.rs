//! Runs as durable things: admission, ownership, execution, recovery.
//!
//! **Invariant:** every run has one owner at a time. Ownership is an epoch in the run's row; each durable write carries it,
//! and a write of a former owner is refused by the store.

pub mod bridge;
mod edit;
mod manager;
mod run_log;
pub mod views;
mod worker;

pub use bridge::{
    BadEventId, Bridge, BridgeOptions, CommittedState, Entry, EventId, Item, ReplayStore, RunEvent, RunStream,
    StoredMessage, Subscription,
};
pub use edit::{EditError, StateEdit, rollback_run, update_state};
pub use manager::{Finished, RunHandle, RunManager, RunRequest, RuntimeError, RuntimeStore, Started};
pub use views::{Frame, RunView, StreamMode, UnknownStreamMode, Views};
pub use worker::{WorkerError, WorkerLock};
