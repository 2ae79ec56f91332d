//! What can be asked of an installation, and what it answers: threads, runs, uploads, artifacts, goals, models.
//!
//! The HTTP server and the embedded client stand on it: each reads a request in its own way, asks [`Service`], and hands the
//! answer on. The answers are the shapes that LangGraph's clients read, so both give the same values for the same question.
//!
//! **Invariant:** every operation takes the user who asks, and sees and touches nothing of another. What is somebody else's is
//! as if it were not there.

mod artifacts;
mod models;
mod refusal;
mod runs;
mod service;
mod shapes;
mod threads;
mod uploads;

pub use artifacts::{Artifact, ArtifactSource, EDITABLE, Place, is_active, told};
pub use models::{Model, Models, Switch};
pub use refusal::{Refusal, RefusalKind};
pub use runs::{
    BatchBody, CheckpointBody, CommandBody, ConfigBody, Frames, IfNotExistsBody, Modes, Nodes, OnCompletionBody,
    OnDisconnectBody, Reader, RunBody, RunQuery, StrategyBody, one_or_many,
};
pub use service::{Service, Store};
pub use shapes::{
    CheckpointChoice, CheckpointRef, ExtractPath, PINNED, Question, Run, Select, State, Task, Thread, encoded, iso,
    state_update,
};
pub use threads::{Deleted, Goal, HistoryQuery, SortBy, StateWrite, ThreadSearch, settable};
pub use uploads::{File, Files, Gone, Limits, Uploaded};
