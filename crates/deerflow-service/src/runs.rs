//! Runs: created, followed, joined, stopped.

mod admit;
mod body;
mod context;
mod follow;
mod manage;

pub use body::{
    BatchBody, CheckpointBody, CommandBody, ConfigBody, IfNotExistsBody, Modes, Nodes, OnCompletionBody,
    OnDisconnectBody, RunBody, StrategyBody, one_or_many,
};
pub use follow::{Frames, Reader};
pub use manage::RunQuery;
