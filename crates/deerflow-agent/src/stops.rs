//! Nodes at which a run pauses because its client asked for it.

use deerflow_core::run::Next;
use serde::{Deserialize, Serialize};

/// Where a run pauses. Node names are `model` and `tools`; `*` stands for both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StopPoints {
    /// Pause before these nodes.
    pub before: Vec<String>,
    /// Pause after these nodes, unless the run is at its end.
    pub after: Vec<String>,
    /// Do not pause before the very first node: an earlier run paused there already.
    pub pass_first: bool,
}

impl StopPoints {
    /// The names that are understood.
    pub const NODES: [&'static str; 3] = ["model", "tools", "*"];

    pub(crate) fn pause_before(&self, next: Next) -> bool {
        node_name(next).is_some_and(|node| names(&self.before, node))
    }
    pub(crate) fn pause_after(&self, done: Next, next: Next) -> bool {
        node_name(next).is_some() && node_name(done).is_some_and(|node| names(&self.after, node))
    }
}

fn node_name(next: Next) -> Option<&'static str> {
    match next {
        Next::Model => Some("model"),
        Next::Tools => Some("tools"),
        Next::End | Next::Wait | Next::Done => None,
    }
}

fn names(list: &[String], node: &str) -> bool {
    list.iter().any(|name| name == "*" || name == node)
}
