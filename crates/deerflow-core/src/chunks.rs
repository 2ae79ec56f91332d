//! Pieces of a streamed assistant turn, and how they add up. Every adapter shares these rules.

use crate::message::{AiPart, MessageKind, kwargs};
use crate::{Content, ContentBlock, InvalidToolCall, JsonMap, Message, ToolCall, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A piece of a tool call, as LangChain's `tool_call_chunk`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallChunk {
    /// Name, in the first piece.
    pub name: Option<String>,
    /// Piece of the arguments' JSON text.
    pub args: Option<String>,
    /// Call id, in the first piece.
    pub id: Option<String>,
    /// Which call of the turn.
    pub index: Option<u32>,
}

/// A piece of an assistant turn. Empty fields say nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MessageDelta {
    /// Visible text to append.
    pub text: String,
    /// Thinking text to append.
    pub reasoning: String,
    /// Pieces of calls.
    pub tool_calls: Vec<ToolCallChunk>,
    /// Tokens so far, when the provider says; replaces what was said before.
    pub usage: Option<Usage>,
}

impl MessageDelta {
    /// A piece of visible text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

#[derive(Debug, Clone, Default)]
struct OpenCall {
    index: Option<u32>,
    id: Option<String>,
    name: String,
    args: String,
}

/// Adds deltas up to a message.
///
/// - Text and reasoning always append, repeated pieces included.
/// - A piece of a call goes to the call of its index; without an index to the call of its id, else to the last one opened.
/// - A new id at a used index starts a new call; an empty name never overwrites a set one.
/// - Arguments that are empty read as `{}`; arguments that are not one JSON object make the call invalid.
#[derive(Debug, Clone, Default)]
pub struct TurnAccumulator {
    text: String,
    reasoning: String,
    calls: Vec<OpenCall>,
    usage: Option<Usage>,
    blocks: Vec<ContentBlock>,
    additional_kwargs: JsonMap,
    response_metadata: JsonMap,
}

impl TurnAccumulator {
    /// Takes one delta in.
    pub fn push(&mut self, delta: &MessageDelta) {
        self.text.push_str(&delta.text);
        self.reasoning.push_str(&delta.reasoning);
        if delta.usage.is_some() {
            self.usage.clone_from(&delta.usage);
        }
        for chunk in &delta.tool_calls {
            self.push_call(chunk);
        }
    }

    fn push_call(&mut self, chunk: &ToolCallChunk) {
        let id = chunk.id.as_deref().filter(|id| !id.is_empty());
        let name = chunk.name.as_deref().filter(|name| !name.is_empty());
        let known = match (chunk.index, id) {
            (Some(index), id) => self
                .calls
                .iter()
                .rposition(|call| call.index == Some(index))
                .filter(|at| id.is_none() || self.calls[*at].id.is_none() || self.calls[*at].id.as_deref() == id),
            (None, Some(id)) => self.calls.iter().rposition(|call| call.id.as_deref() == Some(id)),
            // A named piece without index and id starts a call of its own: some servers send whole calls that way.
            (None, None) if name.is_some() => None,
            (None, None) => self.calls.len().checked_sub(1),
        };
        let at = known.unwrap_or_else(|| {
            self.calls.push(OpenCall { index: chunk.index, ..OpenCall::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        if let Some(id) = id {
            call.id.get_or_insert_with(|| id.to_owned());
        }
        if let Some(name) = name
            && call.name.is_empty()
        {
            name.clone_into(&mut call.name);
        }
        call.args.push_str(chunk.args.as_deref().unwrap_or_default());
    }

    /// Adds a content block that the provider wants back unchanged (a thinking block with its signature, say). Blocks come
    /// before the text.
    pub fn push_block(&mut self, block: ContentBlock) {
        self.blocks.push(block);
    }
    /// Sets an entry of the message's `additional_kwargs`.
    pub fn set_kwarg(&mut self, key: &str, value: impl Into<Value>) {
        self.additional_kwargs.insert(key.to_owned(), value.into());
    }
    /// Sets an entry of the message's `response_metadata`.
    pub fn set_metadata(&mut self, key: &str, value: impl Into<Value>) {
        self.response_metadata.insert(key.to_owned(), value.into());
    }
    /// Visible text so far.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
    /// Whether nothing has come that a person or the kernel could use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_empty() && self.calls.is_empty() && self.blocks.is_empty()
    }
    /// The tokens said last.
    #[must_use]
    pub fn usage(&self) -> Option<&Usage> {
        self.usage.as_ref()
    }

    /// The finished message.
    #[must_use]
    pub fn finish(self) -> Message {
        let mut part = AiPart { usage_metadata: self.usage, ..AiPart::default() };
        for call in self.calls {
            match parse_arguments(&call.args) {
                Ok(args) if !call.name.is_empty() => {
                    part.tool_calls.push(ToolCall { id: call.id, ..ToolCall::new("", call.name, args) });
                }
                Ok(_) => part.invalid_tool_calls.push(InvalidToolCall::new(
                    call.id,
                    None,
                    call.args,
                    "the call has no tool name",
                )),
                Err(error) => {
                    let name = Some(call.name).filter(|n| !n.is_empty());
                    part.invalid_tool_calls.push(InvalidToolCall::new(call.id, name, call.args, error));
                }
            }
        }
        let content = if self.blocks.is_empty() {
            Content::Text(self.text)
        } else {
            let mut blocks = self.blocks;
            if !self.text.is_empty() {
                blocks.push(ContentBlock::Text(self.text));
            }
            Content::Blocks(blocks)
        };
        let mut additional_kwargs = self.additional_kwargs;
        if !self.reasoning.is_empty() {
            additional_kwargs.entry(kwargs::REASONING_CONTENT).or_insert(Value::String(self.reasoning));
        }
        Message {
            content,
            additional_kwargs,
            response_metadata: self.response_metadata,
            name: None,
            id: None,
            kind: MessageKind::Ai(part),
        }
    }
}

/// Parses the JSON text of a call's arguments; nothing but white space reads as `{}`.
///
/// # Errors
/// Says why it is not one JSON object.
pub fn parse_arguments(text: &str) -> Result<JsonMap, String> {
    if text.trim().is_empty() {
        return Ok(JsonMap::new());
    }
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(map)) => Ok(map),
        // Some servers send the object as a JSON string of JSON.
        Ok(Value::String(inner)) => match serde_json::from_str::<Value>(&inner) {
            Ok(Value::Object(map)) => Ok(map),
            _ => Err("the arguments are a string, not a JSON object".to_owned()),
        },
        Ok(Value::Null) => Ok(JsonMap::new()),
        Ok(other) => Err(format!("the arguments are not a JSON object but {}", type_name(&other))),
        Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn chunk(index: Option<u32>, id: &str, name: &str, args: &str) -> MessageDelta {
        let some = |s: &str| (!s.is_empty()).then(|| s.to_owned());
        MessageDelta {
            tool_calls: vec![ToolCallChunk { name: some(name), args: some(args), id: some(id), index }],
            ..MessageDelta::default()
        }
    }
    fn calls(deltas: &[MessageDelta]) -> Vec<(String, String, Value)> {
        let mut turn = TurnAccumulator::default();
        deltas.iter().for_each(|d| turn.push(d));
        let message = turn.finish();
        message
            .tool_calls()
            .iter()
            .map(|c| (c.id().to_owned(), c.name.clone(), Value::Object(c.args.clone())))
            .collect()
    }

    /// BR-014
    #[test]
    fn a_new_id_at_a_used_index_starts_a_new_call() {
        let got = calls(&[chunk(Some(0), "a", "f", "{}"), chunk(Some(0), "b", "g", "{}")]);
        assert_eq!(got, [("a".into(), "f".into(), json!({})), ("b".into(), "g".into(), json!({}))]);
    }

    /// BR-015
    #[test]
    fn interleaved_fragments_go_to_their_index() {
        let got = calls(&[
            chunk(Some(0), "a", "f", ""),
            chunk(Some(1), "b", "g", ""),
            chunk(Some(0), "", "", "{\"x\":"),
            chunk(Some(1), "", "", "{\"y\":"),
            chunk(Some(0), "", "", "1}"),
            chunk(Some(1), "", "", "2}"),
        ]);
        assert_eq!(got, [("a".into(), "f".into(), json!({"x": 1})), ("b".into(), "g".into(), json!({"y": 2}))]);
    }

    /// BR-019
    #[test]
    fn an_empty_name_never_overwrites_a_set_one() {
        let mut empty_name = chunk(Some(0), "", "", "{\"q\":1}");
        empty_name.tool_calls[0].name = Some(String::new());
        empty_name.tool_calls[0].id = Some(String::new());
        assert_eq!(
            calls(&[chunk(Some(0), "a", "search", ""), empty_name]),
            [("a".into(), "search".into(), json!({"q": 1}))]
        );
    }

    /// BR-020
    #[test]
    fn empty_arguments_read_as_an_empty_object() {
        assert_eq!(calls(&[chunk(Some(0), "a", "now", "")]), [("a".into(), "now".into(), json!({}))]);
    }

    /// BR-021
    #[test]
    fn repeated_text_is_kept() {
        let mut turn = TurnAccumulator::default();
        for piece in ["谢", "谢", "go", "go", "hel", "l", "o"] {
            turn.push(&MessageDelta::text(piece));
        }
        assert_eq!(turn.finish().text(), "谢谢gogohello");
    }

    /// BR-004
    #[test]
    fn glued_objects_and_missing_names_are_invalid_calls_not_lost_ones() {
        let mut turn = TurnAccumulator::default();
        turn.push(&chunk(Some(0), "a", "f", "{\"a\":1}{\"b\":2}"));
        turn.push(&chunk(Some(1), "b", "", "{}"));
        let message = turn.finish();
        let part = message.as_ai().unwrap();
        assert_eq!(part.tool_calls, []);
        assert_eq!(part.invalid_tool_calls.len(), 2);
        assert!(part.invalid_tool_calls[0].error.as_deref().unwrap().contains("trailing characters"));
        assert_eq!(part.invalid_tool_calls[1].error.as_deref(), Some("the call has no tool name"));
    }

    #[test]
    fn whole_calls_without_index_or_id_stay_apart() {
        let got = calls(&[chunk(None, "", "f", "{}"), chunk(None, "", "g", "{\"a\":"), chunk(None, "", "", "1}")]);
        assert_eq!(got, [("".into(), "f".into(), json!({})), ("".into(), "g".into(), json!({"a": 1}))]);
    }

    #[test]
    fn blocks_precede_text_and_reasoning_is_kept() {
        let mut turn = TurnAccumulator::default();
        turn.push(&MessageDelta { text: "hi".into(), reasoning: "hm".into(), ..MessageDelta::default() });
        turn.push_block(ContentBlock::Raw(json!({"type": "thinking", "thinking": "hm", "signature": "s"})));
        let message = turn.finish();
        assert_eq!(message.additional_kwargs["reasoning_content"], "hm");
        assert_eq!(
            serde_json::to_value(&message.content).unwrap(),
            json!([{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "hi"}])
        );
    }
}
