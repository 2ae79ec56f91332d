//! JSON shapes that several route groups share.

mod thread;
mod time;

pub(crate) use thread::{PINNED, Thread};
pub(crate) use time::iso;
