//! Runs: one execution of the agent on a thread.

use crate::ThreadId;
use serde::{Deserialize, Serialize};

/// Which line of checkpoints a step belongs to: the thread's own, or a sub-agent's below it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Lineage {
    /// The thread.
    pub thread_id: ThreadId,
    /// Empty for the thread itself; a child's namespace otherwise.
    pub namespace: String,
}

impl Lineage {
    /// The thread's own lineage.
    #[must_use]
    pub fn root(thread_id: ThreadId) -> Self {
        Self { thread_id, namespace: String::new() }
    }
}

/// Life of a run. The last five are terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Waits for its turn: for an instant, or for the end of other runs of its thread. Clients see `pending`.
    Queued,
    /// Admitted, not begun.
    Pending,
    /// Being executed.
    Running,
    /// Ended well.
    Success,
    /// Failed.
    Error,
    /// Took too long.
    Timeout,
    /// Stopped by a person, or waiting for one.
    Interrupted,
    /// Undone.
    RolledBack,
}

impl RunStatus {
    /// Whether the run is over.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::Pending | Self::Running)
    }
    /// What clients of the LangGraph protocol are told: they know no other word.
    #[must_use]
    pub fn wire(self) -> &'static str {
        match self {
            Self::Queued => "pending",
            Self::RolledBack => "error",
            status => status.as_str(),
        }
    }
    /// Stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Success => "success",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Interrupted => "interrupted",
            Self::RolledBack => "rolled_back",
        }
    }
    /// Status of this wire name.
    #[must_use]
    pub fn from_wire(name: &str) -> Option<Self> {
        [
            Self::Queued,
            Self::Pending,
            Self::Running,
            Self::Success,
            Self::Error,
            Self::Timeout,
            Self::Interrupted,
            Self::RolledBack,
        ]
        .into_iter()
        .find(|status| status.as_str() == name)
    }
}

/// Which node a run goes on with after a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// A model turn.
    Model,
    /// The tool calls of the last assistant message.
    Tools,
    /// `after_agent`, then the end.
    End,
    /// A person's answer to the open [`crate::Interrupt`]s.
    Wait,
    /// Nothing: the run is over.
    Done,
}
