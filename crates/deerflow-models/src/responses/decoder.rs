//! Replies of the Responses interface, streamed or whole.

use super::items::{ORIGIN, OUTPUT};
use super::usage;
use crate::errors::ErrorContext;
use crate::exchange::{Decoder, Flow, content_bytes};
use crate::lenient::LenientJson;
use crate::openai::drop_half_call;
use deerflow_core::{
    Content, ContentBlock, Message, MessageDelta, ModelError, ModelErrorKind, ToolCallChunk, TurnAccumulator,
};
use deerflow_net::SseEvent;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One output item as it grows. What was told in pieces is not told again when the item comes whole.
#[derive(Debug, Default)]
struct Item {
    kind: String,
    id: String,
    call_id: String,
    /// Text of a message item, for content blocks.
    text: String,
    phase: Option<String>,
    /// Whether visible text, thinking or arguments came in pieces.
    pieces: bool,
    /// Part of the reasoning summary that was written last.
    summary: u64,
    /// A reasoning item as it came whole.
    whole: Option<Value>,
    done: bool,
}

/// Why the turn is over.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ending {
    Completed,
    Incomplete(String),
}

/// How the reply is kept.
#[derive(Debug, Clone)]
pub(crate) struct Keep {
    /// Whether content is a list of blocks (`responses/v1`), else text with the order of items beside it.
    pub(crate) blocks: bool,
    /// Service and model that can read the reasoning.
    pub(crate) origin: String,
}

pub(crate) struct ResponsesDecoder {
    errors: ErrorContext,
    keep: Keep,
    json: LenientJson,
    received: usize,
    turn: TurnAccumulator,
    items: BTreeMap<u64, Item>,
    /// Whether a thought has come.
    thought: bool,
    refused: bool,
    ending: Option<Ending>,
}

impl ResponsesDecoder {
    pub(crate) fn new(errors: ErrorContext, keep: Keep) -> Self {
        Self {
            errors,
            keep,
            json: LenientJson::default(),
            received: 0,
            turn: TurnAccumulator::default(),
            items: BTreeMap::new(),
            thought: false,
            refused: false,
            ending: None,
        }
    }

    fn emit(&mut self, delta: MessageDelta, out: &mut Vec<MessageDelta>) {
        if delta != MessageDelta::default() {
            self.turn.push(&delta);
            out.push(delta);
        }
    }

    /// Which item an event is about: its index, else the item of its id, else a new one.
    fn index(&self, event: &Value) -> u64 {
        if let Some(index) = event.get("output_index").and_then(Value::as_u64) {
            return index;
        }
        let id = event.get("item_id").or_else(|| event.pointer("/item/id")).and_then(Value::as_str);
        let known = id.and_then(|id| self.items.iter().find(|(_, item)| item.id == id)).map(|(index, _)| *index);
        known.unwrap_or_else(|| self.items.last_key_value().map_or(0, |(last, _)| last.saturating_add(1)))
    }

    /// Takes what is known of an item at its beginning.
    fn open(&mut self, index: u64, value: &Value, out: &mut Vec<MessageDelta>) {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let item = self.items.entry(index).or_default();
        if item.kind.is_empty() {
            text("type").clone_into(&mut item.kind);
            text("id").clone_into(&mut item.id);
            item.phase = value.get("phase").and_then(Value::as_str).map(str::to_owned);
            if item.kind == "function_call" {
                let id = Some(text("call_id")).filter(|id| !id.is_empty()).unwrap_or(text("id"));
                id.clone_into(&mut item.call_id);
                let name = text("name").to_owned();
                let chunk =
                    ToolCallChunk { name: Some(name), id: Some(id.to_owned()), args: None, index: short(index) };
                self.emit(MessageDelta { tool_calls: vec![chunk], ..MessageDelta::default() }, out);
            }
        }
    }

    fn grow(&mut self, index: u64, piece: Piece<'_>, out: &mut Vec<MessageDelta>) {
        let item = self.items.entry(index).or_default();
        let mut delta = MessageDelta::default();
        match piece {
            Piece::Text(text) => {
                // A second message of the turn (an answer after a remark) starts a paragraph.
                if !item.pieces && !text.is_empty() && !self.turn.text().is_empty() {
                    delta.text.push_str("\n\n");
                }
                item.pieces |= !text.is_empty();
                item.text.push_str(text);
                delta.text.push_str(text);
            }
            Piece::Reasoning { text, part } => {
                if !text.is_empty() && self.thought && (!item.pieces || part != item.summary) {
                    delta.reasoning.push_str("\n\n");
                }
                item.pieces |= !text.is_empty();
                self.thought |= !text.is_empty();
                item.summary = part;
                delta.reasoning.push_str(text);
            }
            Piece::Arguments(text) => {
                item.pieces |= !text.is_empty();
                let args = Some(text.to_owned());
                delta.tool_calls.push(ToolCallChunk { args, index: short(index), ..ToolCallChunk::default() });
            }
        }
        self.received = self.received.saturating_add(piece.len());
        self.emit(delta, out);
    }

    /// Takes an item that came whole, at its own event, in the last event or in a reply that is not a stream.
    fn close(&mut self, index: u64, value: &Value, out: &mut Vec<MessageDelta>) {
        self.open(index, value, out);
        let Some(item) = self.items.get_mut(&index).filter(|item| !item.done) else { return };
        item.done = true;
        if item.phase.is_none() {
            item.phase = value.get("phase").and_then(Value::as_str).map(str::to_owned);
        }
        let told = item.pieces;
        match item.kind.as_str() {
            "message" => {
                let parts = value.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                self.refused |= parts.iter().any(|part| part.get("refusal").is_some());
                if !told {
                    let text: String = parts.iter().filter_map(visible).collect();
                    self.grow(index, Piece::Text(&text), out);
                }
            }
            "reasoning" => {
                item.whole = Some(value.clone());
                let hidden = value.get("encrypted_content").map_or(0, content_bytes);
                self.received = self.received.saturating_add(hidden);
                if !told {
                    for (part, text) in (0_u64..).zip(thinking(value)) {
                        self.grow(index, Piece::Reasoning { text, part }, out);
                    }
                }
            }
            "function_call" if !told => match value.get("arguments") {
                Some(Value::String(args)) => self.grow(index, Piece::Arguments(args), out),
                Some(args @ Value::Object(_)) => self.grow(index, Piece::Arguments(&args.to_string()), out),
                _ => {}
            },
            _ => {}
        }
    }

    /// Takes the response object of a last event or a whole reply.
    fn response(&mut self, response: &Value, data: &str, out: &mut Vec<MessageDelta>) -> Result<(), ModelError> {
        for (key, name) in [("model", "model_name"), ("id", "response_id"), ("service_tier", "service_tier")] {
            if let Some(text) = response.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()) {
                self.turn.set_metadata(name, text);
            }
        }
        let status = response.get("status").and_then(Value::as_str);
        let error = response.get("error").filter(|error| !error.is_null());
        if status == Some("failed") || error.is_some() {
            let said = error.map_or_else(|| data.to_owned(), Value::to_string);
            return Err(self.errors.provider_error(None, &said));
        }
        if status == Some("cancelled") {
            return Err(self.errors.broke_off("the provider cancelled the response"));
        }
        for (index, item) in (0_u64..).zip(response.get("output").and_then(Value::as_array).into_iter().flatten()) {
            // It may stand elsewhere than before. Where no id is known the place counts: some gateways change ids.
            let id = item.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
            let known = id.and_then(|id| self.items.iter().find(|(_, known)| known.id == id)).map(|(known, _)| *known);
            self.close(known.unwrap_or(index), item, out);
        }
        let usage = response.get("usage").and_then(usage::read);
        self.emit(MessageDelta { usage, ..MessageDelta::default() }, out);
        Ok(())
    }

    fn ending(&mut self, response: &Value) {
        let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        let incomplete = response.get("status").and_then(Value::as_str) == Some("incomplete");
        self.ending = Some(match reason {
            Some(reason) => Ending::Incomplete(reason.to_owned()),
            None if incomplete => Ending::Incomplete("max_output_tokens".to_owned()),
            None => Ending::Completed,
        });
    }

    /// The reason in the words of chat completions, which is what the rest of the house reads.
    fn finish_reason(&self, calls: bool) -> String {
        match &self.ending {
            Some(Ending::Incomplete(reason)) if reason == "max_output_tokens" => "length".to_owned(),
            Some(Ending::Incomplete(reason)) => reason.clone(),
            _ if calls => "tool_calls".to_owned(),
            _ => "stop".to_owned(),
        }
    }

    /// What the next request needs of this one: reasoning in its place, and what the model said of its texts.
    fn remember(&self, turn: &mut TurnAccumulator) -> Vec<Value> {
        let order: Vec<Value> = self
            .items
            .values()
            .filter_map(|item| match item.kind.as_str() {
                "reasoning" => item.whole.clone(),
                "message" => Some(match &item.phase {
                    Some(phase) => json!({"type": "message", "phase": phase}),
                    None => json!({"type": "message"}),
                }),
                "function_call" => Some(json!({"type": "function_call", "call_id": item.call_id})),
                _ => None,
            })
            .collect();
        if self.items.values().any(|item| item.whole.is_some() || item.phase.is_some()) {
            turn.set_metadata(ORIGIN, self.keep.origin.as_str());
            return order;
        }
        Vec::new()
    }

    /// The content as blocks, in the order of the items.
    fn blocks(&self, text: &str) -> Content {
        let mut blocks: Vec<ContentBlock> = Vec::new();
        for item in self.items.values() {
            match item.kind.as_str() {
                "reasoning" => blocks.extend(item.whole.clone().map(ContentBlock::Raw)),
                "function_call" => {
                    blocks.push(ContentBlock::Raw(json!({"type": "function_call", "call_id": item.call_id})));
                }
                _ if !item.text.is_empty() => blocks.push(ContentBlock::Text(item.text.clone())),
                _ => {}
            }
        }
        if blocks.is_empty() { Content::Text(text.to_owned()) } else { Content::Blocks(blocks) }
    }
}

/// Something that an item gained.
#[derive(Debug, Clone, Copy)]
enum Piece<'e> {
    Text(&'e str),
    Reasoning { text: &'e str, part: u64 },
    Arguments(&'e str),
}

impl Piece<'_> {
    fn len(self) -> usize {
        match self {
            Self::Text(text) | Self::Reasoning { text, .. } | Self::Arguments(text) => text.len(),
        }
    }
}

fn short(index: u64) -> Option<u32> {
    u32::try_from(index).ok()
}

fn visible(part: &Value) -> Option<&str> {
    part.get("text").or_else(|| part.get("refusal")).and_then(Value::as_str)
}

/// The texts of a reasoning item: its summary, else the thoughts themselves where they are open.
fn thinking(item: &Value) -> Vec<&str> {
    let texts = |key: &str| -> Vec<&str> {
        let parts = item.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
    };
    let summary = texts("summary");
    if summary.is_empty() { texts("content") } else { summary }
}

impl Decoder for ResponsesDecoder {
    fn event(&mut self, event: &SseEvent, out: &mut Vec<MessageDelta>) -> Result<Flow, ModelError> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(Flow::More);
        }
        if data == "[DONE]" {
            let missing = || self.errors.broke_off("the stream ended without `response.completed`");
            return if self.is_complete() { Ok(Flow::Done) } else { Err(missing()) };
        }
        let value = self.json.read(data);
        let value = value.ok_or_else(|| self.errors.unreadable("a piece of the stream is not JSON", data))?;
        if !value.is_object() {
            return Err(self.errors.unreadable("a piece of the stream is not an object", data));
        }
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let part = |key: &str| value.get(key).unwrap_or(&Value::Null);
        let number = |key: &str| part(key).as_u64().unwrap_or(0);
        let index = self.index(&value);
        match value.get("type").and_then(Value::as_str).or(event.event.as_deref()) {
            Some("response.output_item.added") => self.open(index, part("item"), out),
            Some("response.output_item.done") => self.close(index, part("item"), out),
            Some("response.output_text.delta") => self.grow(index, Piece::Text(text("delta")), out),
            Some("response.refusal.delta") => {
                self.refused = true;
                self.grow(index, Piece::Text(text("delta")), out);
            }
            Some("response.reasoning_summary_text.delta") => {
                let piece = Piece::Reasoning { text: text("delta"), part: number("summary_index") };
                self.grow(index, piece, out);
            }
            Some("response.reasoning_text.delta") => {
                let piece = Piece::Reasoning { text: text("delta"), part: number("content_index") };
                self.grow(index, piece, out);
            }
            Some("response.function_call_arguments.delta") => {
                self.grow(index, Piece::Arguments(text("delta")), out);
            }
            Some("response.function_call_arguments.done") => {
                if self.items.get(&index).is_none_or(|item| !item.pieces) {
                    self.grow(index, Piece::Arguments(text("arguments")), out);
                }
            }
            Some("response.completed" | "response.incomplete" | "response.done") => {
                self.response(part("response"), data, out)?;
                self.ending(part("response"));
                return Ok(Flow::Done);
            }
            Some("response.failed" | "response.cancelled") => {
                self.response(part("response"), data, out)?;
                return Err(self.errors.provider_error(None, data));
            }
            Some("error") => return Err(self.errors.provider_error(status_of(&value), data)),
            // The start of parts, what is done and known already, and events that are yet to be invented.
            Some(_) if value.get("error").is_none_or(Value::is_null) => {}
            _ if value.get("error").is_some() || value.get("message").is_some() || value.get("detail").is_some() => {
                return Err(self.errors.provider_error(status_of(&value), data));
            }
            _ => return Err(self.errors.unreadable("a piece of the stream has no type", data)),
        }
        Ok(Flow::More)
    }

    fn body(&mut self, body: &str, out: &mut Vec<MessageDelta>) -> Result<(), ModelError> {
        let value = self.json.read(body).ok_or_else(|| self.errors.unreadable("the reply is not JSON", body))?;
        let failed = value.get("error").is_some_and(|error| !error.is_null());
        if !failed && !value.get("output").is_some_and(Value::is_array) {
            return Err(self.errors.unreadable("the reply is no response", body));
        }
        self.response(&value, body, out)?;
        self.ending(&value);
        Ok(())
    }

    fn received(&self) -> usize {
        self.received
    }

    fn is_complete(&self) -> bool {
        self.ending.is_some()
    }

    fn finish(&mut self, _out: &mut Vec<MessageDelta>) -> Result<Message, ModelError> {
        if self.items.is_empty() && self.ending == Some(Ending::Completed) {
            return Err(self.errors.error(ModelErrorKind::Transient, "the provider sent an empty reply"));
        }
        let mut turn = std::mem::take(&mut self.turn);
        let order = self.remember(&mut turn);
        if let Some(Ending::Incomplete(reason)) = &self.ending {
            turn.set_metadata("incomplete_reason", reason.as_str());
        }
        if self.refused {
            turn.set_kwarg("refusal", turn.text().to_owned());
        }
        let mut message = turn.finish();
        if self.keep.blocks {
            let text = message.text().into_owned();
            message.content = self.blocks(&text);
        } else if !order.is_empty() {
            message.additional_kwargs.insert(OUTPUT.to_owned(), Value::Array(order));
        }
        let mut calls = false;
        if let Some(part) = message.as_ai_mut() {
            calls = !part.tool_calls.is_empty() || !part.invalid_tool_calls.is_empty();
            // Those that only the last event told stand where the model put them.
            let place = |id: &str| self.items.values().position(|item| item.call_id == id);
            part.tool_calls.sort_by_key(|call| place(call.id()));
        }
        let reason = self.finish_reason(calls);
        if reason == "length" {
            drop_half_call(&mut message);
        }
        message.response_metadata.insert("finish_reason".to_owned(), json!(reason));
        Ok(message)
    }
}

/// The HTTP status that an error within a stream names.
fn status_of(value: &Value) -> Option<u16> {
    let code = value.get("status").or_else(|| value.get("status_code")).or_else(|| value.pointer("/error/status"));
    code.and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code))
}

#[cfg(test)]
mod tests;
