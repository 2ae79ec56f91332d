//! The body of a messages request.

use super::blocks::{write_blocks, write_result};
use super::version::Off;
use super::{cache, version};
use crate::legalise::{Rules, legalise_request};
use crate::settings::{Settings, merge, object};
use deerflow_core::{ChatRequest, JsonMap, Message, MessageKind, ToolChoice, ToolStatus};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The interface wants a bound; this is the one when nobody gave any, in tokens.
const DEFAULT_MAX_TOKENS: u64 = 8_192;
/// The smallest thinking budget that is accepted, in tokens.
const SMALLEST_BUDGET: u64 = 1_024;

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
        merge(body, &object(json!({"output_config": {"effort": version::effort(model, &effort)}})));
    }
    if on {
        body.entry("thinking")
            .or_insert_with(|| json!({"type": if version::adaptive(model) { "adaptive" } else { "enabled" }}));
    }
    if version::refuses_force(model) && body.get("tool_choice") == Some(&json!({"type": "any"})) {
        body.remove("tool_choice");
    }
    let kind = body.get("thinking").and_then(|thinking| thinking.get("type")).and_then(Value::as_str);
    match kind {
        Some("disabled") => return turn_off(model, body),
        Some("enabled") if version::fixed_sampling(model) => {
            // A budget is refused; how much to think is the model's to decide.
            let display = body.get("thinking").and_then(|thinking| thinking.get("display")).cloned();
            let mut thinking = object(json!({"type": "adaptive"}));
            thinking.extend(display.map(|display| ("display".to_owned(), display)));
            body.insert("thinking".into(), Value::Object(thinking));
        }
        Some("enabled" | "adaptive") => {}
        _ => return,
    }
    let Some(Value::Object(thinking)) = body.get_mut("thinking") else { return };
    if version::hides_thinking(model) {
        thinking.entry("display").or_insert(json!("summarized"));
    }
    if thinking.get("type") != Some(&json!("enabled")) {
        return;
    }
    let asked = thinking.get("budget_tokens").and_then(Value::as_u64);
    let display = thinking.get("display").cloned();
    let budget = asked.unwrap_or(max_tokens / 5 * 4).min(max_tokens.saturating_sub(1));
    // In a tool loop the turn that made the calls must start with its thinking. One that came from another model has none.
    if budget < SMALLEST_BUDGET || in_loop_without_thinking(messages) {
        body.remove("thinking");
        return;
    }
    let mut thinking = object(json!({"type": "enabled", "budget_tokens": budget}));
    thinking.extend(display.map(|display| ("display".to_owned(), display)));
    body.insert("thinking".into(), Value::Object(thinking));
    body.remove("temperature");
    body.remove("top_k");
    if body.get("tool_choice") == Some(&json!({"type": "any"})) {
        body.remove("tool_choice");
    }
}

/// Says `disabled` as the model takes it.
fn turn_off(model: &str, body: &mut JsonMap) {
    match version::off(model) {
        Off::Disabled => {
            // Not together with the highest efforts.
            if let Some(effort) = body.get_mut("output_config").and_then(|config| config.get_mut("effort"))
                && matches!(effort.as_str(), Some("xhigh" | "max"))
            {
                *effort = json!("high");
            }
        }
        Off::BetweenTools => drop(body.insert("thinking".into(), json!({"type": "between_tools"}))),
        Off::Silence => drop(body.remove("thinking")),
        Off::Never => {
            body.remove("thinking");
            if body.get("output_config").and_then(|config| config.get("effort")).is_none() {
                merge(body, &object(json!({"output_config": {"effort": "low"}})));
            }
        }
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

/// Whether thinking of earlier turns goes back with `body`.
pub(super) fn has_thinking(body: &Value) -> bool {
    let messages = body.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let kind = |block: &Value| block.get("type").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("thinking"));
    messages.iter().filter_map(|message| message.get("content")?.as_array()).flatten().any(kind)
}

#[cfg(test)]
mod tests;
