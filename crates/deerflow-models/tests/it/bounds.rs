//! Providers that never stop, and providers that never start.

use crate::fake::{Fake, Outcome, Reply, chunks, delta, events, finish, hello, run};
use bytes::Bytes;
use deerflow_core::{ModelError, ModelErrorKind as Kind};
use deerflow_models::{Transport, WireRequest, WireResponse, create_chat_model_over};
use deerflow_net::reqwest::header::{HeaderMap, HeaderValue};
use futures::future::BoxFuture;
use futures::{StreamExt as _, stream};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Says the first text, and then the second for ever, with a pause between.
struct Endless {
    kind: &'static str,
    first: String,
    again: Bytes,
    pause: Duration,
}

impl Transport for Endless {
    fn send(&self, _: WireRequest) -> BoxFuture<'_, Result<WireResponse, ModelError>> {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static(self.kind));
        let (again, pause) = (self.again.clone(), self.pause);
        let rest = stream::repeat(again).then(move |bytes| async move {
            tokio::time::sleep(pause).await;
            Ok(bytes)
        });
        let body = stream::iter([Ok(Bytes::from(self.first.clone()))]).chain(rest).boxed();
        Box::pin(std::future::ready(Ok(WireResponse { status: 200, headers, body })))
    }
}

async fn endless(provider: &str, kind: &'static str, first: &str, again: String, pause: Duration) -> Outcome {
    let profile = json!({"name": "m", "use": provider, "model": "x", "api_key": "key-1", "base_url": "http://h/v1",
        "stream_chunk_timeout": 60});
    let transport = Endless { kind, first: first.to_owned(), again: again.into(), pause };
    let profile = serde_json::from_value(profile).unwrap();
    let model = create_chat_model_over(&profile, &|_| None, Arc::new(transport)).unwrap();
    run(&*model, hello()).await
}

const SSE: &str = "text/event-stream";
const MIB: usize = 1024 * 1024;

fn openai(piece: Value) -> String {
    format!("data: {}\n\n", delta(piece))
}

#[tokio::test]
async fn a_reply_that_never_ends_is_cut_at_16_mib_of_text_thinking_and_arguments() {
    let long = "x".repeat(MIB);
    let call = json!({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": long}}]});
    let block = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    let grow = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": long}});
    let cases = [
        ("openai", String::new(), openai(json!({"content": long}))),
        ("openai", String::new(), openai(json!({"content": &long[..MIB / 2], "reasoning_content": &long[..MIB / 2]}))),
        ("openai", String::new(), openai(call)),
        ("anthropic", events(&[block]), events(&[grow])),
    ];
    for (provider, first, again) in cases {
        let outcome = endless(provider, SSE, &first, again, Duration::ZERO).await;
        let size = |delta: &deerflow_core::MessageDelta| {
            let args: usize = delta.tool_calls.iter().filter_map(|call| call.args.as_ref()).map(String::len).sum();
            delta.text.len() + delta.reasoning.len() + args
        };
        let size: usize = outcome.deltas.iter().map(size).sum();
        assert!((16 * MIB..=17 * MIB).contains(&size), "{size}");
        let error = outcome.error();
        assert_eq!(error.kind, Kind::BadResponse);
        assert!(error.message.contains("the reply is larger than 16 MiB"), "{error}");
    }
}

#[tokio::test]
async fn a_stream_of_comments_without_a_pause_is_cut_too() {
    let comment = format!(": {}\n", "x".repeat(MIB));
    let error = endless("openai", SSE, "", comment, Duration::ZERO).await.error();
    assert_eq!(error.kind, Kind::BadResponse);
    assert!(error.message.contains("the stream of the reply is larger than 128 MiB"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn keep_alives_do_not_hold_a_run_for_ever() {
    let cases = [
        ("openai", SSE, ": OPENROUTER PROCESSING\n\n".to_owned()),
        ("openai", SSE, openai(json!({"role": "assistant", "content": ""}))),
        ("openai", "application/json", "\n".to_owned()),
        ("anthropic", SSE, events(&[json!({"type": "ping"})])),
    ];
    for (provider, kind, again) in cases {
        let outcome = endless(provider, kind, "", again, Duration::from_secs(30)).await;
        let error = outcome.error();
        assert_eq!(error.kind, Kind::StreamInterrupted);
        assert!(error.message.contains("nothing but keep-alives for 600 s"), "{error}");
    }
    // Content starts the time anew, and after the end of the turn nothing does.
    let some = openai(json!({"content": "half"}));
    let outcome = endless("openai", SSE, &some, ": wait\n\n".to_owned(), Duration::from_secs(30)).await;
    assert_eq!((outcome.text(), outcome.error().kind), ("half".to_owned(), Kind::StreamInterrupted));
    let all = some + &format!("data: {}\n\n", finish("stop"));
    let outcome = endless("openai", SSE, &all, ": wait\n\n".to_owned(), Duration::from_secs(1)).await;
    assert_eq!(outcome.message().text(), "half");
}

#[tokio::test]
async fn a_character_cut_in_two_and_an_odd_number_do_not_cost_the_reply() {
    let text = chunks(&[delta(json!({"content": "a<1>"})), delta(json!({"content": "<2>b<1>c"})), finish("stop")])
        .replace("<1>", "\\ud83d")
        .replace("<2>", "\\ude00")
        .replace("data: [DONE]", "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1e400}}\n\ndata: [DONE]");
    let whole =
        r#"{"choices":[{"message":{"content":"x\ud83dy"},"finish_reason":"stop"}],"usage":{"total_tokens":1e400}}"#;
    let fake = Fake::start([Reply::sse(&text).cut(7), Reply::new(200, "application/json", whole)]).await;
    let model = fake.model("openai", json!({}));
    let outcome = run(&*model, hello()).await;
    assert_eq!(outcome.text(), "a😀b\u{fffd}c");
    let message = outcome.message();
    assert_eq!((message.text(), message.as_ai().unwrap().usage_metadata.clone()), ("a😀b\u{fffd}c".into(), None));
    assert_eq!(run(&*model, hello()).await.message().text(), "x\u{fffd}y");
}
