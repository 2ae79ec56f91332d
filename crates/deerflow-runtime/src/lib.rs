//! Runs as durable things: admission, ownership, execution, recovery.
//!
//! **Invariant:** every run has one owner at a time. Ownership is an epoch in the run's row; each durable write carries it,
//! and a write of a former owner is refused by the store.

pub mod bridge;
mod compaction;
mod edit;
mod journal_rows;
mod manager;
mod run_log;
pub mod runs;
pub mod views;
mod worker;

pub use bridge::{
    BadEventId, Bridge, BridgeOptions, CommittedState, Entry, EventId, Item, ReplayStore, RunEvent, RunStream,
    StoredMessage, Subscription,
};
pub use compaction::compact_thread;
pub use edit::{EditError, StateEdit, rollback_run, update_state};
pub use manager::{Finished, RunHandle, RunManager, RunRequest, RuntimeError, RuntimeStore, Started, answering_model};
pub use run_log::SUPERSEDED;
pub use runs::{
    Caller, CancelError, Command, CreateError, CreateRun, MultitaskStrategy, OnDisconnect, OrphanPolicy, ReaderGuard,
    RunFacts, RunInput, Runs, RunsConfig,
};
pub use views::values::state_json;
pub use views::{Frame, RunView, StreamMode, UnknownStreamMode, Views};
pub use worker::{WorkerError, WorkerLock};
