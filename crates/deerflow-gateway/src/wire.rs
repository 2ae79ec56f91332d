//! JSON shapes that several route groups share.

mod input;
mod run;
mod select;
mod thread;
mod time;

pub(crate) use input::state_update;
pub(crate) use run::Run;
pub(crate) use select::select;
pub(crate) use thread::{PINNED, Thread};
pub(crate) use time::iso;
