use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn decoder(blocks: bool) -> ResponsesDecoder {
    let errors = ErrorContext {
        name: "m".into(),
        model: "gpt-5".into(),
        url: "http://api.example/v1/responses".parse().unwrap(),
        key_variable: None,
        has_key: true,
        secrets: Vec::new(),
    };
    ResponsesDecoder::new(errors, Keep { blocks, origin: "api.example/gpt-5".into() })
}

fn play(decoder: &mut ResponsesDecoder, events: &[Value]) -> (Vec<MessageDelta>, Result<Message, ModelError>) {
    let mut out = Vec::new();
    for event in events {
        let event = SseEvent { data: event.to_string(), ..SseEvent::default() };
        match decoder.event(&event, &mut out) {
            Ok(Flow::More) => {}
            Ok(Flow::Done) => break,
            Err(error) => return (out, Err(error)),
        }
    }
    assert!(decoder.is_complete());
    let message = decoder.finish(&mut out);
    (out, message)
}

fn turn(events: &[Value]) -> Message {
    play(&mut decoder(false), events).1.unwrap()
}

fn done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}
fn said(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}
fn called(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "f", "arguments": arguments})
}
fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "output": output}})
}

#[test]
fn items_that_were_never_told_in_pieces_are_taken_from_their_end_or_from_the_last_event() {
    let message =
        turn(&[done(1, called("b", "{\"x\":2}")), completed(json!([called("a", "{\"x\":1}"), called("b", "{}")]))]);
    let args: Vec<_> = message.tool_calls().iter().map(|call| (call.id(), call.args["x"].clone())).collect();
    assert_eq!(args, [("a", json!(1)), ("b", json!(2))]);
    // The last event may hold no output at all.
    let message = turn(&[done(0, said("hi")), completed(json!([]))]);
    assert_eq!((message.text(), message.finish_reason()), ("hi".into(), Some("stop")));
}

#[test]
fn an_item_that_comes_again_counts_once_whatever_its_place() {
    let named = |id: &str, text: &str| {
        let mut item = said(text);
        item["id"] = json!(id);
        item
    };
    // A gateway that left an item out of its last event: the rest has moved up.
    let events = [
        done(0, json!({"type": "reasoning", "id": "rs", "summary": []})),
        done(1, named("m", "hi")),
        done(1, named("m", "hi")),
        completed(json!([named("m", "hi")])),
    ];
    assert_eq!(turn(&events).text(), "hi");
    // It was the fourth item, and is the first of those that the last event names.
    assert_eq!(turn(&[done(3, named("m", "hi")), completed(json!([named("m", "hi")]))]).text(), "hi");
    // What an item said of itself counts more than what the last event says of it.
    let secret = json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "S"});
    let blank = json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": null});
    let message = turn(&[done(0, secret.clone()), done(1, called("a", "{}")), completed(json!([blank]))]);
    assert_eq!(message.additional_kwargs[OUTPUT][0], secret);
    // One whose ids change from event to event: the place counts.
    let events = [done(0, named("a", "hi")), completed(json!([named("b", "hi"), called("c", "{}")]))];
    let message = turn(&events);
    assert_eq!((message.text(), message.tool_calls().len()), ("hi".into(), 1));
}

#[test]
fn what_came_in_pieces_is_not_told_twice() {
    let events = [
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": ""}}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": "{\"x\""}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": ":1}"}),
        json!({"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{\"x\":1}"}),
        done(0, called("a", "{\"x\":1}")),
        completed(json!([called("a", "{\"x\":1}")])),
    ];
    let message = turn(&events);
    assert_eq!(message.tool_calls().len(), 1);
    assert_eq!((message.tool_calls()[0].id(), &message.tool_calls()[0].args["x"]), ("a", &json!(1)));
    assert_eq!(message.finish_reason(), Some("tool_calls"));
}

/// BR-004, BR-020
#[test]
fn broken_arguments_are_invalid_calls_and_empty_ones_an_empty_object() {
    let message = turn(&[done(0, called("a", "{\"a\":1}{\"b\":2}")), done(1, called("b", "")), completed(json!([]))]);
    let part = message.as_ai().unwrap();
    assert_eq!((part.tool_calls.len(), part.invalid_tool_calls.len()), (1, 1));
    assert_eq!(part.invalid_tool_calls[0].id.as_deref(), Some("a"));
    assert_eq!(message.finish_reason(), Some("tool_calls"));
}

/// BR-022, BR-023
#[test]
fn why_a_reply_is_incomplete_is_said_in_the_words_of_the_house() {
    let incomplete = |reason: &str, item: Value| {
        turn(&[
            done(0, item),
            json!({"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": {"reason": reason}}}),
        ])
    };
    let cut = incomplete("max_output_tokens", called("a", ""));
    assert_eq!((cut.finish_reason(), cut.tool_calls().len()), (Some("length"), 0));
    assert_eq!(cut.as_ai().unwrap().invalid_tool_calls.len(), 1);
    let filtered = incomplete("content_filter", called("a", "{}"));
    assert_eq!(filtered.finish_reason(), Some("content_filter"));
    let plain = json!({"type": "response.incomplete", "response": {"status": "incomplete"}});
    assert_eq!(turn(&[done(0, said("half")), plain]).finish_reason(), Some("length"));
}

#[test]
fn a_refusal_is_shown_and_marked() {
    let events = [
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m", "content": []}}),
        json!({"type": "response.refusal.delta", "output_index": 0, "delta": "I can"}),
        json!({"type": "response.refusal.delta", "output_index": 0, "delta": "not"}),
        completed(json!([{"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "I cannot"}]}])),
    ];
    let message = turn(&events);
    assert_eq!((message.text(), &message.additional_kwargs["refusal"]), ("I cannot".into(), &json!("I cannot")));
}

#[test]
fn thoughts_and_messages_of_one_turn_stay_apart() {
    let reasoning = |parts: &[&str]| {
        let summary: Vec<Value> = parts.iter().map(|text| json!({"type": "summary_text", "text": text})).collect();
        json!({"type": "reasoning", "id": parts[0], "summary": summary, "encrypted_content": "S"})
    };
    let commentary =
        json!({"type": "message", "phase": "commentary", "content": [{"type": "output_text", "text": "Looking."}]});
    let events = [
        done(0, reasoning(&["one", "two"])),
        done(1, commentary),
        done(2, reasoning(&["three"])),
        done(3, said("Done.")),
        completed(json!([])),
    ];
    let message = turn(&events);
    assert_eq!(message.text(), "Looking.\n\nDone.");
    assert_eq!(message.additional_kwargs["reasoning_content"], "one\n\ntwo\n\nthree");
    let kinds: Vec<_> =
        message.additional_kwargs[OUTPUT].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["reasoning", "message", "reasoning", "message"]);
    assert_eq!(message.response_metadata[ORIGIN], "api.example/gpt-5");
    let blocks = play(&mut decoder(true), &events).1.unwrap();
    let kinds: Vec<String> = blocks.content.to_blocks().iter().map(|block| block.kind().to_owned()).collect();
    assert_eq!(kinds, ["reasoning", "text", "reasoning", "text"]);
    assert_eq!(blocks.additional_kwargs.get(OUTPUT), None);
}

#[test]
fn a_plain_answer_carries_nothing_along() {
    let message = turn(&[done(0, said("hi")), completed(json!([]))]);
    assert_eq!((message.additional_kwargs.len(), message.response_metadata.get(ORIGIN)), (0, None));
    assert_eq!(
        play(&mut decoder(true), &[done(0, said("hi")), completed(json!([]))]).1.unwrap().content.to_blocks().len(),
        1
    );
}

#[test]
fn failures_within_a_stream_say_what_can_be_done() {
    use ModelErrorKind as Kind;
    let failed = |code: &str, message: &str| json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": code, "message": message}}});
    for (event, kind) in [
        (failed("server_error", "The model failed"), Kind::Transient),
        (failed("rate_limit_exceeded", "Rate limit reached"), Kind::Busy),
        (failed("context_length_exceeded", "too long"), Kind::ContextLength),
        (failed("invalid_prompt", "no"), Kind::BadRequest),
        (json!({"type": "error", "code": "insufficient_quota", "message": "m", "param": null}), Kind::Quota),
        (json!({"type": "error", "error": {"type": "server_error", "message": "m"}}), Kind::Transient),
        (json!({"error": {"message": "overloaded"}}), Kind::Busy),
        (json!({"detail": "Unauthorized"}), Kind::Auth),
        (json!({"no": "type"}), Kind::BadResponse),
        (json!({"type": "response.cancelled", "response": {"status": "cancelled"}}), Kind::StreamInterrupted),
    ] {
        let (deltas, result) = play(&mut decoder(false), &[done(0, said("half")), event.clone()]);
        assert_eq!(deltas.iter().map(|delta| delta.text.as_str()).collect::<String>(), "half");
        assert_eq!(result.unwrap_err().kind, kind, "{event}");
    }
    let (_, empty) = play(&mut decoder(false), &[completed(json!([]))]);
    assert_eq!(empty.unwrap_err().kind, Kind::Transient);
}

#[test]
fn the_end_without_its_event_is_an_interruption() {
    let mut decoder = decoder(false);
    let event = SseEvent { data: "[DONE]".into(), ..SseEvent::default() };
    assert_eq!(decoder.event(&event, &mut Vec::new()).unwrap_err().kind, ModelErrorKind::StreamInterrupted);
}

fn wild() -> impl Strategy<Value = Value> {
    let kinds = [
        "response.created",
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.delta",
        "response.refusal.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.reasoning_summary_text.delta",
        "response.completed",
        "response.incomplete",
        "response.failed",
        "error",
        "x",
    ];
    let item = prop_oneof![
        Just(json!(null)),
        Just(said("t")),
        Just(called("a", "{}")),
        Just(called("", "[")),
        Just(json!({"type": 7})),
        Just(json!({"type": "reasoning", "summary": "x", "content": 1})),
    ];
    (prop::sample::select(kinds.to_vec()), 0..3_u64, any::<bool>(), "[a{}\":]{0,4}", item).prop_map(
        |(kind, index, indexed, delta, item)| {
            let mut event =
                json!({"type": kind, "delta": delta, "item": item, "response": {"output": [item], "status": "x"}});
            if indexed {
                event["output_index"] = json!(index);
            }
            event
        },
    )
}

proptest! {
    #[test]
    fn any_order_of_events_is_survived_and_deltas_add_up_to_the_message(events in prop::collection::vec(wild(), 0..12)) {
        let mut decoder = decoder(false);
        let mut out = Vec::new();
        for event in &events {
            let event = SseEvent { data: event.to_string(), ..SseEvent::default() };
            if !matches!(decoder.event(&event, &mut out), Ok(Flow::More)) {
                break;
            }
        }
        if decoder.is_complete() && let Ok(message) = decoder.finish(&mut out) {
            let told: String = out.iter().map(|delta| delta.text.as_str()).collect();
            prop_assert_eq!(message.text(), told);
        }
    }
}
