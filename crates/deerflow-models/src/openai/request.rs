//! The body of a chat-completions request.

use super::text_calls;
use crate::legalise::{Rules, image_url, is_image, legalise_request};
use crate::quirks::{Quirks, Replay, ThinkingSwitch, ToolCalls};
use crate::settings::{Settings, merge, object};
use deerflow_core::message::kwargs;
use deerflow_core::{ChatRequest, Content, ContentBlock, JsonMap, Message, MessageKind, ToolChoice, ToolSpec};
use serde_json::{Value, json};

/// Key of `additional_kwargs` with what a provider attached to calls and wants back.
pub(super) const CALL_EXTRAS: &str = "tool_call_extras";
/// Key of `additional_kwargs` with thinking as the provider structured it.
pub(super) const REASONING_DETAILS: &str = "reasoning_details";
/// Key of `response_metadata` with the field that thinking came in.
pub(super) const REASONING_FIELD: &str = "reasoning_field";

/// Builds the body. Keys come in a fixed order, so that equal prefixes stay equal bytes.
pub(super) fn build(settings: &Settings, quirks: &Quirks, rules: &Rules, request: &ChatRequest) -> Value {
    let streaming = streams(settings, quirks, request);
    let rewritten = match settings.tool_calls.unwrap_or(quirks.tool_calls) {
        ToolCalls::Text(format) => Some(text_calls::as_text(format, quirks.template_shows_tools, request)),
        ToolCalls::Native | ToolCalls::NativeOrText => None,
    };
    let request = rewritten.as_ref().unwrap_or(request);
    let thinks = request.thinking && settings.info.supports_thinking;
    let mut body = JsonMap::new();
    body.insert("model".into(), json!(settings.info.model));
    let messages: Vec<Value> =
        legalise_request(rules, request).iter().map(|message| write_message(quirks, thinks, message)).collect();
    body.insert("messages".into(), Value::Array(messages));
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(|tool| write_tool(tool)).collect());
        match request.tool_choice {
            ToolChoice::None => body.insert("tool_choice".into(), json!("none")),
            ToolChoice::Required if quirks.required_choice => body.insert("tool_choice".into(), json!("required")),
            ToolChoice::Auto | ToolChoice::Required => None,
        };
    }
    for (key, value) in quirks.flags {
        body.insert((*key).to_owned(), json!(value));
    }
    merge(&mut body, &settings.body);
    if let Some(max) = request.max_tokens.or(settings.max_tokens) {
        body.insert(quirks.max_tokens.to_owned(), json!(max));
    }
    let mut switch = switch_thinking(settings, quirks, request.thinking);
    let effort = settings.effort_for(request.reasoning_effort.as_deref(), &switch);
    // A bound for thinking is the bound, whatever the server calls it.
    let bounds = ["max_tokens", "max_completion_tokens"].map(|key| switch.remove(key));
    if let (Some(max), None) = (bounds.into_iter().flatten().next(), request.max_tokens) {
        body.insert(quirks.max_tokens.to_owned(), max);
    }
    settings.put_switch(&mut body, &switch, request.thinking);
    body.remove("reasoning_effort");
    if let Some(effort) = effort {
        body.insert("reasoning_effort".into(), json!(effort));
    }
    rename_template_keys(quirks, &mut body);
    body.insert("stream".into(), json!(streaming));
    if streaming && settings.stream_usage && quirks.stream_usage {
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    Value::Object(body)
}

/// Whether the reply to this request comes in pieces.
pub(super) fn streams(settings: &Settings, quirks: &Quirks, request: &ChatRequest) -> bool {
    settings.streaming && (quirks.streams_with_tools || request.tools.is_empty())
}

/// Old names of template switches become the new ones, unless those are set too.
fn rename_template_keys(quirks: &Quirks, body: &mut JsonMap) {
    let Some(Value::Object(template)) = body.get_mut("chat_template_kwargs") else { return };
    for (old, new) in quirks.template_keys {
        if let Some(value) = template.remove(*old) {
            template.entry(*new).or_insert(value);
        }
    }
}

/// The profile's own settings; for a profile that can think and says nothing of how, the server's.
fn switch_thinking(settings: &Settings, quirks: &Quirks, on: bool) -> JsonMap {
    let own = if on { &settings.thinking_on } else { &settings.thinking_off };
    let silent = settings.thinking_on.is_empty() && settings.thinking_off.is_empty();
    if !settings.info.supports_thinking || !silent {
        // Turning off is allowed to a model that does not think; it is what a hybrid one needs.
        return if settings.info.supports_thinking || !on { own.clone() } else { JsonMap::new() };
    }
    object(match quirks.thinking {
        ThinkingSwitch::None => json!({}),
        ThinkingSwitch::Type => json!({"thinking": {"type": if on { "enabled" } else { "disabled" }}}),
        ThinkingSwitch::Enable => json!({"enable_thinking": on}),
        ThinkingSwitch::Template => json!({"chat_template_kwargs": {"enable_thinking": on}}),
        ThinkingSwitch::Reasoning => json!({"reasoning": {"enabled": on}}),
    })
}

fn write_tool(tool: &ToolSpec) -> Value {
    let mut parameters = tool.parameters.clone();
    // Several servers refuse a schema that is not plainly an object.
    if !parameters.is_object() {
        parameters = json!({});
    }
    if let Value::Object(schema) = &mut parameters {
        schema.entry("type").or_insert_with(|| json!("object"));
        schema.entry("properties").or_insert_with(|| json!({}));
    }
    json!({
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters}
    })
}

fn write_message(quirks: &Quirks, thinks: bool, message: &Message) -> Value {
    let mut wire = JsonMap::new();
    match &message.kind {
        MessageKind::System => {
            wire.insert("role".into(), json!(quirks.system_role));
            wire.insert("content".into(), json!(message.text()));
        }
        MessageKind::Human | MessageKind::Remove => {
            wire.insert("role".into(), json!("user"));
            wire.insert("content".into(), write_content(quirks, &message.content));
            if let Some(name) = message.name.as_deref().filter(|name| quirks.user_name && plain_name(name)) {
                wire.insert("name".into(), json!(name));
            }
        }
        MessageKind::Tool(part) => {
            wire.insert("role".into(), json!("tool"));
            wire.insert("tool_call_id".into(), json!(part.tool_call_id));
            if let Some(name) = message.name.as_deref().filter(|name| quirks.tool_name && plain_name(name)) {
                wire.insert("name".into(), json!(name));
            }
            wire.insert("content".into(), json!(message.text()));
        }
        MessageKind::Ai(_) => write_assistant(quirks, thinks, message, &mut wire),
    }
    Value::Object(wire)
}

fn write_assistant(quirks: &Quirks, thinks: bool, message: &Message, wire: &mut JsonMap) {
    wire.insert("role".into(), json!("assistant"));
    let text = joined(&message.content);
    let content = if text.is_empty() && quirks.null_content { Value::Null } else { json!(text) };
    wire.insert("content".into(), content);
    replay_thinking(quirks, thinks, message, wire);
    let calls = message.tool_calls();
    if calls.is_empty() {
        return;
    }
    let extras = message.additional_kwargs.get(CALL_EXTRAS).and_then(Value::as_array).filter(|_| quirks.call_extras);
    let mut written: Vec<Value> = Vec::with_capacity(calls.len());
    for (position, call) in calls.iter().enumerate() {
        let arguments = serde_json::to_string(&call.args).unwrap_or_else(|_| "{}".to_owned());
        let mut wire_call = object(json!({
            "id": call.id(), "type": "function", "function": {"name": call.name, "arguments": arguments}
        }));
        // By id; by position where ids had to be changed.
        let found = extras.and_then(|extras| {
            let by_id = extras.iter().find(|extra| extra.get("id").and_then(Value::as_str) == Some(call.id()));
            by_id.or_else(|| extras.get(position).filter(|_| extras.len() == calls.len()))
        });
        if let Some(Value::Object(extra)) = found {
            wire_call.extend(extra.iter().filter(|(key, _)| *key != "id").map(|(k, v)| (k.clone(), v.clone())));
        } else if let (Some(signature), 0) = (quirks.unsigned_call, position) {
            wire_call.insert("extra_content".into(), json!({"google": {"thought_signature": signature}}));
        }
        written.push(Value::Object(wire_call));
    }
    wire.insert("tool_calls".into(), Value::Array(written));
}

fn replay_thinking(quirks: &Quirks, thinks: bool, message: &Message, wire: &mut JsonMap) {
    let stored = message.additional_kwargs.get(kwargs::REASONING_CONTENT).and_then(Value::as_str);
    let with_calls = !message.tool_calls().is_empty();
    match quirks.replay {
        Replay::Never => {}
        Replay::Always(field) => {
            if let Some(text) = stored.or(thinks.then_some("")) {
                wire.insert(field.into(), json!(text));
            }
        }
        Replay::Stored(field) => {
            if let Some(text) = stored {
                wire.insert(field.into(), json!(text));
            }
        }
        Replay::WithCalls(field) => {
            if let Some(text) = stored.filter(|_| with_calls) {
                wire.insert(field.into(), json!(text));
            }
        }
        Replay::SameField => {
            let field = message.response_metadata.get(REASONING_FIELD).and_then(Value::as_str);
            if let (Some(text), Some(field), true) = (stored, field, with_calls) {
                wire.insert(field.into(), json!(text));
            }
        }
        Replay::Details { made_up } => match (message.additional_kwargs.get(REASONING_DETAILS), stored) {
            (Some(details @ Value::Array(_)), _) => {
                wire.insert("reasoning_details".into(), details.clone());
            }
            (_, Some(text)) if made_up => {
                wire.insert("reasoning_details".into(), json!([{"type": "reasoning.text", "text": text}]));
            }
            (_, Some(text)) => {
                wire.insert("reasoning".into(), json!(text));
            }
            _ => {}
        },
    }
}

/// A string where it is one, else a list of parts.
fn write_content(quirks: &Quirks, content: &Content) -> Value {
    let blocks = match content {
        Content::Text(text) => return json!(text),
        Content::Blocks(blocks) => blocks,
    };
    let only_text = blocks.iter().all(|block| block.text().is_some());
    if only_text && (blocks.len() == 1 || !quirks.text_parts) {
        return json!(joined(content));
    }
    Value::Array(
        blocks
            .iter()
            .map(|block| match block {
                image if is_image(image) => {
                    json!({"type": "image_url", "image_url": {"url": image_url(image).unwrap_or_default()}})
                }
                ContentBlock::Raw(value) if block.text().is_none() => value.clone(),
                other => json!({"type": "text", "text": other.text().unwrap_or_default()}),
            })
            .collect(),
    )
}

/// The texts, a blank line between them, so that the turns they came from stay apart.
fn joined(content: &Content) -> String {
    match content {
        Content::Text(text) => text.clone(),
        Content::Blocks(blocks) => blocks.iter().filter_map(ContentBlock::text).collect::<Vec<_>>().join("\n\n"),
    }
}

/// The characters that OpenAI takes in a name.
fn plain_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests;
