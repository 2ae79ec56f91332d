//! Names of stream modes.

use std::str::FromStr;

/// What a reader wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamMode {
    /// The whole state after each step.
    Values,
    /// What each node wrote.
    Updates,
    /// Messages as they grow, each time whole: `messages/metadata`, `messages/partial`, `messages/complete`.
    Messages,
    /// Pieces of messages with metadata; frames are called `messages`.
    MessagesTuple,
    /// Free-form events.
    Custom,
    /// Begin and end of each node.
    Tasks,
    /// Each checkpoint.
    Checkpoints,
    /// Checkpoints and tasks with step and time.
    Debug,
    /// LangChain's `astream_events`, version 2.
    Events,
}

/// There is no stream mode of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown stream mode {0:?}; hint: values, updates, messages, messages-tuple, custom, tasks, checkpoints, debug, events"
)]
pub struct UnknownStreamMode(pub String);

impl StreamMode {
    /// Every mode.
    pub const ALL: [Self; 9] = [
        Self::Values,
        Self::Updates,
        Self::Messages,
        Self::MessagesTuple,
        Self::Custom,
        Self::Tasks,
        Self::Checkpoints,
        Self::Debug,
        Self::Events,
    ];

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Updates => "updates",
            Self::Messages => "messages",
            Self::MessagesTuple => "messages-tuple",
            Self::Custom => "custom",
            Self::Tasks => "tasks",
            Self::Checkpoints => "checkpoints",
            Self::Debug => "debug",
            Self::Events => "events",
        }
    }
}

impl FromStr for StreamMode {
    type Err = UnknownStreamMode;
    fn from_str(name: &str) -> Result<Self, UnknownStreamMode> {
        let found = Self::ALL.into_iter().find(|mode| mode.as_str() == name);
        found.ok_or_else(|| UnknownStreamMode(name.to_owned()))
    }
}
