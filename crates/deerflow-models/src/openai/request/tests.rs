use super::*;
use crate::quirks::named;
use deerflow_core::ToolCall;
use pretty_assertions::assert_eq;
use std::sync::Arc;

fn body(quirks: &str, profile: Value, request: &ChatRequest) -> Value {
    let mut base = object(json!({"name": "m", "use": quirks, "model": "x", "supports_vision": true}));
    merge(&mut base, &object(profile));
    let settings = Settings::new(&serde_json::from_value(Value::Object(base)).unwrap(), quirks);
    let quirks = named(quirks).unwrap();
    build(&settings, quirks, &quirks.rules, request)
}

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "bash", object(json!({"command": "ls"})))
}

fn history() -> ChatRequest {
    let thought = |message: Message| message.with_kwarg(kwargs::REASONING_CONTENT, "plan");
    let mut stored = thought(Message::ai_calls("", vec![call("123456789")]));
    stored.response_metadata.insert(REASONING_FIELD.into(), json!("reasoning"));
    let messages = vec![
        Message::human("hi").with_name("summary"),
        stored,
        Message::tool("files", "123456789", "bash"),
        thought(Message::ai("done")),
        Message::human("more"),
    ];
    ChatRequest {
        system: Some("be good".into()),
        messages: messages.into_iter().map(Arc::new).collect(),
        ..ChatRequest::default()
    }
}

#[test]
fn a_whole_openai_body() {
    let tool = ToolSpec { name: "bash".into(), description: "runs".into(), parameters: json!({}) };
    let request = ChatRequest { tools: vec![Arc::new(tool)], max_tokens: Some(9), ..history() };
    assert_eq!(
        body("openai", json!({"max_tokens": 100, "temperature": 0.5, "top_p": 0.9}), &request),
        json!({
            "model": "x",
            "messages": [
                {"role": "system", "content": "be good"},
                {"role": "user", "content": "hi", "name": "summary"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "123456789", "type": "function", "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}}
                ]},
                {"role": "tool", "tool_call_id": "123456789", "content": "files"},
                {"role": "assistant", "content": "done"},
                {"role": "user", "content": "more"}
            ],
            "tools": [{"type": "function", "function": {
                "name": "bash", "description": "runs", "parameters": {"type": "object", "properties": {}}
            }}],
            "top_p": 0.9,
            "temperature": 0.5,
            "max_completion_tokens": 9,
            "stream": true,
            "stream_options": {"include_usage": true}
        })
    );
}

/// BR-011
#[test]
fn thinking_goes_back_in_the_field_and_to_the_turns_that_the_provider_wants() {
    let replayed = |quirks: &str| {
        let body = body(quirks, json!({"supports_thinking": true}), &ChatRequest { thinking: true, ..history() });
        let assistants: Vec<Value> = body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|message| message["role"] == "assistant")
            .map(|message| {
                let fields = ["reasoning_content", "reasoning", "reasoning_details"];
                let found = fields.iter().find(|field| message.get(**field).is_some());
                found.map_or(json!(null), |field| json!([field, message[*field]]))
            })
            .collect();
        json!(assistants)
    };
    for quirks in ["deepseek", "moonshot", "mimo", "stepfun"] {
        assert_eq!(replayed(quirks), json!([["reasoning_content", "plan"], ["reasoning_content", "plan"]]), "{quirks}");
    }
    assert_eq!(replayed("qwen"), json!([["reasoning_content", "plan"], null]));
    assert_eq!(replayed("vllm"), json!([["reasoning", "plan"], ["reasoning", "plan"]]));
    assert_eq!(replayed("generic"), json!([["reasoning", "plan"], null]));
    assert_eq!(replayed("openrouter"), json!([["reasoning", "plan"], ["reasoning", "plan"]]));
    let details = json!(["reasoning_details", [{"type": "reasoning.text", "text": "plan"}]]);
    assert_eq!(replayed("minimax"), json!([details, details]));
    for quirks in ["openai", "gemini"] {
        assert_eq!(replayed(quirks), json!([null, null]), "{quirks}");
    }
}

/// BR-011
#[test]
fn an_assistant_turn_without_thinking_gets_an_empty_field_where_every_turn_must_have_one() {
    let request = ChatRequest {
        messages: vec![Arc::new(Message::human("a")), Arc::new(Message::ai("b")), Arc::new(Message::human("c"))],
        thinking: true,
        ..ChatRequest::default()
    };
    let thinking = body("deepseek", json!({"supports_thinking": true}), &request);
    assert_eq!(thinking["messages"][1], json!({"role": "assistant", "content": "b", "reasoning_content": ""}));
    let plain = body("deepseek", json!({}), &request);
    assert_eq!(plain["messages"][1], json!({"role": "assistant", "content": "b"}));
}

#[test]
fn thinking_is_switched_by_the_profile_else_by_the_quirks() {
    let on = ChatRequest { thinking: true, ..ChatRequest::default() };
    let off = ChatRequest::default();
    let supports = json!({"supports_thinking": true});
    assert_eq!(body("deepseek", supports.clone(), &on)["thinking"], json!({"type": "enabled"}));
    assert_eq!(body("deepseek", supports.clone(), &off)["thinking"], json!({"type": "disabled"}));
    assert_eq!(body("qwen", supports.clone(), &on)["enable_thinking"], true);
    assert_eq!(body("vllm", supports.clone(), &off)["chat_template_kwargs"], json!({"enable_thinking": false}));
    assert_eq!(body("openrouter", supports, &on)["reasoning"], json!({"enabled": true}));
    assert_eq!(body("deepseek", json!({}), &on).get("thinking"), None);
    let own =
        json!({"supports_thinking": true, "when_thinking_enabled": {"extra_body": {"thinking": {"type": "enabled"}}}});
    assert_eq!(body("vllm", own.clone(), &on)["thinking"], json!({"type": "enabled"}));
    assert_eq!(body("vllm", own.clone(), &on).get("chat_template_kwargs"), None);
    assert_eq!(body("vllm", own.clone(), &off)["thinking"], json!({"type": "disabled"}));
    assert_eq!(body("vllm", own, &off).get("reasoning_effort"), None);
}

#[test]
fn effort_is_sent_to_models_that_take_it_only() {
    let request = ChatRequest { reasoning_effort: Some("high".into()), ..ChatRequest::default() };
    assert_eq!(body("openai", json!({"supports_reasoning_effort": true}), &request)["reasoning_effort"], "high");
    assert_eq!(body("openai", json!({"reasoning_effort": "low"}), &request).get("reasoning_effort"), None);
    let own = json!({"supports_reasoning_effort": true, "reasoning_effort": "low"});
    assert_eq!(body("openai", own, &ChatRequest::default())["reasoning_effort"], "low");
}

#[test]
fn images_names_and_text_parts_by_quirks() {
    let content = Content::Blocks(vec![
        ContentBlock::Text("a".into()),
        ContentBlock::Text("b".into()),
        ContentBlock::ImageUrl("data:image/png;base64,AA".into()),
    ]);
    let texts = Content::Blocks(vec![ContentBlock::Text("a".into()), ContentBlock::Text("b".into())]);
    let request = |content: &Content| ChatRequest {
        messages: vec![Arc::new(Message::human(content.clone()).with_name("ann"))],
        ..ChatRequest::default()
    };
    assert_eq!(
        body("minimax", json!({}), &request(&content))["messages"][0],
        json!({"role": "user", "content": [
            {"type": "text", "text": "a"}, {"type": "text", "text": "b"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
        ]})
    );
    assert_eq!(
        body("minimax", json!({}), &request(&texts))["messages"][0],
        json!({"role": "user", "content": "a\n\nb"})
    );
    assert_eq!(body("minimax", json!({}), &request(&texts))["reasoning_split"], true);
    assert_eq!(body("openai", json!({}), &request(&texts))["messages"][0]["name"], "ann");
}

/// BR-012
#[test]
fn opaque_extras_of_a_call_go_back_with_it() {
    let extra = json!([{"id": "b", "extra_content": {"google": {"thought_signature": "S"}}}]);
    let ai = Message::ai_calls("", vec![call("a"), call("b")]).with_kwarg(CALL_EXTRAS, extra);
    let messages = vec![Message::human("go"), ai, Message::tool("1", "a", "bash"), Message::tool("2", "b", "bash")];
    let request = ChatRequest { messages: messages.into_iter().map(Arc::new).collect(), ..ChatRequest::default() };
    let calls = &body("gemini", json!({}), &request)["messages"][1]["tool_calls"];
    assert_eq!(calls[1]["extra_content"]["google"]["thought_signature"], "S");
    assert_eq!(calls[0]["extra_content"]["google"]["thought_signature"], "skip_thought_signature_validator");
    assert_eq!(body("openai", json!({}), &request)["messages"][1]["tool_calls"][1].get("extra_content"), None);
}

#[test]
fn tool_choice_is_sent_only_where_it_is_understood() {
    let tool =
        Arc::new(ToolSpec { name: "t".into(), description: String::new(), parameters: json!({"type": "object"}) });
    let request =
        |choice| ChatRequest { tools: vec![Arc::clone(&tool)], tool_choice: choice, ..ChatRequest::default() };
    assert_eq!(body("openai", json!({}), &request(ToolChoice::Required))["tool_choice"], "required");
    assert_eq!(body("qwen", json!({}), &request(ToolChoice::Required)).get("tool_choice"), None);
    assert_eq!(body("qwen", json!({}), &request(ToolChoice::None))["tool_choice"], "none");
    let whole = body("mistral", json!({"stream": false}), &request(ToolChoice::Auto));
    assert_eq!((&whole["stream"], whole.get("stream_options")), (&json!(false), None));
    assert_eq!(body("openai", json!({"stream_usage": false}), &ChatRequest::default()).get("stream_options"), None);
}
