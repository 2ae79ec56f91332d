//! Messages as they grow: LangGraph's `messages` stream (`messages-tuple` on the wire).

use super::frame::Frames;
use super::line::line;
use super::metadata::RunView;
use super::mode::StreamMode;
use super::updates::is_internal;
use super::values::StreamedMessage;
use crate::bridge::{Entry, EventId, Rendering};
use deerflow_core::chunks::parse_arguments;
use deerflow_core::{Message, MessageDelta, ToolCallChunk};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// Argument pieces of file writes that go into one frame when the state is streamed too: clients render the state then,
/// and a long file would be thousands of frames.
const COALESCED: usize = 32;

/// Tools whose arguments are a file's text.
const FILE_WRITERS: [&str; 2] = ["write_file", "str_replace"];

/// What a reader has been shown of the messages.
#[derive(Debug, Default)]
pub(super) struct MessageView {
    tuples: bool,
    coalesce: bool,
    /// Messages that were shown, whole or in pieces.
    seen: HashSet<String>,
    streaming: Option<Streaming>,
    pending: Option<Pending>,
}

/// The model turn that is being streamed.
#[derive(Debug)]
struct Streaming {
    message_id: String,
    metadata: Value,
    /// Names of its calls, by index.
    calls: HashMap<u32, String>,
    /// Text that was shown of it.
    text: String,
    /// Pieces after that text were lost; none is shown any more.
    gap: bool,
}

/// Argument pieces that wait for more.
#[derive(Debug)]
struct Pending {
    calls: Vec<ToolCallChunk>,
    pieces: usize,
    /// Id of the last piece's frame.
    id: Option<EventId>,
}

impl MessageView {
    pub(super) fn new(modes: &HashSet<StreamMode>) -> Self {
        Self {
            tuples: modes.contains(&StreamMode::MessagesTuple),
            coalesce: modes.contains(&StreamMode::Values),
            ..Self::default()
        }
    }

    /// A model turn begins.
    pub(super) fn begin(&mut self, run: &RunView, message_id: &str, model: &str, step: u64) {
        let metadata = run.of_message("model", message_id, Some(model), step);
        self.pending = None;
        self.streaming = Some(Streaming {
            message_id: message_id.to_owned(),
            metadata,
            calls: HashMap::new(),
            text: String::new(),
            gap: false,
        });
    }

    /// A model turn is void.
    pub(super) fn discard(&mut self, message_id: &str) {
        self.pending = None;
        self.streaming = None;
        self.seen.remove(message_id);
    }

    /// The reader's place moved: pieces of a message whose beginning it may have missed are not shown.
    pub(super) fn forget_stream(&mut self) {
        self.pending = None;
        self.streaming = None;
    }

    /// Pieces were lost: what is missing of the message comes with its end.
    pub(super) fn gap(&mut self) {
        self.pending = None;
        if let Some(streaming) = &mut self.streaming {
            streaming.gap = true;
        }
    }

    /// What waited was shown to the reader before.
    pub(super) fn forget_pending(&mut self) {
        self.pending = None;
    }

    /// A piece of the reply. One of a message whose beginning was not seen is left out: the message comes whole.
    pub(super) fn delta(&mut self, delta: &MessageDelta, message_id: &str, entry: &Entry, frames: &mut Frames) {
        let Some(streaming) = self.streaming.as_mut().filter(|s| s.message_id == message_id && !s.gap) else { return };
        if !self.tuples {
            return;
        }
        streaming.text.push_str(&delta.text);
        for (call, index) in delta.tool_calls.iter().filter_map(|call| Some((call, call.index?))) {
            if let Some(name) = call.name.as_ref().filter(|name| !name.is_empty()) {
                streaming.calls.insert(index, name.clone());
            }
        }
        let waits = |call: &ToolCallChunk| {
            let name = call.index.and_then(|index| streaming.calls.get(&index));
            name.is_some_and(|name| FILE_WRITERS.contains(&name.as_str()))
        };
        if self.coalesce && !delta.tool_calls.is_empty() && delta.tool_calls.iter().all(waits) {
            self.collect(delta, frames);
            return;
        }
        if delta.text.is_empty() && delta.reasoning.is_empty() && delta.tool_calls.is_empty() {
            return;
        }
        self.flush(frames);
        let Some(streaming) = &self.streaming else { return };
        let data = entry.cache.get(entry.index, Rendering::Chunk, || {
            let chunk = chunk(message_id, &delta.text, &delta.reasoning, &delta.tool_calls);
            line(&(chunk, &streaming.metadata))
        });
        frames.add("messages", data);
        self.see(message_id);
    }

    /// Takes argument pieces in; text that came with them is shown first.
    fn collect(&mut self, delta: &MessageDelta, frames: &mut Frames) {
        let Some(streaming) = &self.streaming else { return };
        let message_id = streaming.message_id.clone();
        if !delta.text.is_empty() || !delta.reasoning.is_empty() {
            let data = line(&(chunk(&message_id, &delta.text, &delta.reasoning, &[]), &streaming.metadata));
            self.flush(frames);
            frames.add("messages", data);
            self.see(&message_id);
        }
        let id = frames.next_id();
        let pending = self.pending.get_or_insert_with(|| Pending { calls: Vec::new(), pieces: 0, id });
        pending.id = id;
        pending.pieces += 1;
        for piece in &delta.tool_calls {
            // Only the last call grows; a new id at a used index is another call.
            match pending.calls.last_mut().filter(|call| call.index == piece.index && piece.id.is_none()) {
                Some(call) => {
                    call.args.get_or_insert_default().push_str(piece.args.as_deref().unwrap_or_default());
                }
                None => pending.calls.push(piece.clone()),
            }
        }
        if pending.pieces >= COALESCED {
            self.flush(frames);
        }
    }

    /// Shows what waited.
    pub(super) fn flush(&mut self, frames: &mut Frames) {
        let Some(pending) = self.pending.take() else { return };
        let Some(streaming) = &self.streaming else { return };
        let message_id = streaming.message_id.clone();
        let data = line(&(chunk(&message_id, "", "", &pending.calls), &streaming.metadata));
        frames.push("messages", data, pending.id);
        self.see(&message_id);
    }

    /// A whole message: shown once. One that was streamed gets its last piece, which carries what only the whole has.
    pub(super) fn whole(
        &mut self,
        run: &RunView,
        node: &str,
        message: &Message,
        step: u64,
        entry: Option<&Entry>,
        frames: &mut Frames,
    ) {
        self.flush(frames);
        let streamed = self.streaming.take_if(|streaming| streaming.message_id == message.id());
        let first = self.see(message.id());
        if !self.tuples || is_internal(node) {
            return;
        }
        match streamed {
            Some(streaming) if !first => {
                // Pieces add up at the client, so that only what is missing may follow.
                let text = message.text();
                let missing = if streaming.gap { text.strip_prefix(streaming.text.as_str()) } else { None };
                let last = last_chunk(message, missing.unwrap_or_default());
                frames.add("messages", line(&(last, &streaming.metadata)));
            }
            streaming if first => {
                let render = || {
                    let metadata = streaming
                        .map_or_else(|| run.of_message(node, message.id(), None, step), |streaming| streaming.metadata);
                    line(&(StreamedMessage(message), metadata))
                };
                let data = match entry {
                    Some(entry) => entry.cache.get(entry.index, Rendering::Whole, render),
                    None => render(),
                };
                frames.add("messages", data);
            }
            _ => {}
        }
    }

    /// Notes that a message was shown; whether it is the first time.
    fn see(&mut self, message_id: &str) -> bool {
        !self.seen.contains(message_id) && self.seen.insert(message_id.to_owned())
    }
}

/// LangChain's `AIMessageChunk`.
pub(super) fn chunk(message_id: &str, text: &str, reasoning: &str, calls: &[ToolCallChunk]) -> Value {
    let mut extras = json!({});
    if !reasoning.is_empty() {
        extras = json!({"reasoning_content": reasoning});
    }
    let (valid, invalid) = parsed(calls);
    json!({
        "content": text,
        "additional_kwargs": extras,
        "response_metadata": {},
        "type": "AIMessageChunk",
        "name": null,
        "id": message_id,
        "tool_calls": valid,
        "invalid_tool_calls": invalid,
        "usage_metadata": null,
        "tool_call_chunks": pieces(calls),
        "chunk_position": null,
    })
}

/// The last piece of a message: no text unless pieces were lost, but what the provider said about the whole. Tokens come here only, since clients
/// add the pieces' tokens up.
pub(super) fn last_chunk(message: &Message, text: &str) -> Value {
    json!({
        "content": text,
        "additional_kwargs": {},
        "response_metadata": message.response_metadata,
        "type": "AIMessageChunk",
        "name": message.name,
        "id": message.id,
        "tool_calls": [],
        "invalid_tool_calls": [],
        "usage_metadata": message.as_ai().and_then(|part| part.usage_metadata.as_ref()),
        "tool_call_chunks": [],
        "chunk_position": "last",
    })
}

fn pieces(calls: &[ToolCallChunk]) -> Value {
    let piece = |call: &ToolCallChunk| json!({"name": call.name, "args": call.args, "id": call.id, "index": call.index, "type": "tool_call_chunk"});
    calls.iter().map(piece).collect()
}

/// What LangChain makes of pieces on their own: a piece that reads as the beginning of an object is a call, any other an
/// invalid one.
fn parsed(calls: &[ToolCallChunk]) -> (Value, Value) {
    let (mut valid, mut invalid) = (Vec::new(), Vec::new());
    for call in calls {
        let args = call.args.as_deref().unwrap_or_default();
        let object = parse_arguments(args).ok().or_else(|| args.trim_start().starts_with('{').then(Default::default));
        match object {
            Some(object) => valid.push(json!({
                "name": call.name.as_deref().unwrap_or_default(),
                "args": object,
                "id": call.id,
                "type": "tool_call",
            })),
            None => invalid.push(json!({
                "name": call.name,
                "args": args,
                "id": call.id,
                "error": null,
                "type": "invalid_tool_call",
            })),
        }
    }
    (Value::Array(valid), Value::Array(invalid))
}
