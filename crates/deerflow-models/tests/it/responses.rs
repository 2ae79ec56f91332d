//! OpenAI Responses against frames written from the API's documents.

use crate::fake::{Fake, Reply, Then, ask, hello, run};
use deerflow_core::{ChatRequest, Content, ContentBlock, JsonMap, Message, ModelErrorKind as Kind, ToolCall, ToolSpec};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../fixtures/responses/", $name))
    };
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn model(fake: &Fake, extra: Value) -> Arc<dyn deerflow_core::ChatModel> {
    let mut all = json!({"use_responses_api": true});
    for (key, value) in extra.as_object().unwrap() {
        all[key] = value.clone();
    }
    fake.model("langchain_openai:ChatOpenAI", all)
}

fn thinker() -> Value {
    json!({
        "supports_thinking": true, "supports_reasoning_effort": true, "reasoning": {"summary": "auto"},
        "parallel_tool_calls": true
    })
}

fn question() -> ChatRequest {
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
    let tool = ToolSpec { name: "bash".into(), description: "Runs a command.".into(), parameters };
    ChatRequest {
        system: Some("Be brief.".into()),
        tools: vec![Arc::new(tool)],
        thinking: true,
        reasoning_effort: Some("medium".into()),
        ..hello()
    }
}

/// The request after the turn that made two calls, of which one was answered.
fn answered(turn: Message) -> ChatRequest {
    let mut next = question();
    next.messages.extend([Arc::new(turn), Arc::new(Message::tool("a.txt", "call_a", "bash"))]);
    next
}

/// BR-031
#[tokio::test]
async fn a_plain_answer_arrives_whole_however_it_is_cut() {
    for (size, extra) in [(1, json!({})), (7, json!({})), (100_000, json!({"output_version": "responses/v1"}))] {
        let fake = Fake::start([Reply::sse(fixture!("plain.sse")).cut(size)]).await;
        let request = ChatRequest { system: Some("Be brief.".into()), ..hello() };
        let outcome = run(&*model(&fake, extra), request).await;
        assert_eq!(outcome.text(), "Hi there, 你好😀");
        let message = outcome.message();
        assert_eq!((message.text(), message.finish_reason()), ("Hi there, 你好😀".into(), Some("stop")));
        let usage = message.as_ai().unwrap().usage_metadata.clone().unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read()), (36, 87, 12));
        assert_eq!(message.response_metadata["model_name"], "gpt-5-2025-08-07");
        assert_eq!(fake.bodies(), [value(fixture!("plain.request.json"))]);
        let bearer = ("/v1/responses".to_owned(), "Bearer sk-secret-1".to_owned());
        assert_eq!(fake.path_and_header("authorization"), bearer);
    }
}

#[tokio::test]
async fn a_reply_that_comes_whole_is_the_same_turn_as_the_stream() {
    let replies =
        [Reply::json(200, &value(fixture!("tool_calls.json"))).cut(11), Reply::sse(fixture!("tool_calls.sse"))];
    let fake = Fake::start(replies).await;
    let whole = run(&*model(&fake, json!({"streaming": false})), hello()).await;
    let streamed = run(&*model(&fake, json!({})), hello()).await;
    assert_eq!(fake.bodies()[0]["stream"], false);
    assert_eq!(whole.message(), streamed.message());
}

#[tokio::test]
async fn a_tool_loop_replays_reasoning_right_before_its_calls() {
    for version in [json!(null), json!("responses/v1")] {
        let fake =
            Fake::start([Reply::sse(fixture!("tool_calls.sse")).cut(13), Reply::sse(fixture!("done.sse"))]).await;
        let mut extra = thinker();
        extra["output_version"] = version.clone();
        let model = model(&fake, extra);
        let outcome = run(&*model, question()).await;
        let thought: String = outcome.deltas.iter().map(|delta| delta.reasoning.as_str()).collect();
        assert_eq!(thought, "Two looks\n\nare needed");
        let turn = outcome.message();
        assert_eq!((turn.text(), turn.finish_reason()), ("".into(), Some("tool_calls")));
        let calls: Vec<_> = turn.tool_calls().iter().map(|call| (call.id(), call.args["command"].clone())).collect();
        assert_eq!(calls, [("call_a", json!("ls")), ("call_b", json!("pwd"))]);
        let usage = turn.as_ai().unwrap().usage_metadata.clone().unwrap();
        assert_eq!((usage.total_tokens, usage.cache_read(), usage.reasoning()), (1261, 64, 1024));
        let kinds: Vec<_> = turn.content.to_blocks().iter().map(|block| block.kind().to_owned()).collect();
        let blocks: &[&str] = if version.is_null() { &[] } else { &["reasoning", "function_call", "function_call"] };
        assert_eq!(kinds, blocks);

        // The second result is missing, as after a stop. A store in between keeps the message as JSON.
        let stored: Message = serde_json::from_value(serde_json::to_value(&turn).unwrap()).unwrap();
        assert_eq!(run(&*model, answered(stored)).await.message().text(), "done");
        assert_eq!(fake.bodies()[1], value(fixture!("tool_calls.request.json")));
    }
}

#[tokio::test]
async fn reasoning_is_left_out_for_another_model_and_another_service() {
    let fake = Fake::start([
        Reply::sse(fixture!("tool_calls.sse")),
        Reply::sse(fixture!("done.sse")),
        Reply::sse(fixture!("done.sse")),
    ])
    .await;
    let turn = run(&*model(&fake, thinker()), question()).await.message();
    let mut other = thinker();
    other["model"] = json!("other");
    run(&*model(&fake, other), answered(turn.clone())).await.message();
    let mut expected = value(fixture!("other_model.request.json"));
    expected["model"] = json!("other");
    assert_eq!(fake.bodies()[1], expected);
    // Chat completions are sent neither the reasoning nor the order of items.
    let chat = run(&*fake.model("openai", json!({})), answered(turn)).await;
    assert!(chat.result.is_err(), "the reply is one of Responses");
    assert!(!fake.bodies()[2].to_string().contains("gAAAAAB"), "{}", fake.bodies()[2]);

    let fake = Fake::start([
        Reply::sse(fixture!("tool_calls.sse")),
        Reply::json(400, &value(fixture!("error_encrypted.json"))),
        Reply::sse(fixture!("done.sse")),
    ])
    .await;
    let model = model(&fake, thinker());
    let turn = run(&*model, question()).await.message();
    // The key is now one of another organisation: the thread goes on without the reasoning.
    assert_eq!(run(&*model, answered(turn)).await.message().text(), "done");
    assert_eq!(fake.bodies()[1], value(fixture!("tool_calls.request.json")));
    assert_eq!(fake.bodies()[2], value(fixture!("other_model.request.json")));
}

#[tokio::test]
async fn images_of_the_user_and_of_a_tool_are_sent() {
    let picture = || ContentBlock::ImageUrl("data:image/png;base64,AA==".into());
    let text = |text: &str| ContentBlock::Text(text.into());
    let request = ask(vec![
        Message::human(Content::Blocks(vec![text("what is it?"), picture()])),
        Message::ai_calls("", vec![ToolCall::new("call_s", "screenshot", JsonMap::new())]),
        Message::tool(Content::Blocks(vec![text("taken"), picture()]), "call_s", "screenshot"),
    ]);
    let fake = Fake::start([Reply::sse(fixture!("done.sse"))]).await;
    run(&*model(&fake, json!({"supports_vision": true})), request).await.message();
    assert_eq!(fake.bodies()[0], value(fixture!("images.request.json")));
}

/// BR-022, BR-023
#[tokio::test]
async fn a_reply_that_was_stopped_says_why() {
    let stopped = async |reply: &str| {
        let fake = Fake::start([Reply::sse(reply)]).await;
        run(&*model(&fake, json!({})), hello()).await.message()
    };
    let length = stopped(fixture!("incomplete_length.sse")).await;
    assert_eq!((length.text(), length.finish_reason()), ("half an ans".into(), Some("length")));
    let call = stopped(fixture!("incomplete_call.sse")).await;
    assert_eq!((call.tool_calls().len(), call.finish_reason()), (0, Some("length")));
    assert_eq!(call.as_ai().unwrap().invalid_tool_calls[0].name.as_deref(), Some("write_file"));
    let filter = stopped(fixture!("incomplete_filter.sse")).await;
    assert_eq!((filter.tool_calls().len(), filter.finish_reason()), (1, Some("content_filter")));
    let refusal = stopped(fixture!("refusal.sse")).await;
    assert_eq!((refusal.text(), refusal.finish_reason()), ("I cannot help with that.".into(), Some("stop")));
    assert_eq!(refusal.additional_kwargs["refusal"], "I cannot help with that.");
}

#[tokio::test]
async fn error_replies_say_what_can_be_done() {
    let cases: Vec<(Reply, Kind)> = vec![
        (Reply::json(401, &value(fixture!("error_401.json"))), Kind::Auth),
        (Reply::json(429, &value(fixture!("error_429.json"))).header("retry-after", "7"), Kind::Busy),
        (Reply::json(429, &value(fixture!("error_quota.json"))), Kind::Quota),
        (Reply::json(500, &value(fixture!("error_500.json"))), Kind::Transient),
        (Reply::json(400, &value(fixture!("error_context.json"))), Kind::ContextLength),
    ];
    let (replies, kinds): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    let fake = Fake::start(replies).await;
    let model = model(&fake, json!({}));
    for kind in kinds {
        let error = run(&*model, hello()).await.error();
        assert_eq!(error.kind, kind, "{error}");
        assert!(!error.to_string().contains("sk-secret-1"), "{error}");
        assert_eq!(error.retry_after, (kind == Kind::Busy).then(|| Duration::from_secs(7)));
    }
}

/// BR-018
#[tokio::test]
async fn failures_within_a_stream_reach_the_caller_after_what_came() {
    for (text, then, kind) in [
        (fixture!("failed.sse"), Then::End, Kind::Transient),
        (fixture!("error_event.sse"), Then::End, Kind::Busy),
        (fixture!("garbage.sse"), Then::End, Kind::BadResponse),
        (fixture!("truncated.sse"), Then::End, Kind::StreamInterrupted),
        (fixture!("truncated.sse"), Then::Abort, Kind::StreamInterrupted),
        (fixture!("truncated.sse"), Then::Hang, Kind::StreamInterrupted),
    ] {
        let fake = Fake::start([Reply::sse(text).cut(50).then(then)]).await;
        let outcome = run(&*model(&fake, json!({"stream_chunk_timeout": 0.3})), hello()).await;
        assert_eq!(outcome.text(), "half an ans");
        assert_eq!(outcome.error().kind, kind);
    }
}
