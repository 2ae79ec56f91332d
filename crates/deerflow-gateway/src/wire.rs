//! JSON shapes that several route groups share.

mod checkpoint_choice;
mod extract;
mod message;
mod names;
mod run;
mod select;
mod state;
mod state_update;
mod thread;
mod time;

pub(crate) use checkpoint_choice::CheckpointChoice;
pub(crate) use extract::ExtractPath;
pub(crate) use names::{disposition, encoded};
pub(crate) use run::Run;
pub(crate) use select::Select;
pub(crate) use state::{State, metadata as checkpoint_metadata};
pub(crate) use state_update::state_update;
pub(crate) use thread::{PINNED, Thread};
pub(crate) use time::iso;
