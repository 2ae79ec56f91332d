//! The parts of an assistant turn, in the order in which the model made them, with the signature that each carried.
//!
//! A signature belongs to one part and must come back on that very part
//! (<https://ai.google.dev/gemini-api/docs/thought-signatures>). Text and calls are in the message already, so what is kept
//! in `additional_kwargs` only names them: a text by its length, a call by its id.

use deerflow_core::{Content, ContentBlock, Message, ToolCall};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Key of `additional_kwargs` with the order of parts.
pub(super) const PARTS: &str = "gemini_parts";
/// Key of `response_metadata` with the service and model that can read the signatures.
pub(super) const ORIGIN: &str = "gemini_origin";
/// Stands for the signature of a call that another model made, as the provider's document says.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Writes down the parts of a turn as they come.
#[derive(Debug, Default)]
pub(super) struct PartLog {
    slots: Vec<Value>,
    signed: bool,
}

impl PartLog {
    /// A piece of text; pieces without a signature are one part.
    pub(super) fn text(&mut self, text: &str, signature: Option<&str>) {
        let length = text.chars().count();
        if let (Some(last), None) = (self.slots.last_mut(), signature)
            && last.get("signature").is_none()
            && let Some(before) = last.get("text").and_then(Value::as_u64)
        {
            *last = json!({"text": before.saturating_add(length as u64)});
            return;
        }
        if length > 0 || signature.is_some() {
            self.push(json!({"text": length}), signature);
        }
    }

    /// A summary of thoughts. It need not go back, unless it is signed.
    pub(super) fn thought(&mut self, text: &str, signature: Option<&str>) {
        if signature.is_some() {
            self.push(json!({"thought": text}), signature);
        }
    }

    /// A call.
    pub(super) fn call(&mut self, id: &str, signature: Option<&str>) {
        self.push(json!({"call": id}), signature);
    }

    fn push(&mut self, mut slot: Value, signature: Option<&str>) {
        if let Some(signature) = signature {
            slot["signature"] = json!(signature);
            self.signed = true;
        }
        self.slots.push(slot);
    }

    /// What to keep; nothing when no part was signed, since the order of the rest is known.
    pub(super) fn into_value(self) -> Option<Value> {
        self.signed.then_some(Value::Array(self.slots))
    }
}

/// The parts of `message` as they go back, with their signatures if they came from `origin`. Every call of the message is
/// among them once, whatever was kept. `wants_signature` is for models that refuse a step whose first call has none.
pub(super) fn model_parts(
    message: &Message,
    origin: Option<&str>,
    wants_signature: bool,
    wire_name: impl Fn(&str) -> String,
) -> Vec<Value> {
    let same = origin.is_some() && message.response_metadata.get(ORIGIN).and_then(Value::as_str) == origin;
    let stored = message.additional_kwargs.get(PARTS).and_then(Value::as_array).filter(|_| same);
    let mut calls = Calls { calls: message.tool_calls(), next: 0, wire_name: &wire_name };
    let mut parts = match stored {
        Some(slots) => replay(message, slots, &mut calls),
        None => texts(message).into_iter().map(|text| json!({"text": text})).collect(),
    };
    parts.extend(calls.until(calls.calls.len()));
    let first = parts.iter_mut().find(|part| part.get("functionCall").is_some());
    if let Some(part) = first.filter(|part| wants_signature && part.get("thoughtSignature").is_none()) {
        part["thoughtSignature"] = json!(NO_SIGNATURE);
    }
    parts
}

fn replay(message: &Message, slots: &[Value], calls: &mut Calls<'_>) -> Vec<Value> {
    let whole: String = texts(message).concat();
    let lengths = slots.iter().filter_map(|slot| slot.get("text").and_then(Value::as_u64));
    // A text that was changed since is no longer what was signed.
    let same_text = lengths.fold(0_u64, u64::saturating_add) == whole.chars().count() as u64;
    let mut parts: Vec<Value> = Vec::new();
    if !same_text {
        parts.extend(texts(message).into_iter().map(|text| json!({"text": text})));
    }
    let mut rest = whole.chars();
    let by_place = slots.iter().filter(|slot| slot.get("call").is_some()).count() == calls.calls.len();
    let mut place = 0;
    for slot in slots {
        let made = if let Some(length) = slot.get("text").and_then(Value::as_u64) {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            same_text.then(|| json!({"text": rest.by_ref().take(length).collect::<String>()}))
        } else if let Some(id) = slot.get("call").and_then(Value::as_str) {
            place += 1;
            let Some(at) = calls.find(id, by_place.then_some(place - 1)) else { continue };
            parts.extend(calls.until(at));
            calls.until(at.saturating_add(1)).pop()
        } else {
            slot.get("thought").map(|text| json!({"text": text, "thought": true}))
        };
        let Some(mut part) = made else { continue };
        if let Some(signature) = slot.get("signature").filter(|signature| signature.is_string()) {
            part["thoughtSignature"] = signature.clone();
        }
        let empty = part.get("text").and_then(Value::as_str).is_some_and(str::is_empty);
        if !empty || part.get("thoughtSignature").is_some() {
            parts.push(part);
        }
    }
    parts
}

/// The visible texts, none of them empty.
fn texts(message: &Message) -> Vec<Cow<'_, str>> {
    match &message.content {
        Content::Text(text) => Some(Cow::Borrowed(text.as_str())).filter(|text| !text.is_empty()).into_iter().collect(),
        Content::Blocks(blocks) => blocks.iter().filter_map(ContentBlock::text).map(Cow::Borrowed).collect(),
    }
}

/// The calls of a message, in whose order their responses come; those from `next` on are not among the parts yet.
struct Calls<'m> {
    calls: &'m [ToolCall],
    next: usize,
    wire_name: &'m dyn Fn(&str) -> String,
}

impl Calls<'_> {
    /// Where the call of that id is, if it is still to come; by its place where ids had to be changed.
    fn find(&self, id: &str, place: Option<usize>) -> Option<usize> {
        let by_id = self.calls.iter().position(|call| call.id() == id);
        by_id.or(place).filter(|at| (self.next..self.calls.len()).contains(at))
    }

    /// The calls before `end` that are still to come.
    fn until(&mut self, end: usize) -> Vec<Value> {
        let calls = self.calls.get(self.next..end).unwrap_or_default();
        self.next = self.next.max(end);
        calls.iter().map(|call| write_call(call, self.wire_name)).collect()
    }
}

fn write_call(call: &ToolCall, wire_name: &dyn Fn(&str) -> String) -> Value {
    json!({"functionCall": {"id": call.id(), "name": wire_name(&call.name), "args": call.args}})
}
