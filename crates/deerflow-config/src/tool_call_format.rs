//! How a model writes its tool calls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a model writes its tool calls: in the protocol's own field, or in its text, where they are found, taken out and
/// never shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallFormat {
    /// In the protocol's own field; text is text.
    Native,
    /// A fenced block of JSON: `{"name": …, "arguments": {…}}`.
    FencedJson,
    /// The same JSON between `<tool_call>` tags.
    ToolCallTags,
    /// `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`.
    Xml,
}
