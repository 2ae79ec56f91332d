use super::*;
use deerflow_core::{Content, ContentBlock, ToolCall, ToolSpec};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn body(profile: Value, request: &ChatRequest) -> Value {
    let mut base =
        object(json!({"name": "m", "use": "anthropic", "model": "claude-sonnet-4-5", "supports_vision": true}));
    merge(&mut base, &object(profile));
    let settings = Settings::new(&serde_json::from_value(Value::Object(base)).unwrap(), "anthropic");
    build(&settings, &Rules::anthropic(), request)
}

fn request(messages: Vec<Message>) -> ChatRequest {
    ChatRequest { messages: messages.into_iter().map(Arc::new).collect(), ..ChatRequest::default() }
}

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "bash", object(json!({"command": "ls"})))
}

fn tool() -> Arc<ToolSpec> {
    Arc::new(ToolSpec { name: "bash".into(), description: "runs".into(), parameters: json!({"type": "object"}) })
}

fn breakpoints(value: &Value) -> usize {
    value.to_string().matches("cache_control").count()
}

#[test]
fn a_whole_body() {
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let redacted = json!({"type": "redacted_thinking", "data": "d"});
    let content = Content::Blocks(vec![
        ContentBlock::Raw(thinking.clone()),
        ContentBlock::Raw(redacted.clone()),
        ContentBlock::Text("look".into()),
    ]);
    let mut asked = request(vec![
        Message::human(Content::Blocks(vec![
            ContentBlock::Text("see".into()),
            ContentBlock::ImageUrl("data:image/png;base64,AA".into()),
            ContentBlock::ImageUrl("https://x.example/a.png".into()),
        ])),
        Message::ai_calls(content, vec![call("a"), call("b")]),
        Message::tool("files", "a", "bash"),
        Message::tool_error("no", "b", "bash"),
        Message::human("more"),
    ]);
    asked.system = Some("be good".into());
    asked.tools = vec![tool()];
    let cache = json!({"type": "ephemeral"});
    assert_eq!(
        body(json!({}), &asked),
        json!({
            "model": "claude-sonnet-4-5",
            "max_tokens": 8192,
            "system": [{"type": "text", "text": "be good", "cache_control": cache}],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
                    {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}}
                ]},
                {"role": "assistant", "content": [
                    thinking, redacted, {"type": "text", "text": "look"},
                    {"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "ls"}},
                    {"type": "tool_use", "id": "b", "name": "bash", "input": {"command": "ls"}, "cache_control": cache}
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "files"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": true},
                    {"type": "text", "text": "more", "cache_control": cache}
                ]}
            ],
            "tools": [{"name": "bash", "description": "runs", "input_schema": {"type": "object"}, "cache_control": cache}],
            "stream": true
        })
    );
}

#[test]
fn there_are_never_more_than_four_cache_breakpoints() {
    let many = (0..6)
        .flat_map(|n| [Message::human(format!("q{n}")), Message::ai(format!("a{n}"))])
        .chain([Message::human("last")]);
    let mut asked = request(many.collect());
    assert_eq!(breakpoints(&body(json!({}), &asked)), 3);
    asked.system = Some("s".into());
    assert_eq!(breakpoints(&body(json!({}), &asked)), 4);
    asked.tools = vec![tool()];
    assert_eq!(breakpoints(&body(json!({}), &asked)), 4);
    assert_eq!(breakpoints(&body(json!({"enable_prompt_caching": false}), &asked)), 0);
}

#[test]
fn thinking_has_the_form_that_the_version_takes() {
    let think = ChatRequest { thinking: true, ..request(vec![Message::human("q")]) };
    let thinking = |extra: Value| {
        let mut profile = object(json!({"supports_thinking": true, "temperature": 0.5}));
        merge(&mut profile, &object(extra));
        let body = body(Value::Object(profile), &think);
        json!([body.get("thinking"), body.get("temperature")])
    };
    assert_eq!(thinking(json!({})), json!([{"type": "enabled", "budget_tokens": 6552}, null]));
    assert_eq!(thinking(json!({"model": "claude-opus-4-6"})), json!([{"type": "adaptive"}, 0.5]));
    assert_eq!(
        thinking(json!({"model": "claude-sonnet-5"})),
        json!([{"type": "adaptive", "display": "summarized"}, null])
    );
    let own = json!({"max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 9000}});
    assert_eq!(thinking(own.clone()), json!([{"type": "enabled", "budget_tokens": 3999}, null]));
    let mut newer = own;
    newer["model"] = json!("claude-opus-4-8");
    newer["thinking"]["display"] = json!("omitted");
    assert_eq!(thinking(newer), json!([{"type": "adaptive", "display": "omitted"}, null]));
    assert_eq!(thinking(json!({"max_tokens": 500})), json!([null, 0.5]));
    assert_eq!(thinking(json!({"supports_thinking": false})), json!([null, 0.5]));
}

#[test]
fn turning_thinking_off_is_said_as_the_version_takes_it() {
    let off = |model: &str, effort: Option<&str>| {
        let profile = json!({"model": model, "supports_thinking": true, "supports_reasoning_effort": true,
            "when_thinking_disabled": {"thinking": {"type": "disabled"}}});
        let asked = ChatRequest { reasoning_effort: effort.map(str::to_owned), ..request(vec![Message::human("q")]) };
        let body = body(profile, &asked);
        json!([body.get("thinking"), body.get("output_config")])
    };
    assert_eq!(off("claude-sonnet-4-5", Some("high")), json!([{"type": "disabled"}, null]));
    assert_eq!(off("claude-opus-4-8", None), json!([null, null]));
    assert_eq!(off("claude-opus-5", Some("max")), json!([{"type": "disabled"}, {"effort": "high"}]));
    assert_eq!(off("claude-opus-5-5", None), json!([null, {"effort": "low"}]));
    assert_eq!(off("claude-opus-5-5", Some("medium")), json!([null, {"effort": "medium"}]));
    assert_eq!(off("claude-sonnet-5-5", None), json!([{"type": "between_tools"}, null]));
}

#[test]
fn a_model_that_refuses_to_be_forced_is_left_to_decide() {
    let choice = |model: &str| {
        let mut asked = request(vec![Message::human("q")]);
        (asked.tools, asked.tool_choice) = (vec![tool()], ToolChoice::Required);
        body(json!({"model": model}), &asked).get("tool_choice").cloned()
    };
    assert_eq!(choice("claude-opus-5"), Some(json!({"type": "any"})));
    assert_eq!(choice("claude-opus-5-5"), None);
}

#[test]
fn thinking_between_calls_goes_back_where_it_stood_and_only_while_the_turn_is_what_it_was() {
    let thought = |n: u32| json!({"type": "thinking", "thinking": "t", "signature": format!("s{n}")});
    let content = Content::Blocks(vec![ContentBlock::Raw(thought(1)), ContentBlock::Raw(thought(2))]);
    let turn = Message::ai_calls(content, vec![call("a"), call("b")])
        .with_kwarg(super::super::blocks::ORDER, json!([null, "a", null, "b"]));
    let kinds = |turn: &Message| -> Vec<String> {
        write_blocks(turn).iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&turn), ["thinking", "tool_use", "thinking", "tool_use"]);
    let mut changed = turn.clone();
    changed.as_ai_mut().unwrap().tool_calls.remove(0);
    assert_eq!(kinds(&changed), ["thinking", "thinking", "tool_use"]);
}

#[test]
fn effort_goes_to_models_that_know_it() {
    let asked = ChatRequest { reasoning_effort: Some("minimal".into()), ..request(vec![Message::human("q")]) };
    let effort = |model: &str| {
        body(json!({"model": model, "supports_reasoning_effort": true}), &asked).get("output_config").cloned()
    };
    assert_eq!(effort("claude-sonnet-5"), Some(json!({"effort": "low"})));
    assert_eq!(effort("claude-sonnet-4-5"), None);
}

#[test]
fn a_tool_loop_begun_by_another_model_goes_on_without_thinking() {
    let messages = vec![Message::human("q"), Message::ai_calls("", vec![call("a")]), Message::tool("r", "a", "bash")];
    let mut asked = ChatRequest { thinking: true, ..request(messages) };
    asked.tools = vec![tool()];
    assert_eq!(body(json!({"supports_thinking": true}), &asked).get("thinking"), None);
    asked.messages.push(Arc::new(Message::human("next")));
    assert!(body(json!({"supports_thinking": true}), &asked).get("thinking").is_some());
}

#[test]
fn a_history_with_calls_defines_its_tools_even_when_none_are_offered() {
    let asked = request(vec![
        Message::human("q"),
        Message::ai_calls("", vec![call("a")]),
        Message::tool("r", "a", "bash"),
        Message::human("summarise"),
    ]);
    let body = body(json!({"enable_prompt_caching": false}), &asked);
    assert_eq!(body["tools"], json!([{"name": "bash", "input_schema": {"type": "object"}}]));
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
}

/// What the interface refuses, written from its reference.
fn check(body: &Value) -> Result<(), String> {
    let texts = |value: &Value| value.as_str().map(str::to_owned).unwrap_or_default();
    let mut waiting: Vec<String> = Vec::new();
    let mut last = String::new();
    for (at, message) in body["messages"].as_array().unwrap().iter().enumerate() {
        let role = texts(&message["role"]);
        if role == last || (at == 0 && role != "user") {
            return Err(format!("message {at} is again of {role}"));
        }
        let blocks = message["content"].as_array().unwrap();
        let results: Vec<String> = blocks.iter().map(|block| texts(&block["tool_use_id"])).collect();
        if !results.starts_with(&waiting) || results[waiting.len()..].iter().any(|id| !id.is_empty()) {
            return Err(format!("message {at} answers {results:?} to {waiting:?}"));
        }
        if blocks.iter().any(|block| block["type"] == "text" && texts(&block["text"]).trim().is_empty()) {
            return Err(format!("message {at} has an empty text"));
        }
        if blocks.is_empty()
            || blocks.iter().any(|b| texts(&b["type"]).ends_with("thinking") && b.get("cache_control").is_some())
        {
            return Err(format!("message {at} is empty, or marks thinking"));
        }
        let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
        waiting = calls.map(|block| texts(&block["id"])).collect();
        last = role;
    }
    if last != "user" || breakpoints(body) > 4 {
        return Err(format!("ends with {last}, {} breakpoints", breakpoints(body)));
    }
    Ok(())
}

proptest! {
    #[test]
    fn whatever_the_history_the_body_is_one_that_the_interface_takes(
        history in prop::collection::vec(crate::legalise::tests::message(), 0..12),
        slots in prop::collection::vec(prop::sample::select(vec![json!(null), json!("a"), json!("call_0"), json!(3)]), 0..4),
        thinking in any::<bool>(),
    ) {
        let history = history.into_iter().map(|message| {
            if message.as_ai().is_some() { message.with_kwarg(super::super::blocks::ORDER, slots.clone()) } else { message }
        });
        let asked = ChatRequest { thinking, system: Some("s".into()), tools: vec![tool()], ..request(history.collect()) };
        let body = body(json!({"supports_thinking": true}), &asked);
        prop_assert_eq!(check(&body), Ok(()), "{}", body);
    }
}
