//! Messages as they grow, each time whole: LangGraph Platform's `messages` stream.

use super::frame::Frames;
use super::line::line;
use super::metadata::RunView;
use super::updates::is_internal;
use super::values::StreamedMessage;
use deerflow_core::{Message, MessageDelta, TurnAccumulator};
use serde_json::{Value, json};
use std::collections::HashSet;

/// What a reader has been shown of the messages.
#[derive(Debug, Default)]
pub(super) struct GrowingView {
    /// Messages whose metadata was told.
    announced: HashSet<String>,
    /// Messages that were told whole.
    complete: HashSet<String>,
    streaming: Option<Streaming>,
}

#[derive(Debug)]
struct Streaming {
    message_id: String,
    metadata: Value,
    so_far: TurnAccumulator,
}

impl GrowingView {
    pub(super) fn begin(&mut self, run: &RunView, message_id: &str, model: &str, step: u64) {
        let metadata = run.of_message("model", message_id, Some(model), step);
        let message_id = message_id.to_owned();
        self.streaming = Some(Streaming { message_id, metadata, so_far: TurnAccumulator::default() });
    }

    /// Pieces of the streamed message may be missing: it comes whole.
    pub(super) fn forget_stream(&mut self) {
        self.streaming = None;
    }

    /// Takes a piece in. Only what is shown is rendered: a reader that has seen it gets nothing.
    pub(super) fn delta(&mut self, message_id: &str, delta: &MessageDelta, frames: Option<&mut Frames>) {
        let Some(streaming) = self.streaming.as_mut().filter(|s| s.message_id == message_id) else { return };
        streaming.so_far.push(delta);
        if streaming.so_far.is_empty() {
            return;
        }
        let first = self.announced.insert(message_id.to_owned());
        let Some(frames) = frames else { return };
        if first {
            frames.add("messages/metadata", announcement(message_id, &streaming.metadata));
        }
        let message = streaming.so_far.clone().finish().with_id(message_id);
        frames.add("messages/partial", line(&[StreamedMessage(&message)]));
    }

    pub(super) fn whole(&mut self, run: &RunView, node: &str, message: &Message, step: u64, frames: &mut Frames) {
        let streamed = self.streaming.take_if(|streaming| streaming.message_id == message.id());
        if !self.complete.insert(message.id().to_owned()) || is_internal(node) {
            return;
        }
        if self.announced.insert(message.id().to_owned()) {
            let metadata = streamed.map_or_else(|| run.of_message(node, message.id(), None, step), |s| s.metadata);
            frames.add("messages/metadata", announcement(message.id(), &metadata));
        }
        frames.add("messages/complete", line(&[StreamedMessage(message)]));
    }
}

fn announcement(message_id: &str, metadata: &Value) -> std::sync::Arc<str> {
    line(&json!({ message_id: { "metadata": metadata } }))
}
