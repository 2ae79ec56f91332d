//! Content that no provider refuses: no empty text, no foreign blocks, images only where they can be seen.

use super::Rules;
use deerflow_core::{Content, ContentBlock, Message, MessageKind};
use serde_json::Value;
use std::sync::Arc;

const NO_IMAGE: &str = "[image left out: this model cannot see images]";
const EMPTY_USER: &str = "(empty message)";
const EMPTY_ASSISTANT: &str = "(no text)";
const EMPTY_RESULT: &str = "(no output)";

/// Makes the content of one message legal. A message that is legal already comes back as it is.
pub(super) fn clean(rules: &Rules, message: Arc<Message>) -> Arc<Message> {
    match cleaned(rules, &message) {
        Some(content) => Arc::new(Message { content, ..Message::clone(&message) }),
        None => message,
    }
}

fn cleaned(rules: &Rules, message: &Message) -> Option<Content> {
    let calls = !message.tool_calls().is_empty();
    let filler = match message.kind {
        MessageKind::Ai(_) if calls => "",
        MessageKind::Ai(_) => EMPTY_ASSISTANT,
        MessageKind::Tool(_) => EMPTY_RESULT,
        _ => EMPTY_USER,
    };
    let blocks = match &message.content {
        Content::Text(text) => {
            return (text.trim().is_empty() && text != filler).then(|| Content::Text(filler.to_owned()));
        }
        Content::Blocks(blocks) => blocks,
    };
    let assistant = message.as_ai().is_some();
    let kept: Vec<ContentBlock> = blocks.iter().filter_map(|block| keep(rules, assistant, block)).collect();
    let has_text = kept.iter().any(|block| block.text().is_some());
    // An assistant turn needs a text or a call, whatever it thought; others need anything at all.
    let wants_filler = if assistant { !calls && !has_text } else { kept.is_empty() };
    if kept.is_empty() {
        return Some(Content::Text(filler.to_owned()));
    }
    if !wants_filler && kept == *blocks {
        return None;
    }
    let mut kept = kept;
    if wants_filler {
        kept.push(ContentBlock::Text(filler.to_owned()));
    }
    Some(Content::Blocks(kept))
}

/// The block as it is sent; `None` when it is not.
fn keep(rules: &Rules, assistant: bool, block: &ContentBlock) -> Option<ContentBlock> {
    if let Some(text) = block.text() {
        if text.trim().is_empty() {
            return None;
        }
        return Some(match block {
            ContentBlock::Text(_) => block.clone(),
            // Provider keys of a text block (`cache_control`, citations) mean nothing to another provider.
            _ => ContentBlock::Text(text.to_owned()),
        });
    }
    if is_image(block) {
        return Some(match image_url(block) {
            Some(url) if rules.vision && !assistant => ContentBlock::ImageUrl(url),
            _ => ContentBlock::Text(NO_IMAGE.to_owned()),
        });
    }
    let kind = block.kind();
    // What only an assistant turn can hold: its thinking, and where its calls stood.
    let thinking = matches!(kind, "thinking" | "redacted_thinking" | "reasoning" | "function_call");
    if rules.blocks.contains(&kind) && thinking == assistant {
        // Thinking without its signature is refused, so it is worth nothing to the provider.
        let ContentBlock::Raw(value) = block else { return None };
        let signed = |key: &str| value.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        let fit = match kind {
            "thinking" => signed("signature"),
            "redacted_thinking" => signed("data"),
            _ => true,
        };
        return fit.then(|| block.clone());
    }
    // Calls are sent from `tool_calls`; thinking of other providers is sent by the adapter or not at all.
    if assistant || thinking {
        return None;
    }
    Some(ContentBlock::Text(format!("[{kind} content left out: this model cannot read it]")))
}

/// Whether a block is an image, in any of the spellings that clients and providers use.
#[must_use]
pub fn is_image(block: &ContentBlock) -> bool {
    matches!(block.kind(), "image_url" | "image" | "input_image")
}

/// The URL (`data:` for inline ones) of an image block in any spelling.
#[must_use]
pub fn image_url(block: &ContentBlock) -> Option<String> {
    let value = match block {
        ContentBlock::ImageUrl(url) => return (!url.is_empty()).then(|| url.clone()),
        ContentBlock::Raw(value) => value,
        ContentBlock::Text(_) => return None,
    };
    let text = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let data_url = |media: Option<String>, data: String| {
        format!("data:{};base64,{data}", media.unwrap_or_else(|| "image/png".to_owned()))
    };
    if let Some(image) = value.get("image_url") {
        return image.as_str().filter(|url| !url.is_empty()).map(str::to_owned).or_else(|| text(image, "url"));
    }
    if let Some(source) = value.get("source") {
        return text(source, "url")
            .or_else(|| text(source, "data").map(|data| data_url(text(source, "media_type"), data)));
    }
    let media = text(value, "mime_type").or_else(|| text(value, "mimeType"));
    text(value, "url")
        .or_else(|| text(value, "base64").or_else(|| text(value, "data")).map(|data| data_url(media, data)))
}

/// The images of one tool result.
pub(super) struct ToolImages {
    tool: String,
    urls: Vec<String>,
}

/// Takes the images out of a tool result, if it has any that can be sent: the rest, and the images.
pub(super) fn hoist_images(result: &Message) -> Option<(Content, ToolImages)> {
    let Content::Blocks(blocks) = &result.content else { return None };
    let urls: Vec<String> = blocks.iter().filter(|block| is_image(block)).filter_map(image_url).collect();
    if urls.is_empty() {
        return None;
    }
    let mut rest: Vec<ContentBlock> =
        blocks.iter().filter(|block| !is_image(block) || image_url(block).is_none()).cloned().collect();
    rest.push(ContentBlock::Text(format!("[{} image(s): see the next message]", urls.len())));
    let tool = result.name.clone().unwrap_or_else(|| "a tool".to_owned());
    Some((Content::Blocks(rest), ToolImages { tool, urls }))
}

/// The user message that shows the images of a batch of tool results.
pub(super) fn images_of_tools(images: Vec<ToolImages>) -> Message {
    let mut blocks = Vec::new();
    for found in images {
        blocks.push(ContentBlock::Text(format!("[images returned by {}]", found.tool)));
        blocks.extend(found.urls.into_iter().map(ContentBlock::ImageUrl));
    }
    Message::human(Content::Blocks(blocks)).hidden()
}
