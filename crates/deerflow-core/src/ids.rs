//! Identifiers. Each is parsed once at the edge, so that code behind it cannot meet a bad one.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An identifier that did not parse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value:?} is not valid: use 1 to 64 of the characters A-Z a-z 0-9 _ -")]
pub struct BadId {
    /// What kind of id it should have been.
    pub what: &'static str,
    /// The rejected text, cut to 80 characters.
    pub value: String,
}

fn check(what: &'static str, value: &str) -> Result<(), BadId> {
    let ok =
        (1..=64).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if ok { Ok(()) } else { Err(BadId { what, value: value.chars().take(80).collect() }) }
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Parses an id that came from outside.
            ///
            /// # Errors
            /// [`BadId`] unless it is 1 to 64 of `[A-Za-z0-9_-]`.
            pub fn parse(value: impl Into<String>) -> Result<Self, BadId> {
                let value = value.into();
                check($what, &value)?;
                Ok(Self(value))
            }
            /// A fresh random id (UUID version 4).
            #[must_use]
            pub fn random() -> Self {
                Self(uuid::Uuid::new_v4().to_string())
            }
            /// The text of the id.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }
        impl TryFrom<String> for $name {
            type Error = BadId;
            fn try_from(value: String) -> Result<Self, BadId> {
                Self::parse(value)
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
        impl std::str::FromStr for $name {
            type Err = BadId;
            fn from_str(value: &str) -> Result<Self, BadId> {
                Self::parse(value)
            }
        }
    };
}

id_type!(
    /// A conversation.
    ThreadId, "thread id");
id_type!(
    /// One execution of the agent on a thread.
    RunId, "run id");
id_type!(
    /// Who owns a thread. `default` where there is no login.
    UserId, "user id");
id_type!(
    /// A committed state of a thread.
    CheckpointId, "checkpoint id");

impl UserId {
    /// The user of an installation without login.
    #[must_use]
    pub fn local() -> Self {
        Self("default".to_owned())
    }
}

impl CheckpointId {
    /// A fresh id that sorts after all earlier ones of this process (UUID version 7).
    #[must_use]
    pub fn next() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }
    /// The state before a thread's first step, which no commit made: the nil UUID.
    #[must_use]
    pub fn empty() -> Self {
        Self(uuid::Uuid::nil().to_string())
    }
    /// Whether it is [`Self::empty`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == uuid::Uuid::nil().to_string()
    }
}

/// A fresh message id (UUID version 4), as LangGraph assigns to messages that come without one.
#[must_use]
pub fn message_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// A fresh id of an interrupt: 32 hexadecimal digits, as LangGraph's are.
#[must_use]
pub fn interrupt_id() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_tricks_are_not_ids() {
        for bad in ["", ".", "..", "a/b", "a\\b", "a\0", "ä", " a", &"x".repeat(65)] {
            assert!(ThreadId::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(ThreadId::parse("Ab_9-z").unwrap().as_str(), "Ab_9-z");
    }

    #[test]
    fn checkpoint_ids_sort_by_time() {
        let ids: Vec<_> = (0..50).map(|_| CheckpointId::next()).collect();
        assert!(ids.is_sorted());
    }
}
