use crate::fake::{Fake, Reply, ask, chunks, delta, finish, hello, run};
use deerflow_core::{Content, ContentBlock, Message, ToolSpec};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::sync::Arc;

/// BR-031
#[tokio::test]
async fn characters_cut_into_single_bytes_arrive_whole() {
    let text = chunks(&[
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"content": "你好"})),
        delta(json!({"content": "😀\u{2028}"})),
        finish("stop"),
    ]);
    for size in [1, 3, 7, 10_000] {
        let fake = Fake::start([Reply::sse(&text).cut(size)]).await;
        let outcome = run(&*fake.model("openai", json!({})), hello()).await;
        assert_eq!(outcome.text(), "你好😀\u{2028}");
        let message = outcome.message();
        assert_eq!((message.text(), message.finish_reason()), ("你好😀\u{2028}".into(), Some("stop")));
        assert_eq!(message.response_metadata["model_name"], "fake-1");
        let bearer = ("/v1/chat/completions".to_owned(), "Bearer sk-secret-1".to_owned());
        assert_eq!(fake.path_and_header("authorization"), bearer);
    }
}

#[tokio::test]
async fn a_tool_loop_replays_calls_results_and_thinking() {
    let first = chunks(&[
        delta(json!({"reasoning_content": "I need "})),
        delta(json!({"reasoning_content": "two looks"})),
        delta(
            json!({"tool_calls": [{"index": 0, "id": "call_a", "type": "function", "function": {"name": "bash", "arguments": ""}}]}),
        ),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"command\":"}}]})),
        delta(
            json!({"tool_calls": [{"index": 1, "id": "call_b", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]}),
        ),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"ls\"}"}}]})),
        finish("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
            "prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 2}}}),
    ]);
    let second = chunks(&[delta(json!({"content": "done"})), finish("stop")]);
    let fake = Fake::start([Reply::sse(&first).cut(11), Reply::sse(&second)]).await;
    let model = fake.model("deepseek", json!({"supports_thinking": true}));
    let tool =
        Arc::new(ToolSpec { name: "bash".into(), description: "runs".into(), parameters: json!({"type": "object"}) });
    let mut request = hello();
    request.system = Some("be good".into());
    request.tools = vec![tool];
    request.thinking = true;

    let turn = run(&*model, request.clone()).await.message();
    let usage = turn.as_ai().unwrap().usage_metadata.clone().unwrap();
    assert_eq!((usage.input_tokens, usage.cache_read(), usage.reasoning(), usage.total_tokens), (9, 8, 2, 13));
    let names: Vec<_> = turn.tool_calls().iter().map(|call| (call.id(), Value::Object(call.args.clone()))).collect();
    assert_eq!(names, [("call_a", json!({"command": "ls"})), ("call_b", json!({}))]);

    // The second result is missing, as after a stop.
    request.messages.extend([Arc::new(turn), Arc::new(Message::tool("a.txt", "call_a", "bash"))]);
    assert_eq!(run(&*model, request).await.message().text(), "done");
    let bodies = fake.bodies();
    assert_eq!(
        bodies[1]["messages"],
        json!([
            {"role": "system", "content": "be good"},
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": null, "reasoning_content": "I need two looks", "tool_calls": [
                {"id": "call_a", "type": "function", "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}},
                {"id": "call_b", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
            ]},
            {"role": "tool", "tool_call_id": "call_a", "content": "a.txt"},
            {"role": "tool", "tool_call_id": "call_b", "content": "Error: the call was interrupted and returned no result."}
        ])
    );
    // The prefix is what the provider caches.
    assert_eq!(bodies[1]["messages"].as_array().unwrap()[..2], bodies[0]["messages"].as_array().unwrap()[..]);
    assert_eq!(
        (&bodies[0]["thinking"], &bodies[0]["stream_options"]),
        (&json!({"type": "enabled"}), &json!({"include_usage": true}))
    );
}

#[tokio::test]
async fn images_are_sent_to_models_that_see_and_named_to_those_that_do_not() {
    let picture = || {
        ask(vec![Message::human(Content::Blocks(vec![
            ContentBlock::Text("what is it?".into()),
            ContentBlock::ImageUrl("data:image/png;base64,AA==".into()),
        ]))])
    };
    let reply = || Reply::sse(&chunks(&[delta(json!({"content": "a cat"})), finish("stop")]));
    let fake = Fake::start([reply(), reply()]).await;
    run(&*fake.model("openai", json!({"supports_vision": true})), picture()).await.message();
    run(&*fake.model("openai", json!({})), picture()).await.message();
    let bodies = fake.bodies();
    assert_eq!(
        bodies[0]["messages"][0]["content"],
        json!([{"type": "text", "text": "what is it?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}])
    );
    assert_eq!(
        bodies[1]["messages"][0]["content"],
        json!("what is it?\n\n[image left out: this model cannot see images]")
    );
}

#[tokio::test]
async fn a_reply_that_comes_whole_is_understood_whether_asked_for_or_not() {
    let whole = json!({"model": "fake-1", "choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": "hi"}}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}});
    let fake = Fake::start([Reply::json(200, &whole).cut(5), Reply::json(200, &whole)]).await;
    for extra in [json!({"stream": false}), json!({})] {
        let outcome = run(&*fake.model("openai", extra), hello()).await;
        assert_eq!(outcome.text(), "hi");
        assert_eq!(outcome.message().as_ai().unwrap().usage_metadata.as_ref().unwrap().total_tokens, 2);
    }
    assert_eq!((&fake.bodies()[0]["stream"], fake.bodies()[0].get("stream_options")), (&json!(false), None));
}

#[tokio::test]
async fn a_stream_without_done_is_complete_once_its_finish_reason_came() {
    let text = format!("data: {}\n\ndata: {}", delta(json!({"content": "all"})), finish("stop"));
    let fake = Fake::start([Reply::sse(&text).cut(9)]).await;
    assert_eq!(run(&*fake.model("vllm", json!({})), hello()).await.message().text(), "all");
}

#[tokio::test]
async fn a_text_that_is_a_call_is_a_call() {
    let pieces: Vec<Value> =
        ["<tool_", "call>{\"name\": \"bash\", ", "\"arguments\": {\"command\": \"ls\"}}", "</tool_call>"]
            .iter()
            .map(|piece| delta(json!({"content": piece})))
            .chain([finish("stop")])
            .collect();
    let fake = Fake::start([Reply::sse(&chunks(&pieces))]).await;
    let tool = ToolSpec { name: "bash".into(), description: String::new(), parameters: json!({}) };
    let mut request = hello();
    request.tools = vec![Arc::new(tool)];
    let outcome = run(&*fake.model("ollama", json!({})), request).await;
    assert_eq!(outcome.text(), "");
    assert_eq!(outcome.message().tool_calls()[0].args["command"], "ls");
}
