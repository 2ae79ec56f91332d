//! The body of a Codex request.

use crate::legalise::Rules;
use crate::responses::request::{ENCRYPTED, WITHOUT_COUNTERPART, conversation, write_tools};
use crate::settings::{Settings, merge, object};
use deerflow_core::{ChatRequest, JsonMap};
use serde_json::{Value, json};

/// The service refuses a request without instructions.
const INSTRUCTIONS: &str = "You are a helpful assistant.";
/// Efforts that it takes.
const EFFORTS: &[&str] = &["low", "medium", "high", "xhigh"];

pub(super) fn build(settings: &Settings, rules: &Rules, request: &ChatRequest, origin: Option<&str>) -> Value {
    let mut body = object(json!({"model": settings.info.model}));
    let conversation = conversation(rules, request, origin);
    body.insert("instructions".into(), json!(conversation.instructions.as_deref().unwrap_or(INSTRUCTIONS)));
    body.insert("input".into(), Value::Array(conversation.input));
    write_tools(request, &mut body);
    if body.contains_key("tools") {
        body.entry("tool_choice").or_insert(json!("auto"));
        body.insert("parallel_tool_calls".into(), json!(true));
    }
    let switch = settings.switch(request.thinking);
    let mut own = settings.body.clone();
    settings.put_switch(&mut own, &switch, request.thinking);
    own.retain(|key, _| {
        !WITHOUT_COUNTERPART.contains(&key.as_str()) && !["reasoning_effort", "reasoning"].contains(&key.as_str())
    });
    merge(&mut body, &own);
    let thinks = request.thinking && settings.info.supports_thinking;
    let effort = effort(settings, thinks, request.reasoning_effort.as_deref(), &switch);
    let mut include = settings.include.clone();
    if effort == "none" {
        body.insert("reasoning".into(), json!({"effort": effort}));
    } else {
        body.insert("reasoning".into(), json!({"effort": effort, "summary": "detailed"}));
        if !include.iter().any(|name| name == ENCRYPTED) {
            include.push(ENCRYPTED.to_owned());
        }
    }
    if !include.is_empty() {
        body.insert("include".into(), json!(include));
    }
    body.insert("store".into(), json!(false));
    body.insert("stream".into(), json!(true));
    Value::Object(body)
}

/// `none` without thinking; else what was asked, else what the profile says, each only if the service takes it and the
/// model is said to take efforts; else `medium`.
fn effort<'a>(settings: &'a Settings, thinks: bool, asked: Option<&'a str>, switch: &'a JsonMap) -> &'a str {
    if !thinks {
        return "none";
    }
    let set = switch.get("reasoning_effort").and_then(Value::as_str);
    let wishes = [asked, set, settings.effort.as_deref()].into_iter().flatten().filter(|_| settings.supports_effort);
    wishes.into_iter().find(|wish| EFFORTS.contains(wish)).unwrap_or("medium")
}

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_core::Message;
    use pretty_assertions::assert_eq;
    use std::sync::Arc;

    fn body(extra: Value, request: ChatRequest) -> Value {
        let mut profile = object(json!({"name": "m", "use": "codex", "model": "gpt-5.2-codex"}));
        merge(&mut profile, &object(extra));
        let settings = Settings::new(&serde_json::from_value(Value::Object(profile)).unwrap(), "codex");
        build(&settings, &Rules::responses().without_vision(), &request, None)
    }
    fn ask(thinking: bool, effort: Option<&str>) -> ChatRequest {
        let messages = vec![Arc::new(Message::human("hi"))];
        ChatRequest { messages, thinking, reasoning_effort: effort.map(str::to_owned), ..ChatRequest::default() }
    }

    #[test]
    fn the_smallest_request_has_instructions_and_neither_bound_nor_tools() {
        let request = ChatRequest { max_tokens: Some(100), ..ask(false, None) };
        assert_eq!(
            body(json!({"max_tokens": 500, "stream": false}), request),
            json!({
                "model": "gpt-5.2-codex", "instructions": "You are a helpful assistant.",
                "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
                "reasoning": {"effort": "none"}, "store": false, "stream": true
            })
        );
    }

    #[test]
    fn effort_is_what_was_asked_then_the_profile_then_medium_and_none_without_thinking() {
        let reasoning = |extra: Value, thinking, asked| body(extra, ask(thinking, asked))["reasoning"].clone();
        let able = json!({"supports_thinking": true, "supports_reasoning_effort": true, "reasoning_effort": "low"});
        assert_eq!(reasoning(able.clone(), true, Some("xhigh")), json!({"effort": "xhigh", "summary": "detailed"}));
        assert_eq!(reasoning(able.clone(), true, None)["effort"], "low");
        assert_eq!(reasoning(able.clone(), true, Some("minimal"))["effort"], "low");
        assert_eq!(reasoning(able, false, Some("high")), json!({"effort": "none"}));
        let plain =
            json!({"supports_thinking": true, "supports_reasoning_effort": true, "reasoning_effort": "minimal"});
        assert_eq!(reasoning(plain, true, None)["effort"], "medium");
        // Step 6 comes before step 9.
        let unable = json!({"supports_thinking": true, "reasoning_effort": "high"});
        assert_eq!(reasoning(unable, true, Some("low"))["effort"], "medium");
        assert_eq!(reasoning(json!({}), true, Some("low")), json!({"effort": "none"}));
    }
}
