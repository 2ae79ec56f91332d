//! Replies of `generateContent`, streamed or whole: each piece is a response of its own with the parts that are new.

use super::finish::{Finish, blocked, meaning};
use super::parts::{ORIGIN, PARTS, PartLog};
use super::request::own_name;
use super::usage;
use crate::errors::ErrorContext;
use crate::exchange::{Decoder, Flow, content_bytes};
use crate::lenient::LenientJson;
use deerflow_core::{
    InvalidToolCall, Message, MessageDelta, ModelError, ModelErrorKind, ToolCallChunk, TurnAccumulator, text,
};
use deerflow_net::SseEvent;
use serde_json::Value;
use std::sync::Arc;

/// What a decoder knows of the request.
pub(super) struct Turn {
    /// From which ids of calls are derived that come without one.
    pub(super) seed: String,
    /// Names of the tools that are offered.
    pub(super) offered: Arc<[String]>,
    /// The service and model, as the signatures are marked.
    pub(super) origin: String,
}

/// The same for the same request, and another for each request of a conversation: how long it is, and how it ends.
pub(super) fn seed(body: &Value) -> String {
    let contents = body.get("contents").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let last = contents.last().map(Value::to_string).unwrap_or_default();
    format!("{}/{}", contents.len(), blake3::hash(last.as_bytes()).to_hex())
}

pub(super) struct GeminiDecoder {
    errors: ErrorContext,
    json: LenientJson,
    received: usize,
    context: Turn,
    turn: TurnAccumulator,
    log: PartLog,
    calls: u32,
    finish: Option<String>,
    finish_message: String,
    blocked: Option<String>,
}

impl GeminiDecoder {
    pub(super) fn new(errors: ErrorContext, context: Turn) -> Self {
        Self {
            errors,
            json: LenientJson::default(),
            received: 0,
            context,
            turn: TurnAccumulator::default(),
            log: PartLog::default(),
            calls: 0,
            finish: None,
            finish_message: String::new(),
            blocked: None,
        }
    }

    /// Takes one response object.
    fn response(&mut self, value: &Value, data: &str, out: &mut Vec<MessageDelta>) -> Result<(), ModelError> {
        if value.get("error").is_some_and(|error| !error.is_null()) {
            return Err(self.errors.provider_error(status_of(value), data));
        }
        let known = ["candidates", "promptFeedback", "usageMetadata"].iter().any(|key| value.get(*key).is_some());
        if !known {
            return Err(self.errors.unreadable("a piece of the reply is no response", data));
        }
        for (key, name) in [("modelVersion", "model_name"), ("responseId", "response_id")] {
            if let Some(text) = value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()) {
                self.turn.set_metadata(name, text);
            }
        }
        let usage = value.get("usageMetadata").and_then(usage::read);
        let mut delta = MessageDelta { usage, ..MessageDelta::default() };
        let candidates = value.get("candidates").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let first = candidates.iter().find(|one| one.get("index").and_then(Value::as_u64).unwrap_or(0) == 0);
        if let Some(candidate) = first {
            self.candidate(candidate, &mut delta);
        }
        if let Some(reason) = value.pointer("/promptFeedback/blockReason").and_then(Value::as_str) {
            self.blocked = Some(reason.to_owned());
            self.turn.set_metadata("block_reason", reason);
            if let Some(why) = value.pointer("/promptFeedback/blockReasonMessage").and_then(Value::as_str) {
                self.turn.set_metadata("block_reason_message", why);
            }
        }
        if delta != MessageDelta::default() {
            self.turn.push(&delta);
            out.push(delta);
        }
        Ok(())
    }

    fn candidate(&mut self, candidate: &Value, delta: &mut MessageDelta) {
        let parts =
            candidate.pointer("/content/parts").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for part in parts {
            self.received = self.received.saturating_add(content_bytes(part));
            self.part(part, delta);
        }
        let text = |key: &str| candidate.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(reason) = text("finishReason") {
            self.finish = Some(reason.to_owned());
        }
        if let Some(message) = text("finishMessage") {
            message.clone_into(&mut self.finish_message);
        }
    }

    fn part(&mut self, part: &Value, delta: &mut MessageDelta) {
        let signature = part.get("thoughtSignature").or_else(|| part.get("thought_signature"));
        let signature = signature.and_then(Value::as_str).filter(|signature| !signature.is_empty());
        if let Some(call) = part.get("functionCall") {
            return self.call(call, signature, delta);
        }
        // Results of the provider's own tools are of no use to us.
        let Some(text) = part.get("text").and_then(Value::as_str) else { return };
        if part.get("thought") == Some(&Value::Bool(true)) {
            delta.reasoning.push_str(text);
            self.log.thought(text, signature);
        } else {
            delta.text.push_str(text);
            self.log.text(text, signature);
        }
    }

    fn call(&mut self, call: &Value, signature: Option<&str>, delta: &mut MessageDelta) {
        let text = |key: &str| call.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let index = self.calls;
        self.calls = self.calls.saturating_add(1);
        let id = text("id").map_or_else(|| self.invent(index), str::to_owned);
        self.log.call(&id, signature);
        let args = match call.get("args") {
            None | Some(Value::Null) => "{}".to_owned(),
            Some(args) => args.to_string(),
        };
        let name = text("name").map(|name| own_name(name, &self.context.offered).to_owned());
        delta.tool_calls.push(ToolCallChunk { name, args: Some(args), id: Some(id), index: Some(index) });
    }

    fn invent(&self, index: u32) -> String {
        let hash = blake3::hash(format!("{}/{index}", self.context.seed).as_bytes()).to_hex();
        format!("call_{}", text::head(&hash, 24))
    }

    /// A call that nobody can read is a call all the same: the model is told, and makes it again.
    fn broken_call(&self, reason: &str) -> InvalidToolCall {
        let said = &self.finish_message;
        let follows = |name: &str| {
            said.match_indices(name).any(|(at, _)| {
                let edge = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
                edge(said[..at].chars().next_back()) && edge(said[at + name.len()..].chars().next())
            })
        };
        let name = self.context.offered.iter().find(|name| follows(name)).cloned();
        let error = format!("the provider could not read the call ({reason})");
        InvalidToolCall::new(Some(self.invent(self.calls)), name, said.clone(), error)
    }
}

/// The HTTP status that an error within a stream names.
fn status_of(value: &Value) -> Option<u16> {
    let code = value.pointer("/error/code").and_then(Value::as_u64)?;
    u16::try_from(code).ok().filter(|code| (400..600).contains(code))
}

impl Decoder for GeminiDecoder {
    fn event(&mut self, event: &SseEvent, out: &mut Vec<MessageDelta>) -> Result<Flow, ModelError> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(Flow::More);
        }
        let value = self.json.read(data);
        let value = value.ok_or_else(|| self.errors.unreadable("a piece of the stream is not JSON", data))?;
        self.response(&value, data, out)?;
        // Counts may follow the end of the turn.
        Ok(Flow::More)
    }

    fn body(&mut self, body: &str, out: &mut Vec<MessageDelta>) -> Result<(), ModelError> {
        let value = self.json.read(body).ok_or_else(|| self.errors.unreadable("the reply is not JSON", body))?;
        match &value {
            // A stream that a gateway has joined.
            Value::Array(pieces) => {
                for piece in pieces {
                    self.response(piece, &piece.to_string(), out)?;
                }
            }
            one => self.response(one, body, out)?,
        }
        if self.is_complete() { Ok(()) } else { Err(self.errors.unreadable("the reply has no end", body)) }
    }

    fn received(&self) -> usize {
        self.received
    }

    fn is_complete(&self) -> bool {
        self.finish.is_some() || self.blocked.is_some()
    }

    fn finish(&mut self, _out: &mut Vec<MessageDelta>) -> Result<Message, ModelError> {
        let empty = self.turn.text().trim().is_empty() && self.calls == 0;
        let mut turn = std::mem::take(&mut self.turn);
        if let Some(parts) = std::mem::take(&mut self.log).into_value() {
            turn.set_kwarg(PARTS, parts);
            turn.set_metadata(ORIGIN, self.context.origin.as_str());
        }
        let reason = self.finish.clone();
        if let Some(reason) = &reason {
            turn.set_metadata("stop_reason", reason.as_str());
        }
        if !self.finish_message.is_empty() {
            turn.set_metadata("finish_message", self.finish_message.as_str());
        }
        let mut message = turn.finish();
        let finish = match (&reason, &self.blocked) {
            (Some(reason), _) => meaning(reason, self.calls > 0),
            (None, Some(reason)) => Finish::Done(blocked(reason)),
            (None, None) => Finish::Done("stop"),
        };
        let told = reason.as_deref().unwrap_or_default();
        let said = if self.finish_message.is_empty() { told } else { &self.finish_message };
        let finish_reason = match finish {
            Finish::Done(reason) => reason,
            Finish::BrokenCall => {
                let call = self.broken_call(told);
                if let Some(part) = message.as_ai_mut() {
                    part.invalid_tool_calls.push(call);
                }
                "tool_calls"
            }
            Finish::NoSignature => {
                let what = format!("the provider misses a thought signature in the history: {said}");
                return Err(self.errors.error(ModelErrorKind::BadRequest, &what));
            }
            Finish::Failed if empty => {
                let what = format!("the model stopped without an answer: {said}");
                return Err(self.errors.error(ModelErrorKind::Transient, &what));
            }
            Finish::Failed if self.calls > 0 => "tool_calls",
            Finish::Failed => "stop",
        };
        message.response_metadata.insert("finish_reason".to_owned(), finish_reason.into());
        Ok(message)
    }
}
