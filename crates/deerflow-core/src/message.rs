//! Messages in LangChain's flat JSON shape: `content, additional_kwargs, response_metadata, type, name, id, …`.

use crate::{Content, InvalidToolCall, JsonMap, ToolCall, Usage, ids};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

/// The id of a [`MessageKind::Remove`] message that removes every message before it.
pub const REMOVE_ALL: &str = "__remove_all__";

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// What it says.
    pub content: Content,
    /// Free-form extras; the keys that DeerFlow uses are listed in [`kwargs`].
    pub additional_kwargs: JsonMap,
    /// What the provider said about the reply (`finish_reason`, `model_name` …).
    pub response_metadata: JsonMap,
    /// Speaker or tool name.
    pub name: Option<String>,
    /// Identity within the thread. The messages reducer gives a UUID to a message without one.
    pub id: Option<String>,
    /// The role, with what only that role has.
    pub kind: MessageKind,
}

/// Role of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum MessageKind {
    /// `type: human`
    Human,
    /// `type: ai`
    Ai(AiPart),
    /// `type: tool`
    Tool(ToolPart),
    /// `type: system`
    System,
    /// `type: remove`: removes the message of this id, or all of them for [`REMOVE_ALL`].
    Remove,
}

/// What only an assistant message has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AiPart {
    /// Calls that can run.
    pub tool_calls: Vec<ToolCall>,
    /// Calls that cannot.
    pub invalid_tool_calls: Vec<InvalidToolCall>,
    /// Tokens the provider reported, if it did.
    pub usage_metadata: Option<Usage>,
}

/// What only a tool result has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolPart {
    /// The call that this answers.
    pub tool_call_id: String,
    /// Structured payload for the client; the model does not see it.
    pub artifact: Option<Value>,
    /// Whether the tool did what it was asked.
    pub status: ToolStatus,
}

/// Outcome of a tool call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// It did.
    #[default]
    Success,
    /// It did not; the content says why.
    Error,
}

/// Keys of [`Message::additional_kwargs`] that DeerFlow gives a meaning to.
pub mod kwargs {
    /// `true`: internal control message, not shown to people.
    pub const HIDE_FROM_UI: &str = "hide_from_ui";
    /// Files uploaded with this human message.
    pub const FILES: &str = "files";
    /// The user's text before the server wrapped it.
    pub const ORIGINAL_USER_CONTENT: &str = "original_user_content";
    /// Thinking text of an assistant message.
    pub const REASONING_CONTENT: &str = "reasoning_content";
    /// Structured outcome of a tool result.
    pub const TOOL_META: &str = "deerflow_tool_meta";
    /// `true` on an assistant message that stands for a failed model call.
    pub const ERROR_FALLBACK: &str = "deerflow_error_fallback";
    /// Marks a server-injected date or memory reminder.
    pub const DYNAMIC_CONTEXT: &str = "dynamic_context_reminder";
    /// The date a reminder carries.
    pub const REMINDER_DATE: &str = "reminder_date";
    /// A reply to a clarification form.
    pub const HUMAN_INPUT_RESPONSE: &str = "human_input_response";
}

impl Message {
    fn with_kind(content: impl Into<Content>, kind: MessageKind) -> Self {
        Self {
            content: content.into(),
            additional_kwargs: JsonMap::new(),
            response_metadata: JsonMap::new(),
            name: None,
            id: None,
            kind,
        }
    }
    /// A user's message.
    #[must_use]
    pub fn human(content: impl Into<Content>) -> Self {
        Self::with_kind(content, MessageKind::Human)
    }
    /// An assistant's message without calls.
    #[must_use]
    pub fn ai(content: impl Into<Content>) -> Self {
        Self::with_kind(content, MessageKind::Ai(AiPart::default()))
    }
    /// An assistant's message with calls.
    #[must_use]
    pub fn ai_calls(content: impl Into<Content>, tool_calls: Vec<ToolCall>) -> Self {
        Self::with_kind(content, MessageKind::Ai(AiPart { tool_calls, ..AiPart::default() }))
    }
    /// A system message.
    #[must_use]
    pub fn system(content: impl Into<Content>) -> Self {
        Self::with_kind(content, MessageKind::System)
    }
    /// A successful result of the call `tool_call_id` to the tool `name`.
    #[must_use]
    pub fn tool(content: impl Into<Content>, tool_call_id: impl Into<String>, name: impl Into<String>) -> Self {
        let part = ToolPart { tool_call_id: tool_call_id.into(), ..ToolPart::default() };
        let mut message = Self::with_kind(content, MessageKind::Tool(part));
        message.name = Some(name.into());
        message
    }
    /// A failed result.
    #[must_use]
    pub fn tool_error(content: impl Into<Content>, tool_call_id: impl Into<String>, name: impl Into<String>) -> Self {
        let mut message = Self::tool(content, tool_call_id, name);
        if let MessageKind::Tool(part) = &mut message.kind {
            part.status = ToolStatus::Error;
        }
        message
    }
    /// Removes the message with this id.
    #[must_use]
    pub fn remove(id: impl Into<String>) -> Self {
        Self::with_kind("", MessageKind::Remove).with_id(id)
    }
    /// Removes every message before it.
    #[must_use]
    pub fn remove_all() -> Self {
        Self::remove(REMOVE_ALL)
    }
    /// Whether this is [`Self::remove_all`].
    #[must_use]
    pub fn is_remove_all(&self) -> bool {
        matches!(self.kind, MessageKind::Remove) && self.id.as_deref() == Some(REMOVE_ALL)
    }
    /// The same message with this id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }
    /// The same message with this name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
    /// The same message with one more entry in `additional_kwargs`.
    #[must_use]
    pub fn with_kwarg(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.additional_kwargs.insert(key.to_owned(), value.into());
        self
    }
    /// The same message, hidden from people.
    #[must_use]
    pub fn hidden(self) -> Self {
        self.with_kwarg(kwargs::HIDE_FROM_UI, true)
    }
    /// Gives it a fresh id if it has none.
    pub fn ensure_id(&mut self) -> &str {
        self.id.get_or_insert_with(ids::message_id)
    }
    /// The id, or the empty string.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }
    /// The wire name of the role: `human`, `ai`, `tool`, `system` or `remove`.
    #[must_use]
    pub fn role(&self) -> &'static str {
        match self.kind {
            MessageKind::Human => "human",
            MessageKind::Ai(_) => "ai",
            MessageKind::Tool(_) => "tool",
            MessageKind::System => "system",
            MessageKind::Remove => "remove",
        }
    }
    /// Its assistant part, if it is an assistant message.
    #[must_use]
    pub fn as_ai(&self) -> Option<&AiPart> {
        if let MessageKind::Ai(part) = &self.kind { Some(part) } else { None }
    }
    /// Its assistant part, mutable.
    #[must_use]
    pub fn as_ai_mut(&mut self) -> Option<&mut AiPart> {
        if let MessageKind::Ai(part) = &mut self.kind { Some(part) } else { None }
    }
    /// Its tool part, if it is a tool result.
    #[must_use]
    pub fn as_tool(&self) -> Option<&ToolPart> {
        if let MessageKind::Tool(part) = &self.kind { Some(part) } else { None }
    }
    /// Its tool part, mutable.
    #[must_use]
    pub fn as_tool_mut(&mut self) -> Option<&mut ToolPart> {
        if let MessageKind::Tool(part) = &mut self.kind { Some(part) } else { None }
    }
    /// Whether it is a user's message (hidden ones included).
    #[must_use]
    pub fn is_human(&self) -> bool {
        matches!(self.kind, MessageKind::Human)
    }
    /// Whether a boolean kwarg is literally `true`.
    #[must_use]
    pub fn flag(&self, key: &str) -> bool {
        self.additional_kwargs.get(key) == Some(&Value::Bool(true))
    }
    /// A human message that a person wrote: not hidden and not a summary.
    #[must_use]
    pub fn is_real_user(&self) -> bool {
        self.is_human() && self.name.as_deref() != Some("summary") && !self.flag(kwargs::HIDE_FROM_UI)
    }
    /// A human message that carries a person's words: [`Self::is_real_user`], or a hidden reply to a clarification.
    #[must_use]
    pub fn is_genuine_user(&self) -> bool {
        self.is_real_user()
            || (self.is_human()
                && self.additional_kwargs.get(kwargs::HUMAN_INPUT_RESPONSE).is_some_and(Value::is_object))
    }
    /// Visible text.
    #[must_use]
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        self.content.text()
    }
    /// Tool calls, empty for other roles.
    #[must_use]
    pub fn tool_calls(&self) -> &[ToolCall] {
        self.as_ai().map_or(&[], |part| &part.tool_calls)
    }
    /// Why the provider stopped: `finish_reason`, or Anthropic's `stop_reason`, from the response metadata.
    #[must_use]
    pub fn finish_reason(&self) -> Option<&str> {
        ["finish_reason", "stop_reason"].iter().find_map(|key| {
            self.response_metadata.get(*key).or_else(|| self.additional_kwargs.get(*key)).and_then(Value::as_str)
        })
    }
}

/// The flat wire shape; its field order is the order on the wire.
#[derive(Serialize, Deserialize)]
struct Wire {
    #[serde(default)]
    content: Content,
    #[serde(default, deserialize_with = "null_is_default")]
    additional_kwargs: JsonMap,
    #[serde(default, deserialize_with = "null_is_default")]
    response_metadata: JsonMap,
    #[serde(rename = "type", alias = "role")]
    kind: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Vec<ToolCall>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    invalid_tool_calls: Option<Vec<InvalidToolCall>>,
    /// Outer `None`: not an assistant message, key absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_option")]
    usage_metadata: Option<Option<Usage>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "null_is_default")]
    tool_call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_option")]
    artifact: Option<Option<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<ToolStatus>,
}

fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(d: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(d)?.unwrap_or_default())
}

#[expect(clippy::option_option, reason = "an absent key and a null differ on the wire")]
fn some_option<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(d).map(Some)
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ai = self.as_ai();
        let tool = self.as_tool();
        // Borrowing twin of `Wire`, so that serialising a long history copies nothing.
        #[derive(Serialize)]
        struct Out<'a> {
            content: &'a Content,
            additional_kwargs: &'a JsonMap,
            response_metadata: &'a JsonMap,
            #[serde(rename = "type")]
            kind: &'static str,
            name: &'a Option<String>,
            id: &'a Option<String>,
            #[serde(skip_serializing_if = "Option::is_none")]
            tool_calls: Option<&'a [ToolCall]>,
            #[serde(skip_serializing_if = "Option::is_none")]
            invalid_tool_calls: Option<&'a [InvalidToolCall]>,
            #[serde(skip_serializing_if = "Option::is_none")]
            usage_metadata: Option<&'a Option<Usage>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            tool_call_id: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            artifact: Option<&'a Option<Value>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            status: Option<ToolStatus>,
        }
        Out {
            content: &self.content,
            additional_kwargs: &self.additional_kwargs,
            response_metadata: &self.response_metadata,
            kind: self.role(),
            name: &self.name,
            id: &self.id,
            tool_calls: ai.map(|p| p.tool_calls.as_slice()),
            invalid_tool_calls: ai.map(|p| p.invalid_tool_calls.as_slice()),
            usage_metadata: ai.map(|p| &p.usage_metadata),
            tool_call_id: tool.map(|p| p.tool_call_id.as_str()),
            artifact: tool.map(|p| &p.artifact),
            status: tool.map(|p| p.status),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    /// Accepts the wire shape and the looser message-like objects that clients send: `role` in place of `type`, and the
    /// role names of both LangChain and OpenAI.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Wire::deserialize(deserializer)?;
        let kind = match wire.kind.as_str() {
            "human" | "user" => MessageKind::Human,
            "ai" | "assistant" | "AIMessageChunk" => MessageKind::Ai(AiPart {
                tool_calls: wire.tool_calls.unwrap_or_default(),
                invalid_tool_calls: wire.invalid_tool_calls.unwrap_or_default(),
                usage_metadata: wire.usage_metadata.flatten(),
            }),
            "tool" | "function" => MessageKind::Tool(ToolPart {
                tool_call_id: wire.tool_call_id.unwrap_or_default(),
                artifact: wire.artifact.flatten(),
                status: wire.status.unwrap_or_default(),
            }),
            "system" | "developer" => MessageKind::System,
            "remove" => MessageKind::Remove,
            other => return Err(D::Error::custom(format!("unknown message type {other:?}"))),
        };
        Ok(Self {
            content: wire.content,
            additional_kwargs: wire.additional_kwargs,
            response_metadata: wire.response_metadata,
            name: wire.name,
            id: wire.id,
            kind,
        })
    }
}

#[cfg(test)]
mod tests;
