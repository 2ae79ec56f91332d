//! The body of a `generateContent` request.

use super::parts::model_parts;
use super::{options, schema, thinking, version};
use crate::legalise::{Rules, image_url, is_image, legalise_request};
use crate::settings::{Settings, merge, object};
use deerflow_core::{ChatRequest, Content, ContentBlock, JsonMap, Message, MessageKind, ToolChoice, ToolStatus};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// Image formats that are taken inline.
const MEDIA: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];

/// Builds the body. Keys come in a fixed order, so that equal prefixes stay equal bytes. Signatures go back if they came
/// from `origin`.
pub(super) fn build(settings: &Settings, rules: &Rules, request: &ChatRequest, origin: Option<&str>) -> Value {
    let model = &settings.info.model;
    let legal = legalise_request(rules, request);
    let (system, messages) = match legal.split_first() {
        Some((first, rest)) if matches!(first.kind, MessageKind::System) => (Some(first), rest),
        _ => (None, legal.as_slice()),
    };
    let mut body = JsonMap::new();
    if let Some(system) = system {
        body.insert("systemInstruction".into(), json!({"parts": [{"text": system.text()}]}));
    }
    body.insert("contents".into(), Value::Array(write_contents(model, messages, origin)));
    let mut own = own_settings(settings, request);
    write_tools(request, &mut own, &mut body);
    merge(&mut body, &own);
    Value::Object(body)
}

/// What the profile and the request want besides the conversation.
fn own_settings(settings: &Settings, request: &ChatRequest) -> JsonMap {
    let model = &settings.info.model;
    let on = request.thinking;
    let switch = settings.switch(on);
    let mut own = settings.body.clone();
    settings.put_switch(&mut own, &switch, on);
    let mut own = options::translate(model, &own);
    let mut generation = object(own.remove("generationConfig").unwrap_or_default());
    let max = request.max_tokens.or_else(|| generation.get("maxOutputTokens")?.as_u64()).or(settings.max_tokens);
    if let Some(max) = max {
        generation.insert("maxOutputTokens".into(), json!(max));
    }
    if settings.info.supports_thinking {
        let effort = settings.effort_for(request.reasoning_effort.as_deref(), &switch);
        let mut config = object(generation.remove("thinkingConfig").unwrap_or_default());
        if !config.contains_key("thinkingBudget") && !config.contains_key("thinkingLevel") {
            let silent = settings.thinking_on.is_empty() && settings.thinking_off.is_empty();
            if on || silent {
                merge(&mut config, &thinking::config(model, on, effort.as_deref()));
            }
        }
        if on && version::thinking(model) != version::Thinking::Never {
            config.entry("includeThoughts").or_insert(json!(true));
        }
        if !config.is_empty() {
            generation.insert("thinkingConfig".into(), Value::Object(config));
        }
    }
    if !generation.is_empty() {
        own.insert("generationConfig".into(), Value::Object(generation));
    }
    own
}

fn write_tools(request: &ChatRequest, own: &mut JsonMap, body: &mut JsonMap) {
    // The provider's own tools, which a profile may ask for.
    let mut tools = match own.remove("tools") {
        Some(Value::Array(tools)) => tools,
        _ => Vec::new(),
    };
    if !request.tools.is_empty() {
        let declarations: Vec<Value> = request
            .tools
            .iter()
            .map(|tool| {
                let mut declared = object(json!({"name": wire_name(&tool.name), "description": tool.description}));
                if let Some(parameters) = schema::parameters(&tool.parameters) {
                    declared.insert("parameters".into(), parameters);
                }
                Value::Object(declared)
            })
            .collect();
        tools.push(json!({ "functionDeclarations": declarations }));
        let mode = match request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::None => Some("NONE"),
            ToolChoice::Required => Some("ANY"),
        };
        if let Some(mode) = mode {
            merge(own, &object(json!({"toolConfig": {"functionCallingConfig": {"mode": mode}}})));
        }
    }
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
    }
}

/// A name that may stand in a declaration: it begins with a letter or an underscore.
pub(super) fn wire_name(name: &str) -> String {
    if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') { name.to_owned() } else { format!("_{name}") }
}

/// The tool that `name` means, which may be one that had to be declared with an underscore in front.
pub(super) fn own_name<'n>(name: &'n str, offered: &[String]) -> &'n str {
    match name.strip_prefix('_') {
        Some(rest) if !offered.iter().any(|tool| tool == name) && offered.iter().any(|tool| tool == rest) => rest,
        _ => name,
    }
}

fn write_contents(model: &str, messages: &[Arc<Message>], origin: Option<&str>) -> Vec<Value> {
    let wants_signature = version::wants_signatures(model);
    let mut contents: Vec<Value> = Vec::with_capacity(messages.len());
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut results: Vec<Value> = Vec::new();
    for message in messages {
        if let MessageKind::Tool(part) = &message.kind {
            let name = names.get(part.tool_call_id.as_str()).copied().or(message.name.as_deref()).unwrap_or_default();
            results.push(write_result(message, &part.tool_call_id, name, part.status));
            continue;
        }
        flush(&mut results, &mut contents);
        if message.as_ai().is_some() {
            names.extend(message.tool_calls().iter().map(|call| (call.id(), call.name.as_str())));
            let parts = model_parts(message, origin, wants_signature, wire_name);
            contents.push(json!({"role": "model", "parts": parts}));
        } else {
            contents.push(json!({"role": "user", "parts": write_parts(&message.content)}));
        }
    }
    flush(&mut results, &mut contents);
    contents
}

/// The results of one turn's calls stand together, and nothing else with them.
fn flush(results: &mut Vec<Value>, contents: &mut Vec<Value>) {
    if !results.is_empty() {
        contents.push(json!({"role": "user", "parts": std::mem::take(results)}));
    }
}

fn write_result(message: &Message, id: &str, name: &str, status: ToolStatus) -> Value {
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for block in message.content.to_blocks().iter() {
        if is_image(block) {
            match image(&image_url(block).unwrap_or_default()) {
                Image::Inline(part) => images.push(part),
                // Only bytes may stand in a result.
                Image::Linked(url, _) => texts.push(format!("[image at {url}]")),
                Image::Unfit => texts.push(UNFIT.to_owned()),
            }
        } else if let Some(text) = block.text() {
            texts.push(text.to_owned());
        }
    }
    let key = if status == ToolStatus::Error { "error" } else { "output" };
    let mut response = json!({"id": id, "name": wire_name(name), "response": {key: texts.join("\n\n")}});
    if !images.is_empty() {
        response["parts"] = Value::Array(images);
    }
    json!({ "functionResponse": response })
}

fn write_parts(content: &Content) -> Vec<Value> {
    content.to_blocks().iter().map(write_part).collect()
}

fn write_part(block: &ContentBlock) -> Value {
    if is_image(block) {
        return match image(&image_url(block).unwrap_or_default()) {
            Image::Inline(part) => part,
            Image::Linked(url, Some(media)) => json!({"fileData": {"mimeType": media, "fileUri": url}}),
            Image::Linked(url, None) => json!({"fileData": {"fileUri": url}}),
            Image::Unfit => json!({"text": UNFIT}),
        };
    }
    json!({"text": block.text().unwrap_or("(empty)")})
}

const UNFIT: &str = "[image left out: this model does not take its format]";

enum Image {
    /// A part with the bytes.
    Inline(Value),
    /// An address, and the format that its ending names.
    Linked(String, Option<&'static str>),
    Unfit,
}

fn image(url: &str) -> Image {
    let Some(data) = url.strip_prefix("data:") else {
        let path = url.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
        let media = MEDIA.iter().find(|media| {
            let ending = media.trim_start_matches("image/");
            path.ends_with(&format!(".{ending}")) || (ending == "jpeg" && path.ends_with(".jpg"))
        });
        return Image::Linked(url.to_owned(), media.copied());
    };
    match data.split_once(";base64,") {
        Some(("image/jpg", data)) => Image::Inline(json!({"inlineData": {"mimeType": "image/jpeg", "data": data}})),
        Some((media, data)) if MEDIA.contains(&media) => {
            Image::Inline(json!({"inlineData": {"mimeType": media, "data": data}}))
        }
        _ => Image::Unfit,
    }
}

/// Whether anything in `body` is signed by the provider.
pub(super) fn has_signatures(body: &Value) -> bool {
    let contents = body.get("contents").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    contents.iter().filter_map(|content| content.get("parts")?.as_array()).flatten().any(|part| {
        part.get("thoughtSignature").and_then(Value::as_str).is_some_and(|s| !s.starts_with("skip_thought"))
    })
}

#[cfg(test)]
mod tests;
