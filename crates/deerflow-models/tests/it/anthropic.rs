use crate::fake::{Fake, Reply, events, hello, run};
use deerflow_core::{Message, ModelErrorKind, ToolSpec};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::sync::Arc;

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
        "content": [], "stop_reason": null, "usage": {"input_tokens": 3, "cache_read_input_tokens": 7, "output_tokens": 1}}})
}

fn stop(reason: &str) -> [Value; 2] {
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 9}});
    [delta, json!({"type": "message_stop"})]
}

fn piece(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn block(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

#[tokio::test]
async fn a_tool_loop_sends_thinking_back_verbatim() {
    let mut first = vec![
        start(),
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        piece(0, json!({"type": "thinking_delta", "thinking": "look"})),
        piece(0, json!({"type": "signature_delta", "signature": "SIG"})),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "ping"}),
        block(1, json!({"type": "text", "text": ""})),
        piece(1, json!({"type": "text_delta", "text": "One 你"})),
        json!({"type": "content_block_stop", "index": 1}),
        block(2, json!({"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}})),
        piece(2, json!({"type": "input_json_delta", "partial_json": ""})),
        json!({"type": "content_block_stop", "index": 2}),
    ];
    first.extend(stop("tool_use"));
    let mut second = vec![start(), block(0, json!({"type": "text", "text": "done"}))];
    second.extend(stop("end_turn"));
    let fake = Fake::start([Reply::sse(&events(&first)).cut(1), Reply::sse(&events(&second))]).await;
    let model = fake.model(
        "anthropic",
        json!({"model": "claude-sonnet-5", "supports_thinking": true, "enable_prompt_caching": false}),
    );
    let tool = ToolSpec { name: "now".into(), description: "the time".into(), parameters: json!({"type": "object"}) };
    let mut request = hello();
    request.tools = vec![Arc::new(tool)];
    request.thinking = true;

    let outcome = run(&*model, request.clone()).await;
    assert_eq!(outcome.text(), "One 你");
    let turn = outcome.message();
    assert_eq!((turn.tool_calls()[0].id(), turn.tool_calls()[0].args.len()), ("toolu_1", 0));
    let usage = turn.as_ai().unwrap().usage_metadata.clone().unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read()), (10, 9, 7));

    request.messages.extend([Arc::new(turn), Arc::new(Message::tool("noon", "toolu_1", "now"))]);
    assert_eq!(run(&*model, request).await.message().text(), "done");
    let body = &fake.bodies()[1];
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "hello"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "look", "signature": "SIG"},
                {"type": "text", "text": "One 你"},
                {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}
            ]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "noon"}]}
        ])
    );
    assert_eq!(body["thinking"], json!({"type": "adaptive", "display": "summarized"}));
    assert_eq!(fake.path_and_header("x-api-key"), ("/v1/messages".to_owned(), "sk-secret-1".to_owned()));
    assert_eq!(fake.path_and_header("anthropic-version").1, "2023-06-01");
}

#[tokio::test]
async fn failures_are_understood() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let bad_key = json!({"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}});
    let half = events(&[start(), block(0, json!({"type": "text", "text": "half"}))]);
    let fake = Fake::start([
        Reply::json(529, &overloaded),
        Reply::json(401, &bad_key),
        Reply::sse(&(half.clone() + &events(&[overloaded]))),
        Reply::sse(&half),
    ])
    .await;
    let model = fake.model("anthropic", json!({}));
    for kind in [ModelErrorKind::Busy, ModelErrorKind::Auth, ModelErrorKind::Busy, ModelErrorKind::StreamInterrupted] {
        assert_eq!(run(&*model, hello()).await.error().kind, kind);
    }
}

#[tokio::test]
async fn a_reply_that_comes_whole_is_understood() {
    let whole = json!({"type": "message", "id": "m", "model": "claude-x", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 1, "output_tokens": 2}});
    let fake = Fake::start([Reply::json(200, &whole)]).await;
    let outcome = run(&*fake.model("anthropic", json!({"stream": false})), hello()).await;
    assert_eq!((outcome.text(), outcome.message().text()), ("hi".to_owned(), "hi".into()));
    assert_eq!(fake.bodies()[0]["stream"], false);
}

/// A thread whose history was compacted since must not end: its thinking is bound to what stood before.
#[tokio::test]
async fn a_thread_goes_on_when_its_thinking_is_no_longer_taken() {
    let refused = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "messages.1.content.0: \
        Invalid `signature` in `thinking` block. The block is bound to a different conversation."}});
    let answer = || {
        let text = json!({"type": "text_delta", "text": "noon"});
        let mut all = vec![start(), block(0, json!({"type": "text", "text": ""})), piece(0, text)];
        all.extend(stop("end_turn"));
        Reply::sse(&events(&all))
    };
    let fake = Fake::start([Reply::json(400, &refused), answer(), Reply::json(400, &refused)]).await;
    let model = fake.model("anthropic", json!({"model": "claude-opus-5-5", "enable_prompt_caching": false}));
    let thinking = json!({"type": "thinking", "thinking": "", "signature": "SIG"});
    let turn = Message::ai(deerflow_core::Content::Blocks(vec![
        deerflow_core::ContentBlock::Raw(thinking.clone()),
        deerflow_core::ContentBlock::Text("one".into()),
    ]));
    let request = crate::fake::ask(vec![Message::human("q"), turn, Message::human("more")]);
    assert_eq!(run(&*model, request).await.text(), "noon");
    let bodies = fake.bodies();
    assert_eq!(bodies[0]["messages"][1]["content"][0], thinking);
    assert_eq!(bodies[1]["messages"][1]["content"], json!([{"type": "text", "text": "one"}]));
    // Where there is nothing to leave out the refusal stands.
    assert_eq!(run(&*model, hello()).await.error().kind, ModelErrorKind::BadRequest);
}
