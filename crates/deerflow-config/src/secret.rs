//! A string that never prints itself.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};

use crate::redact::REDACTED;

/// A secret value of a config file. `Debug` and `Serialize` give [`REDACTED`]; the text is had only by [`Secret::expose`].
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// The text itself. Call this where it goes on the wire, nowhere else.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// The same secret in the type that HTTP code takes.
    pub fn to_secret_string(&self) -> SecretString {
        self.0.clone()
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl serde::Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

impl<'de> serde::Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl schemars::JsonSchema for Secret {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "writeOnly": true })
    }
}
