//! What the server was sent.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::Value;

/// One captured chat-completions request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The JSON body.
    pub body: Value,
    /// The headers, names in lower case; values that are not text are left out.
    pub headers: BTreeMap<String, String>,
}

impl Request {
    /// A request without headers.
    #[must_use]
    pub fn of(body: Value) -> Self {
        Self { body, headers: BTreeMap::new() }
    }

    /// The `model` asked for.
    #[must_use]
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// The messages, empty when there are none.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The names of the tools on offer.
    #[must_use]
    pub fn tool_names(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map_or(&[][..], Vec::as_slice);
        tools.iter().filter_map(|tool| tool.pointer("/function/name")?.as_str()).collect()
    }

    /// Whether the agent asks, not a helper that makes a title or a summary.
    #[must_use]
    pub fn offers_tools(&self) -> bool {
        self.body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
    }

    /// Whether a stream is asked for.
    #[must_use]
    pub fn is_streamed(&self) -> bool {
        self.body["stream"] == true
    }

    /// Whether the stream's usage is asked for.
    #[must_use]
    pub fn wants_usage(&self) -> bool {
        self.body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true))
    }

    /// A header by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The text of the system message, empty when there is none.
    #[must_use]
    pub fn system_text(&self) -> String {
        self.messages().iter().find(|message| message["role"] == "system").map(text_of).unwrap_or_default()
    }

    /// The text of the last message from the user, empty when there is none.
    #[must_use]
    pub fn last_user_text(&self) -> String {
        self.messages().iter().rfind(|message| message["role"] == "user").map(text_of).unwrap_or_default()
    }

    /// The texts of the tool results after the last message from the user, oldest first.
    #[must_use]
    pub fn tool_results(&self) -> Vec<String> {
        let messages = self.messages();
        let start = messages.iter().rposition(|message| message["role"] == "user").unwrap_or(0);
        messages[start..].iter().filter(|message| message["role"] == "tool").map(text_of).collect()
    }

    /// Equal for equal model and messages: what makes a reply's ids repeatable.
    pub(crate) fn seed(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.model().hash(&mut hasher);
        self.body["messages"].to_string().hash(&mut hasher);
        hasher.finish()
    }

    /// Four bytes a token over everything the model would have read.
    pub(crate) fn estimated_tokens(&self) -> usize {
        let tools = self.body.get("tools").map_or(0, |tools| tools.to_string().len());
        (self.body["messages"].to_string().len() + tools).div_ceil(4)
    }
}

/// The text of a message, its parts joined by line ends.
pub(crate) fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<_> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}
