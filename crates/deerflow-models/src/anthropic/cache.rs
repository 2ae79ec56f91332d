//! Where the prompt cache ends: at most four breakpoints per request.

use serde_json::{Value, json};

const MOST: usize = 4;
/// Messages, counted from the last, that get a breakpoint while there are any left.
const MESSAGES: usize = 3;

/// Marks the last system block, the last tool, and the last block of the last messages. Each marked prefix is read from the
/// cache by the next request, which only adds messages.
pub(super) fn mark(body: &mut Value) {
    let mut left = MOST;
    for list in ["system", "tools"] {
        if let Some(last) = body.get_mut(list).and_then(Value::as_array_mut).and_then(|blocks| blocks.last_mut()) {
            left -= usize::from(mark_block(last));
        }
    }
    let Some(messages) = body.get_mut("messages").and_then(Value::as_array_mut) else { return };
    for message in messages.iter_mut().rev().take(MESSAGES) {
        if left == 0 {
            return;
        }
        let Some(blocks) = message.get_mut("content").and_then(Value::as_array_mut) else { continue };
        // Thinking blocks take no marker; what precedes them is cached with the block before.
        if let Some(block) = blocks.iter_mut().rev().find(|block| cacheable(block)) {
            left -= usize::from(mark_block(block));
        }
    }
}

fn cacheable(block: &Value) -> bool {
    !matches!(block.get("type").and_then(Value::as_str), Some("thinking" | "redacted_thinking"))
}

fn mark_block(block: &mut Value) -> bool {
    let Value::Object(block) = block else { return false };
    block.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    true
}
