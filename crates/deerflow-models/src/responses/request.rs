//! The body of a Responses request.

use super::items::{Part, parts};
use crate::legalise::{Rules, image_url, is_image, legalise_request};
use crate::settings::{Settings, merge, object};
use deerflow_core::{ChatRequest, Content, ContentBlock, JsonMap, Message, MessageKind, ToolChoice, ToolSpec};
use serde_json::{Value, json};
use std::sync::Arc;

/// What makes reasoning readable to the next request of a service that stores nothing.
pub(crate) const ENCRYPTED: &str = "reasoning.encrypted_content";
/// The smallest bound that the interface takes, in tokens.
const SMALLEST_OUTPUT: u64 = 16;

/// Keys of chat completions that this interface refuses. The history is always sent whole, so there is no response to go
/// on from either.
pub(crate) const WITHOUT_COUNTERPART: &[&str] = &[
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "presence_penalty",
    "previous_response_id",
    "seed",
    "stop",
    "use_previous_response_id",
];

/// The conversation as this interface has it.
pub(crate) struct Conversation {
    /// The system prompt.
    pub(crate) instructions: Option<String>,
    pub(crate) input: Vec<Value>,
}

/// Builds the body. Keys come in a fixed order, so that equal prefixes stay equal bytes. Reasoning goes back if it came
/// from `origin`.
pub(super) fn build(settings: &Settings, rules: &Rules, request: &ChatRequest, origin: Option<&str>) -> Value {
    let thinks = request.thinking && settings.info.supports_thinking;
    let mut body = JsonMap::new();
    body.insert("model".into(), json!(settings.info.model));
    let conversation = conversation(rules, request, origin);
    if let Some(instructions) = conversation.instructions {
        body.insert("instructions".into(), json!(instructions));
    }
    body.insert("input".into(), Value::Array(conversation.input));
    write_tools(request, &mut body);
    let switch = settings.switch(request.thinking);
    let effort = settings.effort_for(request.reasoning_effort.as_deref(), &switch);
    let mut own = settings.body.clone();
    settings.put_switch(&mut own, &switch, request.thinking);
    merge(&mut body, &translate(&own));
    let max = request.max_tokens.or_else(|| body.get("max_output_tokens")?.as_u64()).or(settings.max_tokens);
    if let Some(max) = max {
        body.insert("max_output_tokens".into(), json!(max.max(SMALLEST_OUTPUT)));
    }
    if let Some(effort) = effort {
        merge(&mut body, &object(json!({"reasoning": {"effort": effort}})));
    }
    // A model that does not reason refuses to be asked for it.
    let reasons = thinks || body.get("reasoning").is_some_and(Value::is_object);
    let mut include = settings.include.clone();
    if reasons && !include.iter().any(|name| name == ENCRYPTED) {
        include.push(ENCRYPTED.to_owned());
    }
    if !include.is_empty() {
        body.insert("include".into(), json!(include));
    }
    if let Some(truncation) = &settings.truncation {
        body.insert("truncation".into(), json!(truncation));
    }
    if !body.contains_key("tools") {
        body.remove("parallel_tool_calls");
    }
    body.entry("store").or_insert(json!(false));
    body.insert("stream".into(), json!(settings.streaming));
    Value::Object(body)
}

/// Settings written for chat completions, as they are called here.
fn translate(settings: &JsonMap) -> JsonMap {
    let mut own = JsonMap::new();
    for (key, value) in settings {
        match key.as_str() {
            "max_tokens" | "max_completion_tokens" => drop(own.insert("max_output_tokens".into(), value.clone())),
            "verbosity" => merge(&mut own, &object(json!({"text": {"verbosity": value}}))),
            "response_format" => merge(&mut own, &object(json!({"text": {"format": flat_format(value)}}))),
            // Decided with what the request asks.
            "reasoning_effort" => {}
            // `reasoning: true` asks an Ollama client for thinking.
            "reasoning" if !value.is_object() => {}
            key if WITHOUT_COUNTERPART.contains(&key) => {}
            _ => merge(&mut own, &JsonMap::from_iter([(key.clone(), value.clone())])),
        }
    }
    own
}

/// `{type, json_schema: {name, schema}}` is `{type, name, schema}` here.
fn flat_format(format: &Value) -> Value {
    let Value::Object(mut flat) = format.clone() else { return format.clone() };
    if let Some(Value::Object(schema)) = flat.remove("json_schema") {
        flat.extend(schema);
    }
    Value::Object(flat)
}

/// Tools and how to choose among them; nothing when there are none.
pub(crate) fn write_tools(request: &ChatRequest, body: &mut JsonMap) {
    if request.tools.is_empty() {
        return;
    }
    body.insert("tools".into(), request.tools.iter().map(|tool| write_tool(tool)).collect());
    match request.tool_choice {
        ToolChoice::None => drop(body.insert("tool_choice".into(), json!("none"))),
        ToolChoice::Required => drop(body.insert("tool_choice".into(), json!("required"))),
        ToolChoice::Auto => {}
    }
}

fn write_tool(tool: &ToolSpec) -> Value {
    let mut parameters = if tool.parameters.is_object() { tool.parameters.clone() } else { json!({}) };
    if let Value::Object(schema) = &mut parameters {
        schema.entry("type").or_insert_with(|| json!("object"));
        schema.entry("properties").or_insert_with(|| json!({}));
    }
    // Strict is the default here and refuses optional parameters.
    json!({
        "type": "function", "name": tool.name, "description": tool.description, "parameters": parameters, "strict": false
    })
}

/// The legal conversation, its system prompt apart.
pub(crate) fn conversation(rules: &Rules, request: &ChatRequest, origin: Option<&str>) -> Conversation {
    let legal = legalise_request(rules, request);
    let (system, messages) = match legal.split_first() {
        Some((first, rest)) if matches!(first.kind, MessageKind::System) => (Some(first.text().into_owned()), rest),
        _ => (None, legal.as_slice()),
    };
    Conversation { instructions: system, input: write_messages(messages, origin) }
}

fn write_messages(messages: &[Arc<Message>], origin: Option<&str>) -> Vec<Value> {
    let mut input = Vec::with_capacity(messages.len() * 2);
    for message in messages {
        match &message.kind {
            MessageKind::Ai(_) => input.extend(parts(message, origin).into_iter().map(write_part)),
            MessageKind::Tool(part) => input.push(json!({
                "type": "function_call_output", "call_id": part.tool_call_id, "output": message.text()
            })),
            MessageKind::Human | MessageKind::System | MessageKind::Remove => {
                input.push(json!({"type": "message", "role": "user", "content": write_content(&message.content)}));
            }
        }
    }
    input
}

fn write_part(part: Part<'_>) -> Value {
    match part {
        Part::Reasoning(item) => item,
        Part::Text { text, phase } => {
            let mut item = json!({
                "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]
            });
            if let Some(phase) = phase {
                item["phase"] = json!(phase);
            }
            item
        }
        Part::Call(call) => json!({
            "type": "function_call", "call_id": call.id(), "name": call.name,
            "arguments": serde_json::to_string(&call.args).unwrap_or_else(|_| "{}".to_owned())
        }),
    }
}

fn write_content(content: &Content) -> Vec<Value> {
    content.to_blocks().iter().map(write_block).collect()
}

fn write_block(block: &ContentBlock) -> Value {
    if is_image(block) {
        return json!({"type": "input_image", "image_url": image_url(block).unwrap_or_default(), "detail": "auto"});
    }
    match (block, block.text()) {
        (_, Some(text)) => json!({"type": "input_text", "text": text}),
        (ContentBlock::Raw(value), None) => match value.get("file") {
            // Chat completions wrap the file once more.
            Some(Value::Object(file)) => {
                let mut flat = object(json!({"type": "input_file"}));
                flat.extend(file.clone());
                Value::Object(flat)
            }
            _ => value.clone(),
        },
        (_, None) => json!({"type": "input_text", "text": "(empty)"}),
    }
}

#[cfg(test)]
mod tests;
