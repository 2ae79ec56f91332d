use super::*;
use crate::legalise::legalise;
use deerflow_core::{InvalidToolCall, ToolCall};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use std::collections::HashSet;

const HERE: &str = "api.example/gpt-5";

fn settings(extra: Value) -> Settings {
    let mut base = object(json!({"name": "m", "use": "openai", "model": "gpt-5", "use_responses_api": true}));
    merge(&mut base, &object(extra));
    Settings::new(&serde_json::from_value(Value::Object(base)).unwrap(), "openai")
}
fn body(extra: Value, request: &ChatRequest) -> Value {
    build(&settings(extra), &Rules::responses(), request, Some(HERE))
}
fn ask(thinking: bool, effort: Option<&str>) -> ChatRequest {
    let messages = vec![Arc::new(Message::human("hi"))];
    ChatRequest { messages, thinking, reasoning_effort: effort.map(str::to_owned), ..ChatRequest::default() }
}

#[test]
fn nothing_is_stored_and_nothing_is_sent_that_a_plain_model_refuses() {
    assert_eq!(
        body(json!({"parallel_tool_calls": false}), &ask(true, Some("high"))),
        json!({
            "model": "gpt-5",
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
            "store": false, "stream": true
        })
    );
    assert_eq!(body(json!({"store": true}), &ask(false, None))["store"], true);
}

#[test]
fn settings_of_chat_completions_are_called_as_they_are_here() {
    let sent = body(
        json!({
            "max_tokens": 500, "verbosity": "low", "stop": ["x"], "seed": 1, "truncation": "auto",
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
            "previous_response_id": "resp_1", "include": ["web_search_call.action.sources"], "top_p": 0.5
        }),
        &ask(false, None),
    );
    let expected = json!({
        "max_output_tokens": 500, "truncation": "auto", "top_p": 0.5, "include": ["web_search_call.action.sources"],
        "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "n", "schema": {}}}
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&sent[key], value, "{key}");
    }
    for key in ["max_tokens", "verbosity", "stop", "seed", "response_format", "previous_response_id"] {
        assert_eq!(sent.get(key), None, "{key}");
    }
    let small = ChatRequest { max_tokens: Some(3), ..ask(false, None) };
    assert_eq!(body(json!({"max_tokens": 500}), &small)["max_output_tokens"], 16);
}

#[test]
fn effort_goes_into_reasoning_and_asks_for_what_the_next_turn_needs() {
    let able = json!({"supports_reasoning_effort": true, "supports_thinking": true, "reasoning": {"summary": "auto"}});
    let sent = body(able.clone(), &ask(true, Some("high")));
    assert_eq!(sent["reasoning"], json!({"summary": "auto", "effort": "high"}));
    assert_eq!(sent["include"], json!([ENCRYPTED]));
    assert_eq!(sent.get("reasoning_effort"), None);
    let mut own = object(able);
    own.insert("when_thinking_enabled".into(), json!({"reasoning": {"summary": "detailed"}, "max_tokens": 64_000}));
    own.insert("max_tokens".into(), json!(100));
    let own = Value::Object(own);
    let sent = body(own.clone(), &ask(true, None));
    assert_eq!((&sent["reasoning"], &sent["max_output_tokens"]), (&json!({"summary": "detailed"}), &json!(64_000)));
    assert_eq!(body(own, &ask(false, None))["max_output_tokens"], 100);
}

#[test]
fn tools_are_not_strict_and_have_an_object_for_a_schema() {
    let tool = |parameters: Value| Arc::new(ToolSpec { name: "bash".into(), description: "runs".into(), parameters });
    let mut request = ask(false, None);
    request.tools = vec![tool(json!(null)), tool(json!({"type": "object", "required": ["a"]}))];
    request.tool_choice = ToolChoice::Required;
    let sent = body(json!({"parallel_tool_calls": false}), &request);
    assert_eq!(
        sent["tools"],
        json!([
            {"type": "function", "name": "bash", "description": "runs", "strict": false,
             "parameters": {"type": "object", "properties": {}}},
            {"type": "function", "name": "bash", "description": "runs", "strict": false,
             "parameters": {"type": "object", "required": ["a"], "properties": {}}}
        ])
    );
    assert_eq!((&sent["tool_choice"], &sent["parallel_tool_calls"]), (&json!("required"), &json!(false)));
}

#[test]
fn images_and_files_of_a_user_and_images_of_a_tool_are_shown() {
    let image = || ContentBlock::ImageUrl("data:image/png;base64,AA".into());
    let file = json!({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,BB"}});
    let request = ChatRequest {
        messages: vec![
            Arc::new(Message::human(Content::Blocks(vec![
                ContentBlock::Text("look".into()),
                image(),
                ContentBlock::Raw(file),
            ]))),
            Arc::new(Message::ai_calls("", vec![ToolCall::new("call_1", "shot", JsonMap::new())])),
            Arc::new(Message::tool(Content::Blocks(vec![image()]), "call_1", "shot")),
        ],
        ..ChatRequest::default()
    };
    let picture = json!({"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "auto"});
    let sent = body(json!({"supports_vision": true}), &request);
    assert_eq!(
        sent["input"],
        json!([
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "look"}, picture,
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,BB"}
            ]},
            {"type": "function_call", "call_id": "call_1", "name": "shot", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "[1 image(s): see the next message]"},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "[images returned by shot]"}, picture
            ]}
        ])
    );
}

/// What the service refuses, told from its own rules: every call answered once and after it, reasoning followed by what it
/// led to, nothing empty.
fn check_input(input: &[Value]) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut seen = HashSet::new();
    for (at, item) in input.iter().enumerate() {
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        let fail = |why: &str| Err(format!("item {at}: {why}: {item}"));
        match text("type") {
            "function_call" => {
                if text("call_id").is_empty() || text("name").is_empty() || !seen.insert(text("call_id").to_owned()) {
                    return fail("a call without name or id of its own");
                }
                if !serde_json::from_str::<Value>(text("arguments")).is_ok_and(|args| args.is_object()) {
                    return fail("arguments that are no object");
                }
                open.push(text("call_id"));
            }
            "function_call_output" => {
                let Some(call) = open.iter().position(|id| *id == text("call_id")) else {
                    return fail("an output without a call before it");
                };
                open.remove(call);
                if text("output").trim().is_empty() {
                    return fail("an empty output");
                }
            }
            "reasoning" => {
                let next = input.get(at + 1).and_then(|next| next["type"].as_str());
                let assistant = input.get(at + 1).is_some_and(|next| next["role"] != "user");
                if !matches!(next, Some("reasoning" | "message" | "function_call")) || !assistant {
                    return fail("reasoning without what it led to");
                }
                if item.get("id").is_some() {
                    return fail("an id of something that was not stored");
                }
            }
            "message" => {
                let parts = item["content"].as_array().map(Vec::as_slice).unwrap_or_default();
                let empty =
                    |part: &Value| part.get("text").is_some_and(|text| text.as_str().unwrap_or("").trim().is_empty());
                if parts.is_empty() || parts.iter().any(empty) || (item["role"] == "user" && !open.is_empty()) {
                    return fail("an empty message, or one between calls and their outputs");
                }
            }
            _ => return fail("an unknown item"),
        }
    }
    if open.is_empty() { Ok(()) } else { Err("calls are left open".to_owned()) }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just(" \n".to_owned()), "[a-z你 ]{1,6}"]
}
fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned),
        Just(String::new()),
        Just("ü:0".to_owned())
    ]
}
fn item() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => text().prop_map(|secret| json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": secret})),
        2 => id().prop_map(|id| json!({"type": "function_call", "call_id": id})),
        1 => Just(json!({"type": "message", "phase": "commentary"})),
        1 => Just(json!({"type": "message"})),
        1 => Just(json!({"type": "web_search_call"})),
        1 => Just(json!(7)),
    ]
}
fn block() -> impl Strategy<Value = ContentBlock> {
    prop_oneof![
        text().prop_map(ContentBlock::Text),
        Just(ContentBlock::ImageUrl("data:image/png;base64,AA".into())),
        item().prop_map(ContentBlock::Raw),
    ]
}
fn content() -> impl Strategy<Value = Content> {
    prop_oneof![text().prop_map(Content::Text), prop::collection::vec(block(), 0..5).prop_map(Content::Blocks)]
}
fn message() -> impl Strategy<Value = Message> {
    let ai = (
        content(),
        prop::collection::vec(id(), 0..4),
        any::<bool>(),
        prop::option::of(prop::collection::vec(item(), 0..5)),
        any::<bool>(),
    );
    let ai = ai.prop_map(|(content, ids, broken, order, here)| {
        let calls = ids.into_iter().map(|id| ToolCall::new(id, "f", JsonMap::new())).collect();
        let mut message = Message::ai_calls(content, calls);
        if broken && let Some(part) = message.as_ai_mut() {
            part.invalid_tool_calls.push(InvalidToolCall::new(None, None, "{".into(), "bad"));
        }
        if let Some(order) = order {
            message = message.with_kwarg(super::super::items::OUTPUT, order);
        }
        let origin = if here { HERE } else { "elsewhere/gpt-5" };
        message.response_metadata.insert(super::super::items::ORIGIN.into(), json!(origin));
        message
    });
    prop_oneof![
        2 => content().prop_map(Message::human),
        4 => ai,
        4 => (content(), id()).prop_map(|(content, id)| Message::tool(content, id, "f")),
        1 => content().prop_map(Message::system),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_history_becomes_input_that_the_service_takes(
        messages in prop::collection::vec(message().prop_map(Arc::new), 0..12), see: bool, origin: bool
    ) {
        let rules = if see { Rules::responses() } else { Rules::responses().without_vision() };
        let request = ChatRequest { messages, ..ChatRequest::default() };
        let input = conversation(&rules, &request, origin.then_some(HERE)).input;
        prop_assert_eq!(check_input(&input), Ok(()));
        let reasoning = input.iter().any(|item| item["type"] == "reasoning");
        prop_assert!(origin || !reasoning, "reasoning went to one that cannot read it");
        // The prefix is what the provider caches.
        let twice = ChatRequest { messages: legalise(&rules, None, &request.messages), ..ChatRequest::default() };
        prop_assert_eq!(conversation(&rules, &twice, origin.then_some(HERE)).input, input);
    }
}
