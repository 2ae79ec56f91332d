//! Replies of chat completions, streamed or whole.

use super::newlines::Newlines;
use super::reasoning::{self, Details};
use super::request::{CALL_EXTRAS, REASONING_DETAILS, REASONING_FIELD};
use super::text_calls::TextCalls;
use super::think::{Split, ThinkSplitter};
use super::usage;
use crate::errors::ErrorContext;
use crate::exchange::{Decoder, Flow, content_bytes};
use crate::lenient::LenientJson;
use crate::quirks::{Quirks, ToolCalls};
use deerflow_core::message::kwargs;
use deerflow_core::{
    InvalidToolCall, JsonMap, Message, MessageDelta, ModelError, ModelErrorKind, ToolCallChunk, ToolSpec,
    TurnAccumulator,
};
use deerflow_net::SseEvent;
use serde_json::{Value, json};
use std::sync::Arc;

/// Keys of a call that are opaque to us and that the provider wants back.
const OPAQUE: &[&str] = &["extra_content", "thought_signature", "thoughtSignature"];

pub(super) struct ChatDecoder {
    errors: ErrorContext,
    quirks: &'static Quirks,
    json: LenientJson,
    received: usize,
    turn: TurnAccumulator,
    think: ThinkSplitter,
    newlines: Newlines,
    text_calls: TextCalls,
    /// Calls that the server gave in their own field, as far as their index is known.
    native_calls: u32,
    details: Details,
    call_extras: Vec<JsonMap>,
    reasoning_field: Option<&'static str>,
    /// Whether thinking was there and empty.
    empty_reasoning: bool,
    /// Whether visible text or a native call has come.
    answered: bool,
    /// Whether text has come that may be held back.
    text_came: bool,
    finish_reason: Option<String>,
    done: bool,
}

impl ChatDecoder {
    pub(super) fn new(
        errors: ErrorContext,
        quirks: &'static Quirks,
        tool_calls: ToolCalls,
        offered: Vec<Arc<ToolSpec>>,
    ) -> Self {
        Self {
            errors,
            quirks,
            json: LenientJson::default(),
            received: 0,
            turn: TurnAccumulator::default(),
            think: ThinkSplitter::new(quirks.think_tags),
            newlines: Newlines::new(quirks.literal_newlines),
            text_calls: TextCalls::new(tool_calls, offered),
            native_calls: 0,
            empty_reasoning: false,
            details: Details::default(),
            call_extras: Vec::new(),
            reasoning_field: None,
            answered: false,
            text_came: false,
            finish_reason: None,
            done: false,
        }
    }

    fn emit(&mut self, delta: MessageDelta, out: &mut Vec<MessageDelta>) {
        if delta == MessageDelta::default() {
            return;
        }
        self.answered |= !delta.text.trim().is_empty() || !delta.tool_calls.is_empty();
        self.turn.push(&delta);
        if self.quirks.streams_with_tools {
            out.push(delta);
        } else {
            in_pieces(delta, out);
        }
    }

    /// Takes text as it came; gives back what may be shown of it now.
    fn visible(&mut self, text: &str) -> String {
        self.text_came |= !text.trim().is_empty();
        let text = self.newlines.push(text);
        self.text_calls.push(text)
    }

    /// Takes one chunk, or a whole reply, which differ in little.
    fn chunk(&mut self, chunk: &Value, whole: bool, out: &mut Vec<MessageDelta>) -> Result<(), ModelError> {
        for (key, name) in
            [("model", "model_name"), ("system_fingerprint", "system_fingerprint"), ("id", "response_id")]
        {
            if let Some(text) = chunk.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()) {
                self.turn.set_metadata(name, text);
            }
        }
        let mut delta = MessageDelta { usage: chunk.get("usage").and_then(usage::read), ..MessageDelta::default() };
        let choice = match chunk.get("choices") {
            Some(Value::Array(choices)) => {
                choices.iter().find(|choice| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0)
            }
            _ => None,
        };
        if let Some(choice) = choice {
            if let Some(message) = choice.get("delta").or_else(|| choice.get("message")).filter(|m| m.is_object()) {
                self.received = self.received.saturating_add(content_bytes(message));
                self.message(message, whole, &mut delta)?;
            }
            if delta.usage.is_none() {
                delta.usage = choice.get("usage").and_then(usage::read);
            }
            if let Some(reason) =
                choice.get("finish_reason").and_then(Value::as_str).filter(|reason| !reason.is_empty())
            {
                self.finish_reason = Some(reason.to_owned());
            }
        }
        self.emit(delta, out);
        Ok(())
    }

    fn message(&mut self, message: &Value, whole: bool, delta: &mut MessageDelta) -> Result<(), ModelError> {
        self.empty_reasoning |=
            self.quirks.keeps_empty_reasoning && reasoning::is_empty(message, self.quirks.reasoning);
        if let Some((field, text)) = reasoning::read(message, self.quirks.reasoning) {
            self.reasoning_field.get_or_insert(field);
            delta.reasoning.push_str(&text);
        }
        self.details.push(message);
        let mut text = String::new();
        match message.get("content") {
            Some(Value::String(content)) => text.push_str(content),
            Some(Value::Array(parts)) => read_parts(parts, &mut text, &mut delta.reasoning),
            _ => {}
        }
        if let Some(refusal) = message.get("refusal").and_then(Value::as_str).filter(|refusal| !refusal.is_empty()) {
            self.turn.set_kwarg("refusal", refusal);
            text.push_str(refusal);
        }
        if !text.is_empty() {
            let Split { reasoning, text } = self.think.push(&text);
            delta.reasoning.push_str(&reasoning);
            if !text.is_empty() {
                let shown = self.visible(&text);
                delta.text.push_str(&shown);
            }
        }
        let Some(calls) = message.get("tool_calls").and_then(Value::as_array).filter(|calls| !calls.is_empty()) else {
            return Ok(());
        };
        // The server parses calls itself, so text is text.
        let held = self.think.finish();
        delta.reasoning.push_str(&held.reasoning);
        let shown = self.text_calls.native();
        delta.text.push_str(&shown);
        let shown = self.visible(&held.text);
        delta.text.push_str(&shown);
        for (position, call) in calls.iter().enumerate() {
            let chunk = self.call(call, position, whole)?;
            self.native_calls = self.native_calls.max(chunk.index.map_or(0, |index| index.saturating_add(1)));
            delta.tool_calls.push(chunk);
        }
        Ok(())
    }

    fn call(&mut self, call: &Value, position: usize, whole: bool) -> Result<ToolCallChunk, ModelError> {
        let function = call.get("function").unwrap_or(&Value::Null);
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let index = match call.get("index") {
            Some(Value::Number(index)) => index.as_u64().and_then(|index| u32::try_from(index).ok()),
            _ if whole => u32::try_from(position).ok(),
            _ => None,
        };
        let args = match function.get("arguments") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            // Some gateways send the object itself. An empty one only opens the call; text may follow.
            Some(Value::Object(object)) if object.is_empty() => None,
            Some(object @ Value::Object(_)) => Some(object.to_string()),
            Some(other) => {
                return Err(self
                    .errors
                    .unreadable("the arguments of a call are neither text nor an object", &other.to_string()));
            }
        };
        let id = text(call.get("id"));
        let mut opaque: JsonMap = JsonMap::new();
        for key in OPAQUE {
            if let Some(value) = call.get(*key).or_else(|| function.get(*key)).filter(|value| !value.is_null()) {
                opaque.insert((*key).to_owned(), value.clone());
            }
        }
        if !opaque.is_empty() {
            opaque.insert("id".to_owned(), json!(id.clone().unwrap_or_default()));
            self.call_extras.push(opaque);
        }
        Ok(ToolCallChunk { name: text(function.get("name")), args, id, index })
    }

    fn error_in(&self, value: &Value, data: &str) -> Option<ModelError> {
        let has = |key: &str| {
            value.get(key).is_some_and(|found| !found.is_null() && *found != json!({}) && *found != json!(""))
        };
        let reply = has("choices") || has("usage") || value.get("choices").is_some_and(Value::is_array);
        let failed = has("error")
            || value.get("object").and_then(Value::as_str) == Some("error")
            || (!reply && (has("message") || has("detail") || has("error_msg")));
        if !failed {
            return None;
        }
        let code = value.pointer("/error/code").or_else(|| value.get("code")).and_then(Value::as_u64);
        let status = code.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code));
        Some(self.errors.provider_error(status, data))
    }
}

/// Content as a list of parts (Mistral): text, and thinking that itself is text or a list.
fn read_parts(parts: &[Value], text: &mut String, reasoning: &mut String) {
    for part in parts {
        match part {
            Value::String(piece) => text.push_str(piece),
            Value::Object(_) => {
                if let Some(piece) = part.get("text").and_then(Value::as_str) {
                    text.push_str(piece);
                }
                match part.get("thinking") {
                    Some(Value::String(piece)) => reasoning.push_str(piece),
                    Some(Value::Array(inner)) => {
                        inner
                            .iter()
                            .filter_map(|piece| piece.get("text")?.as_str())
                            .for_each(|piece| reasoning.push_str(piece));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

impl Decoder for ChatDecoder {
    fn event(&mut self, event: &SseEvent, out: &mut Vec<MessageDelta>) -> Result<Flow, ModelError> {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.done = true;
            return if self.is_complete() { Ok(Flow::Done) } else { Err(self.empty()) };
        }
        if data.is_empty() {
            return Ok(Flow::More);
        }
        let value = self.json.read(data);
        let value = value.ok_or_else(|| self.errors.unreadable("a piece of the stream is not JSON", data))?;
        if event.event.as_deref() == Some("error") {
            return Err(self.errors.provider_error(None, data));
        }
        if let Some(error) = self.error_in(&value, data) {
            return Err(error);
        }
        if !value.is_object() {
            return Err(self.errors.unreadable("a piece of the stream is not an object", data));
        }
        self.chunk(&value, false, out)?;
        Ok(Flow::More)
    }

    fn body(&mut self, body: &str, out: &mut Vec<MessageDelta>) -> Result<(), ModelError> {
        let value = self.json.read(body).ok_or_else(|| self.errors.unreadable("the reply is not JSON", body))?;
        if let Some(error) = self.error_in(&value, body) {
            return Err(error);
        }
        let message = value.pointer("/choices/0/message").is_some_and(Value::is_object);
        if !message {
            let nothing = value.get("choices").is_some_and(|choices| choices.is_null() || *choices == json!([]));
            return Err(if nothing {
                self.empty()
            } else {
                self.errors.unreadable("the reply is no chat completion", body)
            });
        }
        self.chunk(&value, true, out)?;
        self.done = true;
        Ok(())
    }

    fn received(&self) -> usize {
        self.received
    }

    fn is_complete(&self) -> bool {
        self.finish_reason.is_some() || (self.done && !self.nothing_came())
    }

    fn finish(&mut self, out: &mut Vec<MessageDelta>) -> Result<Message, ModelError> {
        self.flush(out);
        let mut turn = std::mem::take(&mut self.turn);
        if let Some(reason) = &self.finish_reason {
            turn.set_metadata("finish_reason", reason.as_str());
        }
        if let Some(field) = self.reasoning_field {
            turn.set_metadata(REASONING_FIELD, field);
        }
        if self.empty_reasoning && self.reasoning_field.is_none() {
            turn.set_kwarg(kwargs::REASONING_CONTENT, "");
        }
        if let Some(details) = std::mem::take(&mut self.details).into_value() {
            turn.set_kwarg(REASONING_DETAILS, details);
        }
        if !self.call_extras.is_empty() {
            let extras = std::mem::take(&mut self.call_extras).into_iter().map(Value::Object).collect::<Vec<_>>();
            turn.set_kwarg(CALL_EXTRAS, extras);
        }
        let mut message = turn.finish();
        if self.think.unclosed().is_some_and(|thought| message.text().trim() == thought) {
            // The thought became the answer.
            message.additional_kwargs.remove(kwargs::REASONING_CONTENT);
        }
        if self.finish_reason.as_deref() == Some("length") {
            drop_half_call(&mut message);
        }
        Ok(message)
    }
}

impl ChatDecoder {
    fn nothing_came(&self) -> bool {
        self.turn.is_empty() && !self.answered && !self.text_came
    }

    fn empty(&self) -> ModelError {
        self.errors.error(ModelErrorKind::Transient, "the provider sent an empty reply")
    }

    /// What was held back: it is text, or calls.
    fn flush(&mut self, out: &mut Vec<MessageDelta>) {
        let held = self.think.finish();
        let mut last = MessageDelta { reasoning: held.reasoning, ..MessageDelta::default() };
        let mut shown = self.visible(&held.text);
        let rest = self.newlines.finish();
        shown.push_str(&self.text_calls.push(rest));
        shown.push_str(&self.text_calls.finish(self.finish_reason.as_deref() == Some("length")));
        last.text = shown;
        last.tool_calls = self.text_calls.calls(self.native_calls);
        // A tag that was never closed must not hide a finished answer; a thought that was cut off is no answer.
        if !self.answered
            && last.text.trim().is_empty()
            && last.tool_calls.is_empty()
            && self.finish_reason.as_deref() != Some("length")
            && let Some(thought) = self.think.unclosed()
        {
            last.text = thought.to_owned();
        }
        self.emit(last, out);
    }
}

/// Characters of a piece of a reply that came whole.
const PIECE: usize = 15;

/// The delta as several, so that a reply that came whole can be watched like others.
fn in_pieces(mut delta: MessageDelta, out: &mut Vec<MessageDelta>) {
    let text = std::mem::take(&mut delta.text);
    let mut rest = text.as_str();
    while let Some((end, _)) = rest.char_indices().nth(PIECE) {
        let (piece, more) = rest.split_at(end);
        out.push(MessageDelta {
            text: piece.to_owned(),
            reasoning: std::mem::take(&mut delta.reasoning),
            ..MessageDelta::default()
        });
        rest = more;
    }
    rest.clone_into(&mut delta.text);
    out.push(delta);
}

/// A reply that was cut off in a call before its arguments began would run the tool with none.
pub(crate) fn drop_half_call(message: &mut Message) {
    let Some(part) = message.as_ai_mut() else { return };
    if part.tool_calls.last().is_some_and(|call| call.args.is_empty())
        && let Some(call) = part.tool_calls.pop()
    {
        part.invalid_tool_calls.push(InvalidToolCall::new(
            call.id,
            Some(call.name),
            String::new(),
            "the reply was cut off by the token limit before the arguments were complete",
        ));
    }
}

#[cfg(test)]
mod tests;
