//! Switches.

use serde::{Deserialize, Deserializer, de};

/// A switch in a query: `1`, `true`, `0` or `false`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flag(pub(crate) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Ok(Self(true)),
            "0" | "false" | "no" | "off" | "" => Ok(Self(false)),
            _ => Err(de::Error::custom("Input should be a valid boolean")),
        }
    }
}
