//! Storage ports: what the rest of the house needs from a database, with plain types and no SQL.

mod runs;
mod step_log;
mod threads;

pub use runs::{EventRepo, NewRun, RunFilter, RunRepo, RunRow, Worker};
pub use step_log::{
    Checkpoint, Committed, EffectRecord, Fence, HistoryEntry, JournalRow, NewJournalRow, OpenEffect, RunOutcome,
    StepCommit, StepKind, StepLog,
};
pub use threads::{ThreadRepo, ThreadRow};
