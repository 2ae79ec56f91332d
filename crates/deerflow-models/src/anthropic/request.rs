//! The body of a messages request.

use super::{cache, version};
use crate::legalise::{Rules, image_url, is_image, legalise_request};
use crate::settings::{Settings, merge, object};
use deerflow_core::{ChatRequest, Content, ContentBlock, JsonMap, Message, MessageKind, ToolChoice, ToolStatus};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The interface wants a bound; this is the one when nobody gave any, in tokens.
const DEFAULT_MAX_TOKENS: u64 = 8_192;
/// The smallest thinking budget that is accepted, in tokens.
const SMALLEST_BUDGET: u64 = 1_024;
const MEDIA: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

pub(super) fn build(settings: &Settings, rules: &Rules, request: &ChatRequest) -> Value {
    let model = &settings.info.model;
    let legal = legalise_request(rules, request);
    let max_tokens = request.max_tokens.or(settings.max_tokens).unwrap_or(DEFAULT_MAX_TOKENS);
    let mut body = object(json!({"model": model, "max_tokens": max_tokens}));
    let (system, messages) = match legal.split_first() {
        Some((first, rest)) if matches!(first.kind, MessageKind::System) => (Some(first), rest),
        _ => (None, legal.as_slice()),
    };
    if let Some(system) = system {
        body.insert("system".into(), json!([{"type": "text", "text": system.text()}]));
    }
    body.insert("messages".into(), Value::Array(write_messages(messages)));
    write_tools(request, messages, &mut body);
    merge(&mut body, &settings.body);
    write_thinking(settings, request, messages, max_tokens, &mut body);
    if version::fixed_sampling(model) {
        ["temperature", "top_p", "top_k"].iter().for_each(|key| drop(body.remove(*key)));
    } else if body.contains_key("temperature") {
        // Recent models refuse both at once.
        body.remove("top_p");
    }
    body.insert("stream".into(), json!(settings.streaming));
    let mut body = Value::Object(body);
    if settings.prompt_caching {
        cache::mark(&mut body);
    }
    body
}

fn write_tools(request: &ChatRequest, messages: &[Arc<Message>], body: &mut JsonMap) {
    let mut tools: Vec<Value> = Vec::new();
    for tool in &request.tools {
        let mut schema = if tool.parameters.is_object() { tool.parameters.clone() } else { json!({}) };
        if let Value::Object(schema) = &mut schema {
            schema.entry("type").or_insert_with(|| json!("object"));
        }
        tools.push(json!({"name": tool.name, "description": tool.description, "input_schema": schema}));
    }
    let mut choice = match request.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some("none"),
        ToolChoice::Required => Some("any"),
    };
    if tools.is_empty() {
        // A history with calls is refused without definitions, also by a request that offers no tools.
        let used: BTreeSet<&str> =
            messages.iter().flat_map(|message| message.tool_calls()).map(|call| call.name.as_str()).collect();
        tools.extend(used.into_iter().map(|name| json!({"name": name, "input_schema": {"type": "object"}})));
        choice = Some("none");
    }
    if tools.is_empty() {
        return;
    }
    body.insert("tools".into(), Value::Array(tools));
    if let Some(choice) = choice {
        body.insert("tool_choice".into(), json!({"type": choice}));
    }
}

fn write_thinking(
    settings: &Settings,
    request: &ChatRequest,
    messages: &[Arc<Message>],
    max_tokens: u64,
    body: &mut JsonMap,
) {
    let model = &settings.info.model;
    let on = request.thinking && settings.info.supports_thinking;
    let mut own = if on { settings.thinking_on.clone() } else { settings.thinking_off.clone() };
    let effort = settings.effort_for(request.reasoning_effort.as_deref(), &own);
    own.remove("reasoning_effort");
    merge(body, &own);
    if let Some(effort) = effort.filter(|_| version::adaptive(model)) {
        let effort = if effort == "minimal" { "low".to_owned() } else { effort };
        merge(body, &object(json!({"output_config": {"effort": effort}})));
    }
    if on {
        body.entry("thinking")
            .or_insert_with(|| json!({"type": if version::adaptive(model) { "adaptive" } else { "enabled" }}));
    }
    if body.get("thinking").and_then(|thinking| thinking.get("type")).and_then(Value::as_str) != Some("enabled") {
        return;
    }
    if version::fixed_sampling(model) {
        body.insert("thinking".into(), json!({"type": "adaptive"}));
        return;
    }
    let asked = body.get("thinking").and_then(|thinking| thinking.get("budget_tokens")).and_then(Value::as_u64);
    let budget = asked.unwrap_or(max_tokens / 5 * 4).min(max_tokens.saturating_sub(1));
    // In a tool loop the turn that made the calls must start with its thinking. One that came from another model has none.
    if budget < SMALLEST_BUDGET || in_loop_without_thinking(messages) {
        body.remove("thinking");
        return;
    }
    body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": budget}));
    body.remove("temperature");
    body.remove("top_k");
    if body.get("tool_choice") == Some(&json!({"type": "any"})) {
        body.remove("tool_choice");
    }
}

fn in_loop_without_thinking(messages: &[Arc<Message>]) -> bool {
    let last =
        messages.iter().rev().take_while(|message| !message.is_human()).find(|message| message.as_ai().is_some());
    last.is_some_and(|message| {
        let starts = message.content.to_blocks().first().is_some_and(|block| block.kind().ends_with("thinking"));
        !message.tool_calls().is_empty() && !starts
    })
}

fn write_messages(messages: &[Arc<Message>]) -> Vec<Value> {
    let mut out: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let role = if message.as_ai().is_some() { "assistant" } else { "user" };
        let blocks = match &message.kind {
            MessageKind::Tool(part) => {
                let mut result = object(json!({"type": "tool_result", "tool_use_id": part.tool_call_id}));
                result.insert("content".into(), write_result(&message.content));
                if part.status == ToolStatus::Error {
                    result.insert("is_error".into(), json!(true));
                }
                vec![Value::Object(result)]
            }
            _ => write_blocks(message),
        };
        // Results and the user's words after them are one turn here.
        match out.last_mut() {
            Some((last, all)) if *last == role => all.extend(blocks),
            _ => out.push((role, blocks)),
        }
    }
    out.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

fn write_blocks(message: &Message) -> Vec<Value> {
    let mut blocks: Vec<Value> = message.content.to_blocks().iter().map(write_block).collect();
    for call in message.tool_calls() {
        blocks.push(json!({"type": "tool_use", "id": call.id(), "name": call.name, "input": call.args}));
    }
    blocks
}

fn write_result(content: &Content) -> Value {
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
    match data.split_once(";base64,") {
        Some((media, data)) if MEDIA.contains(&media) => {
            json!({"type": "image", "source": {"type": "base64", "media_type": media, "data": data}})
        }
        _ => json!({"type": "text", "text": "[image left out: this model does not take its format]"}),
    }
}

#[cfg(test)]
mod tests;
