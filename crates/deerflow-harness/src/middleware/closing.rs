//! Ending a turn whose calls must not run.

use deerflow_core::message::{AiPart, MessageKind};
use deerflow_core::{Content, ContentBlock, Message};
use serde_json::json;

/// The same message without its calls (structured ones and those among content blocks), with a visible note, and this
/// finish reason.
pub(super) fn without_calls(message: &Message, note: &str, finish_reason: &str) -> Message {
    let mut message = with_note(message, note);
    if let MessageKind::Ai(part) = &mut message.kind {
        *part = AiPart { usage_metadata: part.usage_metadata.take(), ..AiPart::default() };
    }
    if let Content::Blocks(blocks) = &mut message.content {
        blocks.retain(|b| !matches!(b.kind(), "tool_use" | "function_call" | "tool_call" | "input_json_delta"));
    }
    message.additional_kwargs.remove("tool_calls");
    message.additional_kwargs.remove("function_call");
    message.response_metadata.insert("finish_reason".into(), json!(finish_reason));
    message
}

/// The same message with a note behind its text.
pub(super) fn with_note(message: &Message, note: &str) -> Message {
    let mut message = message.clone();
    message.content = match message.content {
        Content::Text(text) if text.trim().is_empty() => Content::Text(note.to_owned()),
        Content::Text(text) => Content::Text(format!("{}\n\n{note}", text.trim_end())),
        Content::Blocks(mut blocks) => {
            blocks.push(ContentBlock::Text(note.to_owned()));
            Content::Blocks(blocks)
        }
    };
    message
}
