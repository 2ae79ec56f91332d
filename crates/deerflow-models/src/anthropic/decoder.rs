//! Replies of the messages interface, streamed or whole.

use super::blocks::ORDER;
use crate::errors::ErrorContext;
use crate::exchange::{Decoder, Flow, content_bytes};
use crate::lenient::LenientJson;
use crate::openai::drop_half_call;
use deerflow_core::{
    Content, ContentBlock, JsonMap, Message, MessageDelta, ModelError, ModelErrorKind, ToolCallChunk, TurnAccumulator,
    Usage,
};
use deerflow_net::SseEvent;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One content block as it grows.
enum Block {
    Text(String),
    /// Thinking with its signature, kept as it came.
    Thinking(Value),
    Redacted(Value),
    /// Whether arguments came in pieces, and those given at the start.
    ToolUse {
        id: String,
        pieces: bool,
        input: Value,
    },
    /// Something else the provider adds (results of its own tools); of no use to us.
    Other,
}

pub(super) struct MessagesDecoder {
    errors: ErrorContext,
    json: LenientJson,
    received: usize,
    turn: TurnAccumulator,
    blocks: BTreeMap<u64, Block>,
    counts: BTreeMap<&'static str, u64>,
    stop_reason: Option<String>,
    /// Category and explanation of a refusal.
    stop_details: JsonMap,
    /// Whether thinking has come, and whether the next of it begins a paragraph.
    thought: bool,
    paragraph: bool,
    stopped: bool,
}

const COUNTS: &[&str] = &["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];

impl MessagesDecoder {
    pub(super) fn new(errors: ErrorContext) -> Self {
        Self {
            errors,
            json: LenientJson::default(),
            received: 0,
            turn: TurnAccumulator::default(),
            blocks: BTreeMap::new(),
            counts: BTreeMap::new(),
            stop_reason: None,
            stop_details: JsonMap::new(),
            thought: false,
            paragraph: false,
            stopped: false,
        }
    }

    fn emit(&mut self, delta: MessageDelta, out: &mut Vec<MessageDelta>) {
        if delta != MessageDelta::default() {
            self.turn.push(&delta);
            out.push(delta);
        }
    }

    /// Later counts replace earlier ones.
    fn usage(&mut self, usage: Option<&Value>) -> Option<Usage> {
        let usage = usage?.as_object()?;
        for key in COUNTS {
            if let Some(count) = usage.get(*key).and_then(Value::as_u64) {
                self.counts.insert(key, count);
            }
        }
        let count = |key: &str| self.counts.get(key).copied().unwrap_or(0);
        let (read, created) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
        // The provider counts cached tokens apart; ours are part of the input.
        let mut total =
            Usage::new(count("input_tokens").saturating_add(read).saturating_add(created), count("output_tokens"));
        for (key, count) in [("cache_read", read), ("cache_creation", created)] {
            if count > 0 {
                total.input_token_details.insert(key.to_owned(), count);
            }
        }
        (!total.is_zero()).then_some(total)
    }

    fn start_message(&mut self, message: &Value, out: &mut Vec<MessageDelta>) {
        for (key, name) in [("model", "model_name"), ("id", "response_id")] {
            if let Some(text) = message.get(key).and_then(Value::as_str) {
                self.turn.set_metadata(name, text);
            }
        }
        let usage = self.usage(message.get("usage"));
        self.emit(MessageDelta { usage, ..MessageDelta::default() }, out);
    }

    fn start_block(&mut self, index: u64, block: &Value, out: &mut Vec<MessageDelta>) {
        self.received = self.received.saturating_add(content_bytes(block));
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut delta = MessageDelta::default();
        let open = match text("type").as_str() {
            "text" => {
                delta.text = text("text");
                Block::Text(delta.text.clone())
            }
            "thinking" => {
                self.paragraph = self.thought;
                delta.reasoning = self.thinking(&text("thinking"));
                Block::Thinking(block.clone())
            }
            "redacted_thinking" => Block::Redacted(block.clone()),
            "tool_use" => {
                delta.tool_calls.push(ToolCallChunk {
                    name: Some(text("name")),
                    id: Some(text("id")),
                    args: None,
                    index: u32::try_from(index).ok(),
                });
                Block::ToolUse { id: text("id"), pieces: false, input: block.get("input").cloned().unwrap_or_default() }
            }
            _ => Block::Other,
        };
        self.blocks.insert(index, open);
        self.emit(delta, out);
    }

    fn grow_block(&mut self, index: u64, piece: &Value, out: &mut Vec<MessageDelta>) {
        self.received = self.received.saturating_add(content_bytes(piece));
        let text = |key: &str| piece.get(key).and_then(Value::as_str).unwrap_or_default();
        let mut delta = MessageDelta::default();
        match (self.blocks.get_mut(&index), text("type")) {
            (Some(Block::Text(all)), "text_delta") => {
                delta.text = text("text").to_owned();
                all.push_str(&delta.text);
            }
            (Some(Block::Thinking(block)), "thinking_delta") => {
                append(block, "thinking", text("thinking"));
                delta.reasoning = self.thinking(text("thinking"));
            }
            (Some(Block::Thinking(block)), "signature_delta") => append(block, "signature", text("signature")),
            (Some(Block::ToolUse { pieces, .. }), "input_json_delta") => {
                let args = text("partial_json").to_owned();
                *pieces |= !args.is_empty();
                delta.tool_calls.push(ToolCallChunk {
                    args: Some(args),
                    index: u32::try_from(index).ok(),
                    ..ToolCallChunk::default()
                });
            }
            _ => {}
        }
        self.emit(delta, out);
    }

    /// A call whose arguments came whole, at the start of its block.
    fn stop_block(&mut self, index: u64, out: &mut Vec<MessageDelta>) {
        let Some(Block::ToolUse { id, pieces: false, input }) = self.blocks.get(&index) else { return };
        if input.as_object().is_some_and(|input| !input.is_empty()) {
            let chunk = ToolCallChunk {
                args: Some(input.to_string()),
                index: u32::try_from(index).ok(),
                ..ToolCallChunk::default()
            };
            let id = id.clone();
            self.blocks.insert(index, Block::ToolUse { id, pieces: true, input: Value::Null });
            self.emit(MessageDelta { tool_calls: vec![chunk], ..MessageDelta::default() }, out);
        }
    }

    /// Takes what an end says, in a message or a delta of one.
    fn stop(&mut self, end: &Value) {
        if let Some(reason) = end.get("stop_reason").and_then(Value::as_str) {
            self.stop_reason = Some(reason.to_owned());
        }
        if let Some(Value::Object(details)) = end.get("stop_details") {
            self.stop_details.clone_from(details);
        }
    }

    /// Thinking as people see it: that of another block begins a paragraph.
    fn thinking(&mut self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        self.thought = true;
        let gap = if std::mem::take(&mut self.paragraph) { "\n\n" } else { "" };
        format!("{gap}{text}")
    }
}

/// Where calls stood among the blocks that are kept; `None` when all of them came last.
fn order(blocks: &BTreeMap<u64, Block>) -> Option<Value> {
    let slots: Vec<Value> = blocks
        .values()
        .filter_map(|block| match block {
            Block::ToolUse { id, .. } => Some(json!(id)),
            Block::Text(text) if text.is_empty() => None,
            Block::Other => None,
            _ => Some(Value::Null),
        })
        .collect();
    let first = slots.iter().position(Value::is_string)?;
    slots[first..].iter().any(Value::is_null).then_some(Value::Array(slots))
}

fn append(block: &mut Value, key: &str, more: &str) {
    let Value::Object(block) = block else { return };
    match block.get_mut(key) {
        Some(Value::String(text)) => text.push_str(more),
        _ => drop(block.insert(key.to_owned(), json!(more))),
    }
}

/// The reason in the words of chat completions, which is what the rest of the house reads.
fn finish_reason(stop_reason: &str) -> &str {
    match stop_reason {
        "end_turn" | "stop_sequence" | "pause_turn" => "stop",
        "max_tokens" | "model_context_window_exceeded" => "length",
        "tool_use" => "tool_calls",
        other => other,
    }
}

impl Decoder for MessagesDecoder {
    fn event(&mut self, event: &SseEvent, out: &mut Vec<MessageDelta>) -> Result<Flow, ModelError> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(Flow::More);
        }
        let value = self.json.read(data);
        let value = value.ok_or_else(|| self.errors.unreadable("a piece of the stream is not JSON", data))?;
        let index = value.get("index").and_then(Value::as_u64).unwrap_or(0);
        let part = |key: &str| value.get(key).unwrap_or(&Value::Null);
        match value.get("type").and_then(Value::as_str).or(event.event.as_deref()) {
            Some("message_start") => self.start_message(part("message"), out),
            Some("content_block_start") => self.start_block(index, part("content_block"), out),
            Some("content_block_delta") => self.grow_block(index, part("delta"), out),
            Some("content_block_stop") => self.stop_block(index, out),
            Some("message_delta") => {
                self.stop(part("delta"));
                let usage = self.usage(value.get("usage"));
                self.emit(MessageDelta { usage, ..MessageDelta::default() }, out);
            }
            Some("message_stop") => {
                self.stopped = true;
                return Ok(Flow::Done);
            }
            Some("error") => return Err(self.errors.provider_error(None, data)),
            // Pings, and events that are yet to be invented.
            Some(_) => {}
            None if value.get("error").is_some() => return Err(self.errors.provider_error(None, data)),
            None => return Err(self.errors.unreadable("a piece of the stream has no type", data)),
        }
        Ok(Flow::More)
    }

    fn body(&mut self, body: &str, out: &mut Vec<MessageDelta>) -> Result<(), ModelError> {
        let value = self.json.read(body).ok_or_else(|| self.errors.unreadable("the reply is not JSON", body))?;
        if value.get("error").is_some_and(|error| !error.is_null()) {
            return Err(self.errors.provider_error(None, body));
        }
        let Some(blocks) = value.get("content").and_then(Value::as_array) else {
            return Err(self.errors.unreadable("the reply is no message", body));
        };
        self.start_message(&value, out);
        for (index, block) in (0_u64..).zip(blocks) {
            self.start_block(index, block, out);
            self.stop_block(index, out);
        }
        self.stop(&value);
        self.stopped = true;
        Ok(())
    }

    fn received(&self) -> usize {
        self.received
    }

    fn is_complete(&self) -> bool {
        self.stopped || self.stop_reason.is_some()
    }

    fn finish(&mut self, _out: &mut Vec<MessageDelta>) -> Result<Message, ModelError> {
        if self.stop_reason.is_none() && self.turn.is_empty() && self.blocks.is_empty() {
            return Err(self.errors.error(ModelErrorKind::Transient, "the provider sent an empty reply"));
        }
        let mut turn = std::mem::take(&mut self.turn);
        if let Some(reason) = &self.stop_reason {
            turn.set_metadata("stop_reason", reason.as_str());
            turn.set_metadata("finish_reason", finish_reason(reason));
        }
        if !self.stop_details.is_empty() {
            turn.set_metadata("stop_details", std::mem::take(&mut self.stop_details));
        }
        let mut message = turn.finish();
        let blocks = std::mem::take(&mut self.blocks);
        // Thinking has to go back verbatim and in its place, so the order of blocks is kept where there is any.
        if blocks.values().any(|block| matches!(block, Block::Thinking(_) | Block::Redacted(_))) {
            if let Some(order) = order(&blocks) {
                message.additional_kwargs.insert(ORDER.to_owned(), order);
            }
            let kept = blocks.into_values().filter_map(|block| match block {
                Block::Text(text) if !text.is_empty() => Some(ContentBlock::Text(text)),
                Block::Thinking(value) | Block::Redacted(value) => Some(ContentBlock::Raw(value)),
                _ => None,
            });
            message.content = Content::Blocks(kept.collect());
        }
        if message.finish_reason() == Some("length") {
            drop_half_call(&mut message);
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests;
