//! Leaves the contents of refused writes out of requests.
//!
//! A refusal asks for a read and a new call, so the refused content is only in the way. Once left out it stays left out:
//! the start of a request stays the same for the provider's cache.

use super::WRITE_BLOCK;
use deerflow_core::{Message, ToolCall};
use serde_json::Value;
use std::sync::Arc;

/// Replaces contents of at least `min_chars` characters of calls that were refused.
pub(super) fn elide(messages: &mut [Arc<Message>], min_chars: usize) {
    for index in 0..messages.len() {
        let refused: Vec<usize> = messages[index]
            .tool_calls()
            .iter()
            .enumerate()
            .filter(|(_, call)| !payloads(&call.name).is_empty() && was_refused(&messages[index + 1..], call.id()))
            .map(|(position, _)| position)
            .collect();
        for position in refused {
            let Some(shorter) = shortened(&messages[index].tool_calls()[position], min_chars) else { continue };
            if let Some(part) = Arc::make_mut(&mut messages[index]).as_ai_mut() {
                part.tool_calls[position] = shorter;
            }
        }
    }
}

/// The arguments that are the bulk of a call.
fn payloads(tool: &str) -> &'static [&'static str] {
    match tool {
        "write_file" => &["content"],
        "str_replace" => &["old_str", "new_str"],
        _ => &[],
    }
}

/// Results are looked for within the turn: some providers number the calls of every turn from zero.
fn was_refused(after: &[Arc<Message>], call_id: &str) -> bool {
    after
        .iter()
        .take_while(|message| message.as_ai().is_none())
        .find(|message| message.as_tool().is_some_and(|part| part.tool_call_id == call_id))
        .is_some_and(|message| message.additional_kwargs.get(WRITE_BLOCK).is_some_and(Value::is_object))
}

fn shortened(call: &ToolCall, min_chars: usize) -> Option<ToolCall> {
    let mut shorter: Option<ToolCall> = None;
    for field in payloads(&call.name) {
        let Some(text) = call.args.get(*field).and_then(Value::as_str) else { continue };
        let chars = text.chars().count();
        let stand_in =
            format!("[{chars} characters not shown again: this {} was refused and wrote nothing.]", call.name);
        if chars >= min_chars && chars > stand_in.len() {
            shorter.get_or_insert_with(|| call.clone()).args.insert((*field).to_owned(), stand_in.into());
        }
    }
    shorter
}
