//! Content blocks as the messages interface has them.

use crate::legalise::{image_url, is_image};
use deerflow_core::{Content, ContentBlock, Message, ToolCall};
use serde_json::{Value, json};

/// Image formats that are taken inline.
const MEDIA: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];
/// Key of `additional_kwargs` with where calls stood among the blocks of a turn, kept when the model thought between them:
/// its thinking is refused in any other place. A list of `null` for a block of the content and the id for a call.
pub(super) const ORDER: &str = "anthropic_order";

/// The blocks of a message that is not a tool result: content first and calls after it, unless the model had another order.
pub(super) fn write_blocks(message: &Message) -> Vec<Value> {
    let content: Vec<Value> = message.content.to_blocks().iter().map(write_block).collect();
    let calls: Vec<Value> = message.tool_calls().iter().map(write_call).collect();
    let order = message.additional_kwargs.get(ORDER).and_then(Value::as_array);
    // Of a turn that was changed since nobody knows the order.
    let intact = order.filter(|order| {
        order.iter().filter(|slot| slot.is_null()).count() == content.len()
            && order.len() == content.len() + calls.len()
            && order.iter().filter_map(Value::as_str).eq(message.tool_calls().iter().map(ToolCall::id))
    });
    let Some(order) = intact else { return content.into_iter().chain(calls).collect() };
    let (mut content, mut calls) = (content.into_iter(), calls.into_iter());
    order.iter().filter_map(|slot| if slot.is_null() { content.next() } else { calls.next() }).collect()
}

fn write_call(call: &ToolCall) -> Value {
    json!({"type": "tool_use", "id": call.id(), "name": call.name, "input": call.args})
}

/// What a tool result holds.
pub(super) fn write_result(content: &Content) -> Value {
    match content {
        Content::Text(text) => json!(text),
        Content::Blocks(blocks) => blocks.iter().map(write_block).collect(),
    }
}

fn write_block(block: &ContentBlock) -> Value {
    if is_image(block) {
        return write_image(&image_url(block).unwrap_or_default());
    }
    match (block.text(), block) {
        (Some(text), _) => json!({"type": "text", "text": text}),
        (None, ContentBlock::Raw(value)) => value.clone(),
        (None, _) => json!({"type": "text", "text": "(empty)"}),
    }
}

fn write_image(url: &str) -> Value {
    let Some(data) = url.strip_prefix("data:") else {
        return json!({"type": "image", "source": {"type": "url", "url": url}});
    };
    let (media, data) = data.split_once(";base64,").unwrap_or_default();
    let media = if media == "image/jpg" { "image/jpeg" } else { media };
    if MEDIA.contains(&media) {
        json!({"type": "image", "source": {"type": "base64", "media_type": media, "data": data}})
    } else {
        json!({"type": "text", "text": "[image left out: this model does not take its format]"})
    }
}
