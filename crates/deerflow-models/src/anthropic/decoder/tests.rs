use super::*;
use pretty_assertions::assert_eq;

fn decoder() -> MessagesDecoder {
    MessagesDecoder::new(ErrorContext {
        name: "m".into(),
        model: "x".into(),
        url: "http://localhost:1/v1/messages".parse().unwrap(),
        key_variable: None,
        has_key: false,
        secrets: Vec::new(),
    })
}

fn stream(events: &[Value]) -> (Vec<MessageDelta>, Message) {
    let mut decoder = decoder();
    let mut out = Vec::new();
    for event in events {
        let event = SseEvent { data: event.to_string(), ..SseEvent::default() };
        decoder.event(&event, &mut out).unwrap();
    }
    assert!(decoder.is_complete());
    let message = decoder.finish(&mut out).unwrap();
    (out, message)
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "model": "claude-x", "usage": {
        "input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 5, "output_tokens": 1}}})
}

fn end(reason: &str) -> [Value; 2] {
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 20}});
    [delta, json!({"type": "message_stop"})]
}

fn block(index: u64, content: Value, deltas: &[Value]) -> Vec<Value> {
    let mut events = vec![json!({"type": "content_block_start", "index": index, "content_block": content})];
    events.extend(deltas.iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})));
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

#[test]
fn thinking_text_and_parallel_calls_of_one_turn() {
    let mut events = vec![start(), json!({"type": "ping"})];
    events.extend(block(
        0,
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        &[
            json!({"type": "thinking_delta", "thinking": "let me "}),
            json!({"type": "thinking_delta", "thinking": "see"}),
            json!({"type": "signature_delta", "signature": "SIG=="}),
        ],
    ));
    events.extend(block(1, json!({"type": "redacted_thinking", "data": "ENC"}), &[]));
    events.extend(block(2, json!({"type": "text", "text": ""}), &[json!({"type": "text_delta", "text": "Looking."})]));
    events.extend(block(
        3,
        json!({"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}),
        &[
            json!({"type": "input_json_delta", "partial_json": ""}),
            json!({"type": "input_json_delta", "partial_json": "{\"command\":"}),
            json!({"type": "input_json_delta", "partial_json": "\"ls\"}"}),
        ],
    ));
    let nothing = [json!({"type": "input_json_delta", "partial_json": ""})];
    events.extend(block(4, json!({"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}}), &nothing));
    events.extend(block(5, json!({"type": "tool_use", "id": "toolu_3", "name": "whole", "input": {"a": 1}}), &[]));
    events.extend(end("tool_use"));
    let (out, message) = stream(&events);

    assert_eq!(
        serde_json::to_value(&message.content).unwrap(),
        json!([
            {"type": "thinking", "thinking": "let me see", "signature": "SIG=="},
            {"type": "redacted_thinking", "data": "ENC"},
            {"type": "text", "text": "Looking."}
        ])
    );
    assert_eq!(message.additional_kwargs["reasoning_content"], "let me see");
    let calls: Vec<_> = message.tool_calls().iter().map(|c| (c.id(), Value::Object(c.args.clone()))).collect();
    assert_eq!(calls, [("toolu_1", json!({"command": "ls"})), ("toolu_2", json!({})), ("toolu_3", json!({"a": 1}))]);
    let usage = message.as_ai().unwrap().usage_metadata.as_ref().unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read()), (115, 20, 100));
    assert_eq!(usage.input_token_details["cache_creation"], 5);
    assert_eq!(
        Value::Object(message.response_metadata.clone()),
        json!({"model_name": "claude-x", "response_id": "msg_1", "stop_reason": "tool_use", "finish_reason": "tool_calls"})
    );
    assert_eq!(out.iter().map(|delta| delta.text.as_str()).collect::<String>(), "Looking.");
    assert_eq!(out.iter().flat_map(|delta| &delta.tool_calls).next().unwrap().index, Some(3));
}

#[test]
fn plain_text_stays_plain() {
    let mut events = vec![start()];
    events.extend(block(0, json!({"type": "text", "text": ""}), &[json!({"type": "text_delta", "text": "Hi"})]));
    events.extend(end("end_turn"));
    let (_, message) = stream(&events);
    assert_eq!((message.content.clone(), message.finish_reason()), (Content::Text("Hi".into()), Some("stop")));
}

/// BR-022, BR-023
#[test]
fn a_refusal_and_a_cut_call_say_so() {
    let mut events = vec![start()];
    events.extend(end("refusal"));
    assert_eq!(stream(&events).1.finish_reason(), Some("refusal"));
    let mut events = vec![start()];
    events.extend(block(0, json!({"type": "tool_use", "id": "t", "name": "bash", "input": {}}), &[]));
    events.extend(end("max_tokens"));
    let (_, message) = stream(&events);
    assert_eq!((message.tool_calls().len(), message.as_ai().unwrap().invalid_tool_calls.len()), (0, 1));
}

#[test]
fn errors_in_a_stream_and_garbage_are_errors() {
    let kind = |data: &str| {
        decoder().event(&SseEvent { data: data.into(), ..SseEvent::default() }, &mut Vec::new()).unwrap_err().kind
    };
    assert_eq!(
        kind(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
        ModelErrorKind::Busy
    );
    assert_eq!(kind("{\"type"), ModelErrorKind::BadResponse);
    assert_eq!(kind("{}"), ModelErrorKind::BadResponse);
    assert_eq!(decoder().body("{}", &mut Vec::new()).unwrap_err().kind, ModelErrorKind::BadResponse);
    assert_eq!(decoder().finish(&mut Vec::new()).unwrap_err().kind, ModelErrorKind::Transient);
}

#[test]
fn a_reply_that_comes_whole_reads_like_a_stream() {
    let mut decoder = decoder();
    let mut out = Vec::new();
    let reply = json!({"type": "message", "id": "msg_1", "model": "claude-x", "stop_reason": "tool_use", "content": [
        {"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "t", "name": "bash", "input": {"x": 1}}
    ], "usage": {"input_tokens": 1, "output_tokens": 2}});
    decoder.body(&reply.to_string(), &mut out).unwrap();
    let message = decoder.finish(&mut out).unwrap();
    assert_eq!((message.text(), message.tool_calls()[0].args["x"].as_u64()), ("Hi".into(), Some(1)));
}
