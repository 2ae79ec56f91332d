//! A profile's settings, as they are called here.

use super::thinking;
use crate::settings::{merge, object};
use deerflow_core::JsonMap;
use serde_json::{Value, json};

/// Settings of `generationConfig`: the name that profiles use, and the wire's.
const GENERATION: &[(&str, &str)] = &[
    ("temperature", "temperature"),
    ("top_p", "topP"),
    ("top_k", "topK"),
    ("seed", "seed"),
    ("stop", "stopSequences"),
    ("stop_sequences", "stopSequences"),
    ("max_tokens", "maxOutputTokens"),
    ("max_completion_tokens", "maxOutputTokens"),
    ("max_output_tokens", "maxOutputTokens"),
    ("presence_penalty", "presencePenalty"),
    ("frequency_penalty", "frequencyPenalty"),
    ("logprobs", "responseLogprobs"),
    ("top_logprobs", "logprobs"),
    ("response_mime_type", "responseMimeType"),
    ("response_schema", "responseSchema"),
    ("response_json_schema", "responseJsonSchema"),
    ("response_modalities", "responseModalities"),
    ("media_resolution", "mediaResolution"),
    ("speech_config", "speechConfig"),
];
/// Settings of `thinkingConfig`.
const THINKING: &[(&str, &str)] = &[
    ("thinking_budget", "thinkingBudget"),
    ("thinking_level", "thinkingLevel"),
    ("include_thoughts", "includeThoughts"),
];
/// Settings that stand beside the contents.
const REQUEST: &[(&str, &str)] = &[
    ("cached_content", "cachedContent"),
    ("generation_config", "generationConfig"),
    ("labels", "labels"),
    ("service_tier", "serviceTier"),
    ("tool_config", "toolConfig"),
];
/// Settings of a Python client, about itself, and of chat completions without a counterpart.
const NOT_SENT: &[&str] = &[
    "additional_headers",
    "client_options",
    "convert_system_message_to_human",
    "credentials",
    "location",
    "logit_bias",
    "metadata",
    "parallel_tool_calls",
    "project",
    "reasoning",
    "reasoning_effort",
    "repetition_penalty",
    "store",
    "transport",
    "use_responses_api",
    "user",
    "vertexai",
];

/// The keys of the body that `settings` make. A key that nobody knows stays as it is.
pub(super) fn translate(model: &str, settings: &JsonMap) -> JsonMap {
    let mut body = JsonMap::new();
    let found = |table: &[(&str, &'static str)], key: &str| {
        table.iter().find(|(own, wire)| *own == key || *wire == key).map(|(_, wire)| *wire)
    };
    for (key, value) in settings {
        if NOT_SENT.contains(&key.as_str()) || value.is_null() {
            continue;
        }
        let more = if key == "safety_settings" || key == "safetySettings" {
            json!({ "safetySettings": safety(value) })
        } else if key == "thinking" {
            json!({"generationConfig": {"thinkingConfig": of_thinking(value)}})
        } else if key == "response_format" {
            json!({ "generationConfig": format(value) })
        } else if key == "stop" && value.is_string() {
            json!({"generationConfig": {"stopSequences": [value]}})
        } else if let Some(wire) = found(GENERATION, key) {
            json!({"generationConfig": {wire: value}})
        } else if let Some(wire) = found(THINKING, key) {
            json!({"generationConfig": {"thinkingConfig": {wire: value}}})
        } else if key == "thinking_config" || key == "thinkingConfig" {
            json!({"generationConfig": {"thinkingConfig": of_config(value)}})
        } else {
            let wire = found(REQUEST, key).unwrap_or(key);
            json!({wire: value})
        };
        merge(&mut body, &object(more));
    }
    if let Some(Value::Object(config)) = body.get_mut("generationConfig").and_then(|all| all.get_mut("thinkingConfig"))
    {
        thinking::fit(model, config);
    }
    body
}

/// `{type, budget_tokens}`, as profiles written for another provider say it.
fn of_thinking(value: &Value) -> Value {
    let budget = value.get("budget_tokens").cloned();
    match value.get("type").and_then(Value::as_str) {
        Some("disabled") => json!({"thinkingBudget": 0}),
        Some(_) => match budget {
            Some(budget) => json!({"includeThoughts": true, "thinkingBudget": budget}),
            None => json!({"includeThoughts": true}),
        },
        None => of_config(value),
    }
}

fn of_config(value: &Value) -> Value {
    let Value::Object(config) = value else { return json!({}) };
    config
        .iter()
        .map(|(key, value)| {
            let wire = THINKING.iter().find(|(own, _)| own == key).map_or(key.as_str(), |(_, wire)| *wire);
            (wire.to_owned(), value.clone())
        })
        .collect::<JsonMap>()
        .into()
}

/// `{CATEGORY: THRESHOLD}` is how a Python client is told; the wire has a list.
fn safety(value: &Value) -> Value {
    let Value::Object(map) = value else { return value.clone() };
    map.iter().map(|(category, threshold)| json!({"category": category, "threshold": threshold})).collect()
}

/// The response format of chat completions.
fn format(value: &Value) -> Value {
    match (value.get("type").and_then(Value::as_str), value.pointer("/json_schema/schema")) {
        (_, Some(schema)) => json!({"responseMimeType": "application/json", "responseJsonSchema": schema}),
        (Some("json_object"), _) => json!({"responseMimeType": "application/json"}),
        _ => json!({}),
    }
}
