//! Tool calls as a model made them.

use crate::JsonMap;
use serde::{Deserialize, Serialize};

/// A call whose arguments parsed into a JSON object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Tool name as the model wrote it; may be empty when the model wrote none.
    #[serde(default)]
    pub name: String,
    /// Arguments.
    #[serde(default)]
    pub args: JsonMap,
    /// Provider's call id. The kernel gives one to every call that came without.
    #[serde(default)]
    pub id: Option<String>,
    /// Always `tool_call`.
    #[serde(rename = "type", default = "tool_call_tag")]
    pub kind: String,
}

fn tool_call_tag() -> String {
    "tool_call".to_owned()
}

impl ToolCall {
    /// A call with an id.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, args: JsonMap) -> Self {
        Self { name: name.into(), args, id: Some(id.into()), kind: tool_call_tag() }
    }
    /// The id, or the empty string when there is none.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }
}

/// A call that cannot run: arguments that are not one JSON object, or no name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InvalidToolCall {
    /// Tool name, if the model wrote one.
    #[serde(default)]
    pub name: Option<String>,
    /// The arguments as the model wrote them.
    #[serde(default)]
    pub args: Option<String>,
    /// Provider's call id.
    #[serde(default)]
    pub id: Option<String>,
    /// Why it is invalid.
    #[serde(default)]
    pub error: Option<String>,
    /// Always `invalid_tool_call`.
    #[serde(rename = "type", default = "invalid_tag")]
    pub kind: String,
}

fn invalid_tag() -> String {
    "invalid_tool_call".to_owned()
}

impl InvalidToolCall {
    /// A call that failed to parse for the reason `error`.
    #[must_use]
    pub fn new(id: Option<String>, name: Option<String>, args: String, error: impl Into<String>) -> Self {
        Self { name, args: Some(args), id, error: Some(error.into()), kind: invalid_tag() }
    }
}
