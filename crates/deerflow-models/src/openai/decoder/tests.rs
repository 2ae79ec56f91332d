use super::*;
use crate::quirks::named;
use deerflow_core::Usage;
use pretty_assertions::assert_eq;

fn context() -> ErrorContext {
    ErrorContext {
        name: "m".into(),
        model: "x".into(),
        url: "http://localhost:1/v1/chat/completions".parse().unwrap(),
        key_variable: None,
        has_key: false,
        secrets: Vec::new(),
    }
}

fn decoder(quirks: &str) -> ChatDecoder {
    let quirks = named(quirks).unwrap();
    let bash = ToolSpec { name: "bash".into(), description: String::new(), parameters: json!({"type": "object"}) };
    ChatDecoder::new(context(), quirks, quirks.tool_calls, vec![Arc::new(bash)])
}

/// Decodes deltas of choice 0 and then the finish reason; what was shown, and the message.
fn stream(quirks: &str, deltas: &[Value], reason: &str) -> (Vec<MessageDelta>, Message) {
    let mut decoder = decoder(quirks);
    let mut out = Vec::new();
    let last = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
    let chunks = deltas.iter().map(|delta| json!({"choices": [{"index": 0, "delta": delta}]})).chain([last]);
    for chunk in chunks {
        let event = SseEvent { data: chunk.to_string(), ..SseEvent::default() };
        assert_eq!(decoder.event(&event, &mut out).unwrap(), Flow::More);
    }
    assert!(decoder.is_complete());
    let message = decoder.finish(&mut out).unwrap();
    (out, message)
}

fn failure(data: &str) -> ModelError {
    decoder("generic").event(&SseEvent { data: data.into(), ..SseEvent::default() }, &mut Vec::new()).unwrap_err()
}

fn calls(message: &Message) -> Vec<(String, String, Value)> {
    let calls = message.tool_calls().iter();
    calls.map(|call| (call.id().to_owned(), call.name.clone(), Value::Object(call.args.clone()))).collect()
}

/// BR-014, BR-015, BR-019
#[test]
fn tool_call_pieces_go_where_they_belong() {
    let piece = |call: Value| json!({"tool_calls": [call]});
    let (_, message) = stream(
        "openai",
        &[
            json!({"tool_calls": [
                {"index": 0, "id": "a", "type": "function", "function": {"name": "bash", "arguments": ""}},
                {"index": 1, "id": "b", "type": "function", "function": {"name": "read", "arguments": "{\"p\""}}
            ]}),
            piece(json!({"index": 0, "id": "", "function": {"name": "", "arguments": "{\"c\":"}})),
            piece(json!({"index": 1, "function": {"arguments": ":1}"}})),
            piece(json!({"index": 0, "function": {"arguments": "2}"}})),
            piece(json!({"index": 0, "id": "c", "function": {"name": "bash", "arguments": "{}"}})),
        ],
        "tool_calls",
    );
    let expected = [
        ("a".into(), "bash".into(), json!({"c": 2})),
        ("b".into(), "read".into(), json!({"p": 1})),
        ("c".into(), "bash".into(), json!({})),
    ];
    assert_eq!(calls(&message), expected);
}

/// BR-018, BR-020
#[test]
fn arguments_as_an_object_and_empty_arguments_are_accepted() {
    let call = |id: &str, arguments: Value| json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": "bash", "arguments": arguments}}]});
    let (_, message) =
        stream("generic", &[call("a", json!({})), call("b", json!({"x": 1})), call("c", json!(""))], "stop");
    let expected = [
        ("a".into(), "bash".into(), json!({})),
        ("b".into(), "bash".into(), json!({"x": 1})),
        ("c".into(), "bash".into(), json!({})),
    ];
    assert_eq!(calls(&message), expected);
    let opened = json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"y\":2}"}}]});
    let (_, message) = stream("generic", &[call("a", json!({})), opened], "stop");
    assert_eq!(calls(&message), [("a".into(), "bash".into(), json!({"y": 2}))]);
}

/// BR-018
#[test]
fn a_chunk_that_cannot_be_read_is_an_error_the_caller_sees() {
    let error = failure("{\"choices\": [{\"del");
    assert_eq!(error.kind, ModelErrorKind::BadResponse);
    assert!(error.message.contains("not JSON"), "{error}");
    assert_eq!(failure("7").kind, ModelErrorKind::BadResponse);
    let bad = json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": 7}}]}}]});
    assert_eq!(failure(&bad.to_string()).kind, ModelErrorKind::BadResponse);
}

/// BR-021
#[test]
fn repeated_pieces_of_text_are_kept() {
    let deltas = ["谢", "谢", "go", "go", "hel", "l", "o"].map(|text| json!({"content": text}));
    assert_eq!(stream("generic", &deltas, "stop").1.text(), "谢谢gogohello");
}

/// BR-022
#[test]
fn a_call_that_the_token_limit_cut_off_cannot_run() {
    let call = |arguments: &str| json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "bash", "arguments": arguments}}]});
    for arguments in ["", "{\"command\": \"rm -r"] {
        let (_, message) = stream("openai", &[json!({"content": "I will"}), call(arguments)], "length");
        assert_eq!(
            (message.tool_calls().len(), message.as_ai().unwrap().invalid_tool_calls.len()),
            (0, 1),
            "{arguments:?}"
        );
        assert_eq!((message.text(), message.finish_reason()), ("I will".into(), Some("length")));
    }
}

/// BR-026
#[test]
fn thinking_tags_never_leak_and_never_hide_the_answer() {
    let pieces = |text: &str| text.chars().map(|c| json!({"content": c.to_string()})).collect::<Vec<_>>();
    let (out, message) = stream("generic", &pieces("<think>plan</think>\n\nHello"), "stop");
    assert_eq!((message.text(), &message.additional_kwargs["reasoning_content"]), ("Hello".into(), &json!("plan")));
    assert_eq!(out.iter().map(|delta| delta.text.as_str()).collect::<String>(), "Hello");
    let (_, message) = stream("generic", &pieces("<think>plan"), "stop");
    assert_eq!((message.text(), message.additional_kwargs.get("reasoning_content")), ("plan".into(), None));
    let (_, message) = stream("generic", &pieces("<think>plan"), "length");
    assert_eq!((message.text(), &message.additional_kwargs["reasoning_content"]), ("".into(), &json!("plan")));
    let (_, message) = stream("generic", &pieces("Say `<think>`."), "stop");
    assert_eq!(message.text(), "Say `<think>`.");
}

/// BR-011
#[test]
fn thinking_is_read_from_every_field_and_the_field_is_remembered() {
    let (out, message) = stream(
        "generic",
        &[json!({"reasoning": "a", "reasoning_content": null}), json!({"reasoning": "b"}), json!({"content": "c"})],
        "stop",
    );
    assert_eq!(out[0].reasoning, "a");
    assert_eq!(message.additional_kwargs["reasoning_content"], "ab");
    assert_eq!(message.response_metadata["reasoning_field"], "reasoning");
    let (_, message) = stream(
        "minimax",
        &[json!({"reasoning_details": [{"text": " x"}]}), json!({"reasoning_details": [{"text": "y"}]})],
        "stop",
    );
    assert_eq!(message.additional_kwargs["reasoning_content"], " xy");
    let (_, message) = stream(
        "mistral",
        &[json!({"content": [{"type": "thinking", "thinking": [{"text": "t"}]}, {"type": "text", "text": "v"}]})],
        "stop",
    );
    assert_eq!((message.text(), &message.additional_kwargs["reasoning_content"]), ("v".into(), &json!("t")));
}

#[test]
fn usage_in_a_trailing_chunk_without_choices_counts() {
    let mut decoder = decoder("openai");
    let mut out = Vec::new();
    for chunk in [
        json!({"model": "gpt-x-2026", "system_fingerprint": "fp", "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": null}], "usage": null}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}),
    ] {
        decoder.event(&SseEvent { data: chunk.to_string(), ..SseEvent::default() }, &mut out).unwrap();
    }
    let done = decoder.event(&SseEvent { data: "[DONE]".into(), ..SseEvent::default() }, &mut out).unwrap();
    assert_eq!(done, Flow::Done);
    let message = decoder.finish(&mut out).unwrap();
    assert_eq!(message.as_ai().unwrap().usage_metadata, Some(Usage::new(3, 2)));
    assert_eq!(
        Value::Object(message.response_metadata.clone()),
        json!({"model_name": "gpt-x-2026", "system_fingerprint": "fp", "finish_reason": "stop"})
    );
}

#[test]
fn an_error_inside_a_stream_is_an_error() {
    let error = failure(r#"{"error":{"message":"server busy, try again later","code":503}}"#);
    assert_eq!((error.kind, error.status), (ModelErrorKind::Busy, Some(503)));
    assert_eq!(failure(r#"{"object":"error","message":"boom"}"#).kind, ModelErrorKind::BadRequest);
    assert_eq!(failure(r#"{"code":"InvalidApiKey","message":"Invalid API key provided"}"#).kind, ModelErrorKind::Auth);
    assert_eq!(failure("[DONE]").kind, ModelErrorKind::Transient);
    let fine = json!({"error": null, "choices": [{"index": 0, "delta": {"content": "x"}}]});
    let event = SseEvent { data: fine.to_string(), ..SseEvent::default() };
    decoder("generic").event(&event, &mut Vec::new()).unwrap();
}

#[test]
fn calls_written_as_text_become_calls_and_are_never_shown() {
    let text = r#"<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>"#;
    let pieces: Vec<Value> = text.chars().map(|c| json!({"content": c.to_string()})).collect();
    let (out, message) = stream("ollama", &pieces, "stop");
    assert_eq!(calls(&message), [("".into(), "bash".into(), json!({"command": "ls"}))]);
    assert_eq!((message.text(), out.iter().map(|d| d.text.len()).sum::<usize>()), ("".into(), 0));
    assert_eq!(stream("openai", &pieces, "stop").1.text(), text);
}

#[test]
fn a_reply_that_is_all_held_back_is_not_an_empty_one() {
    let mut decoder = decoder("ollama");
    let mut out = Vec::new();
    let text = r#"{"name": "bash", "arguments": {}}"#;
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": text}}]});
    decoder.event(&SseEvent { data: chunk.to_string(), ..SseEvent::default() }, &mut out).unwrap();
    let done = SseEvent { data: "[DONE]".into(), ..SseEvent::default() };
    assert_eq!(decoder.event(&done, &mut out).unwrap(), Flow::Done);
    assert_eq!(calls(&decoder.finish(&mut out).unwrap()), [("".into(), "bash".into(), json!({}))]);
}

#[test]
fn a_reply_that_comes_whole_reads_like_a_stream() {
    let mut decoder = decoder("openai");
    let mut out = Vec::new();
    let reply = json!({"model": "x", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": null, "reasoning_content": "hm",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "bash", "arguments": ""}},
            {"id": "a", "type": "function", "function": {"name": "bash", "arguments": "{\"x\":1}"}}
        ]}}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}});
    decoder.body(&reply.to_string(), &mut out).unwrap();
    let message = decoder.finish(&mut out).unwrap();
    assert_eq!(calls(&message), [("a".into(), "bash".into(), json!({})), ("a".into(), "bash".into(), json!({"x": 1}))]);
    assert_eq!((message.additional_kwargs["reasoning_content"].as_str(), out.len()), (Some("hm"), 1));
}

#[test]
fn whole_replies_that_are_none_are_errors() {
    let kind = |body: &str| decoder("openai").body(body, &mut Vec::new()).unwrap_err().kind;
    assert_eq!(kind(r#"{"choices": []}"#), ModelErrorKind::Transient);
    assert_eq!(kind("{"), ModelErrorKind::BadResponse);
    assert_eq!(kind(r#"{"hello": 1}"#), ModelErrorKind::BadResponse);
    assert_eq!(kind(r#"{"error": "bad"}"#), ModelErrorKind::BadRequest);
}

/// BR-012
#[test]
fn a_thought_signature_is_kept_opaque() {
    let (_, message) = stream(
        "gemini",
        &[json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": "S=="}}}]})],
        "tool_calls",
    );
    assert_eq!(
        message.additional_kwargs["tool_call_extras"],
        json!([{"extra_content": {"google": {"thought_signature": "S=="}}, "id": "a"}])
    );
}
