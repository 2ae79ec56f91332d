//! Estimates for messages, tools and whole requests.

use crate::{Scanner, text_tokens};
use deerflow_core::{ChatRequest, Content, ContentBlock, Message, ToolSpec, message::kwargs};
use serde_json::Value;

/// What an image is taken to cost, in tokens: a picture of about one megapixel at the large providers.
pub const IMAGE_TOKENS: u64 = 1_100;
/// Role, separators and the like.
const MESSAGE_OVERHEAD: u64 = 4;
/// Id and framing of a tool call or a tool definition.
const CALL_OVERHEAD: u64 = 12;

/// The estimate for one message: content, thinking, tool calls. What the model never sees (artifacts, metadata) is free.
#[must_use]
pub fn message_tokens(message: &Message) -> u64 {
    let mut tokens = MESSAGE_OVERHEAD + content_tokens(&message.content);
    if let Some(reasoning) = message.additional_kwargs.get(kwargs::REASONING_CONTENT).and_then(Value::as_str) {
        tokens += text_tokens(reasoning);
    }
    if let Some(name) = &message.name {
        tokens += text_tokens(name);
    }
    if let Some(part) = message.as_ai() {
        for call in &part.tool_calls {
            let mut scanner = Scanner::default();
            scanner.push_str(&call.name);
            scan_object(&mut scanner, &call.args);
            tokens += CALL_OVERHEAD + scanner.tokens();
        }
        for call in &part.invalid_tool_calls {
            tokens += CALL_OVERHEAD + call.name.as_deref().map_or(0, text_tokens);
            tokens += call.args.as_deref().map_or(0, text_tokens);
        }
    }
    if message.as_tool().is_some() {
        tokens += CALL_OVERHEAD;
    }
    tokens
}

/// The estimate for a tool definition.
#[must_use]
pub fn tool_tokens(tool: &ToolSpec) -> u64 {
    let mut scanner = Scanner::default();
    scanner.push_str(&tool.name);
    scanner.push_str(&tool.description);
    scan_value(&mut scanner, &tool.parameters);
    CALL_OVERHEAD + scanner.tokens()
}

/// The estimate for everything a request sends.
#[must_use]
pub fn request_tokens(request: &ChatRequest) -> u64 {
    let system = request.system.as_deref().map_or(0, |text| MESSAGE_OVERHEAD + text_tokens(text));
    system
        + request.messages.iter().map(|message| message_tokens(message)).sum::<u64>()
        + request.tools.iter().map(|tool| tool_tokens(tool)).sum::<u64>()
}

fn content_tokens(content: &Content) -> u64 {
    match content {
        Content::Text(text) => text_tokens(text),
        Content::Blocks(blocks) => blocks.iter().map(block_tokens).sum(),
    }
}

fn block_tokens(block: &ContentBlock) -> u64 {
    match block {
        ContentBlock::Text(text) => text_tokens(text),
        ContentBlock::ImageUrl(_) => IMAGE_TOKENS,
        ContentBlock::Raw(_) if matches!(block.kind(), "image" | "image_url" | "input_image" | "file" | "document") => {
            IMAGE_TOKENS
        }
        ContentBlock::Raw(value) => match block.text() {
            Some(text) => text_tokens(text),
            None => {
                let mut scanner = Scanner::default();
                scan_value(&mut scanner, value);
                scanner.tokens()
            }
        },
    }
}

fn scan_object(scanner: &mut Scanner, map: &deerflow_core::JsonMap) {
    scanner.push('{');
    for (key, value) in map {
        scanner.push('"');
        scanner.push_str(key);
        scanner.push_str("\":");
        scan_value(scanner, value);
        scanner.push(',');
    }
    scanner.push('}');
}

/// Walks a JSON value as its text would read, without building the text.
fn scan_value(scanner: &mut Scanner, value: &Value) {
    match value {
        Value::Null => scanner.push_str("null"),
        Value::Bool(flag) => scanner.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => scanner.push_str(&number.to_string()),
        Value::String(text) => {
            scanner.push('"');
            scanner.push_str(text);
            scanner.push('"');
        }
        Value::Array(items) => {
            scanner.push('[');
            for item in items {
                scan_value(scanner, item);
                scanner.push(',');
            }
            scanner.push(']');
        }
        Value::Object(map) => scan_object(scanner, map),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_core::ToolCall;
    use serde_json::json;

    #[test]
    fn images_cost_a_fixed_amount_however_large_their_data() {
        let image = |url: String| Message::human(Content::Blocks(vec![ContentBlock::ImageUrl(url)]));
        let small = message_tokens(&image("https://x.example/a.png".into()));
        assert_eq!(small, message_tokens(&image(format!("data:image/png;base64,{}", "A".repeat(1_000_000)))));
        assert_eq!(small, MESSAGE_OVERHEAD + IMAGE_TOKENS);
        let raw = ContentBlock::Raw(json!({"type": "image", "source": {"type": "base64", "data": "A".repeat(9000)}}));
        assert_eq!(small, message_tokens(&Message::human(Content::Blocks(vec![raw]))));
    }

    #[test]
    fn calls_thinking_and_broken_calls_count_and_artifacts_do_not() {
        let plain = message_tokens(&Message::ai("ok"));
        let args = json!({"path": "a.md", "content": "hello world ".repeat(50)}).as_object().unwrap().clone();
        assert!(message_tokens(&Message::ai_calls("ok", vec![ToolCall::new("1", "write_file", args)])) > plain + 100);
        let thinking = Message::ai("ok").with_kwarg(kwargs::REASONING_CONTENT, "word ".repeat(100));
        assert!(message_tokens(&thinking) >= plain + 90);
        let mut broken = Message::ai("ok");
        broken.as_ai_mut().unwrap().invalid_tool_calls.push(deerflow_core::InvalidToolCall::new(
            None,
            None,
            "word ".repeat(100),
            "bad",
        ));
        assert!(message_tokens(&broken) >= plain + 90);
        let mut tool = Message::tool("done", "1", "bash");
        let before = message_tokens(&tool);
        tool.as_tool_mut().unwrap().artifact = Some(json!("x".repeat(5000)));
        assert_eq!(message_tokens(&tool), before);
    }
}
