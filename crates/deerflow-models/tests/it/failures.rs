use crate::fake::{Fake, Reply, Then, chunks, delta, finish, hello, run, run_until};
use deerflow_core::{ModelErrorKind as Kind, ModelEvent};
use futures::StreamExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn error_replies_say_what_can_be_done() {
    let message = |text: &str| json!({"error": {"message": text}});
    let cases: Vec<(Reply, Kind)> = vec![
        (Reply::json(401, &message("Incorrect API key provided: sk-secret-1")), Kind::Auth),
        (Reply::json(404, &message("The model `fake` does not exist")), Kind::UnknownModel),
        (Reply::new(404, "text/plain", "404 page not found"), Kind::BadRequest),
        (Reply::json(429, &message("Rate limit reached")).header("retry-after", "7"), Kind::Busy),
        (Reply::json(429, &json!({"error": {"code": "insufficient_quota", "message": "m"}})), Kind::Quota),
        (Reply::new(500, "text/html", "<h1>Internal Server Error</h1>"), Kind::Transient),
        (Reply::json(400, &message("maximum context length is 8192 tokens")), Kind::ContextLength),
        (Reply::new(302, "text/plain", "").header("location", "https://elsewhere.example/v1"), Kind::BadRequest),
        (Reply::new(200, "text/html", "<html><body>Welcome</body></html>"), Kind::BadResponse),
    ];
    let (replies, kinds): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    let fake = Fake::start(replies).await;
    let model = fake.model("openai", json!({}));
    for kind in kinds {
        let error = run(&*model, hello()).await.error();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains("model `main` at 127.0.0.1:"), "{error}");
        assert!(!error.to_string().contains("sk-secret-1"), "{error}");
        assert_eq!(
            error.retry_after,
            (error.status == Some(429) && kind == Kind::Busy).then(|| Duration::from_secs(7))
        );
        if error.status == Some(302) {
            assert!(error.hint.unwrap().contains("https://elsewhere.example/v1"));
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_or_falls_silent_is_interrupted_after_what_came() {
    let text = format!("data: {}\n\n", delta(json!({"content": "half"})));
    for then in [Then::End, Then::Abort, Then::Hang] {
        let fake = Fake::start([Reply::sse(&text).then(then)]).await;
        let outcome = run(&*fake.model("openai", json!({"stream_chunk_timeout": 0.3})), hello()).await;
        assert_eq!(outcome.text(), "half");
        let error = outcome.error();
        assert_eq!(error.kind, Kind::StreamInterrupted, "{error}");
        if matches!(then, Then::Hang) {
            assert!(error.message.contains("fell silent for 0.3 s"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_lingers_after_the_end_of_the_turn_is_no_failure() {
    let text = format!("data: {}\n\ndata: {}\n\n", delta(json!({"content": "all"})), finish("stop"));
    for then in [Then::Abort, Then::Hang] {
        let fake = Fake::start([Reply::sse(&text).then(then)]).await;
        let outcome = run(&*fake.model("openai", json!({"stream_chunk_timeout": 0.2})), hello()).await;
        assert_eq!(outcome.message().text(), "all");
    }
}

#[tokio::test]
async fn no_reply_at_all_is_an_interruption_and_a_closed_port_is_unreachable() {
    // Accepts connections into its backlog and never answers.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let model = |provider: &str, port: u16| {
        let base = format!("http://127.0.0.1:{port}/v1");
        let profile =
            json!({"name": "m", "use": provider, "model": "x", "base_url": base, "stream_chunk_timeout": 0.2});
        deerflow_models::create_chat_model(&serde_json::from_value(profile).unwrap(), &|_| None).unwrap()
    };
    let port = deaf.local_addr().unwrap().port();
    let providers = ["openai", "anthropic", "gemini"];
    for provider in providers {
        let error = run(&*model(provider, port), hello()).await.error();
        assert_eq!(error.kind, Kind::StreamInterrupted, "{error}");
    }
    drop(deaf);
    for provider in providers {
        let error = run(&*model(provider, port), hello()).await.error();
        assert_eq!(error.kind, Kind::Unreachable, "{error}");
        assert!(error.hint.unwrap().contains("is the server running?"));
    }
}

#[tokio::test]
async fn the_bound_of_the_whole_exchange_holds_while_pieces_keep_coming() {
    let fake = Fake::start([Reply::sse(": keep-alive\n\n").then(Then::Hang)]).await;
    let error = run(&*fake.model("openai", json!({"timeout": 0.2})), hello()).await.error();
    assert_eq!(error.kind, Kind::StreamInterrupted);
    assert!(error.message.contains("no complete reply within 0.2 s"), "{error}");
}

/// BR-018
#[tokio::test]
async fn garbage_and_errors_within_a_stream_reach_the_caller_after_what_came() {
    let good = delta(json!({"content": "half"}));
    let cases = [
        (format!("data: {good}\n\ndata: {{\"choi\n\n"), Kind::BadResponse),
        (format!("data: {good}\n\ndata: {{\"error\":{{\"message\":\"Overloaded\"}}}}\n\n"), Kind::Busy),
        (format!("data: {good}\n\n{{\"error\":{{\"message\":\"server busy\"}}}}\n"), Kind::Busy),
        (format!("data: {good}\n\nevent: error\ndata: {{\"message\":\"quota exceeded\"}}\n\n"), Kind::Quota),
    ];
    for (text, kind) in cases {
        for size in [1, 10_000] {
            let fake = Fake::start([Reply::sse(&text).cut(size)]).await;
            let outcome = run(&*fake.model("openai", json!({})), hello()).await;
            assert_eq!(outcome.text(), "half");
            assert_eq!(outcome.error().kind, kind, "{text}");
        }
    }
}

#[tokio::test]
async fn an_empty_reply_can_be_tried_again() {
    for reply in [Reply::sse("data: [DONE]\n\n"), Reply::json(200, &json!({"choices": []}))] {
        let fake = Fake::start([reply]).await;
        assert_eq!(run(&*fake.model("openai", json!({})), hello()).await.error().kind, Kind::Transient);
    }
}

#[tokio::test]
async fn cancelling_and_dropping_close_the_connection() {
    let text = format!("data: {}\n\n", delta(json!({"content": "half"})));
    let mut fake = Fake::start([Reply::sse(&text).then(Then::Hang), Reply::sse(&text).then(Then::Hang)]).await;
    let model = fake.model("openai", json!({}));

    let cancel = CancellationToken::new();
    let mut stream = model.stream(hello(), cancel.clone());
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Delta(_)))));
    cancel.cancel();
    assert_eq!(stream.next().await.unwrap().unwrap_err().kind, Kind::Cancelled);
    assert!(stream.next().await.is_none());
    fake.client_gone().await;

    let mut stream = model.stream(hello(), CancellationToken::new());
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Delta(_)))));
    drop(stream);
    fake.client_gone().await;
}

#[tokio::test]
async fn a_call_that_was_cancelled_before_it_began_sends_nothing() {
    let fake = Fake::start([]).await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = run_until(&*fake.model("openai", json!({})), hello(), cancel).await;
    assert_eq!(outcome.error().kind, Kind::Cancelled);
    assert_eq!(fake.bodies(), Vec::<Value>::new());
}

/// BR-008
#[tokio::test]
async fn a_filtered_reply_without_text_is_a_turn_and_does_not_poison_the_next_request() {
    let filtered = chunks(&[delta(json!({"content": ""})), finish("content_filter")]);
    let answer = chunks(&[delta(json!({"content": "ok"})), finish("stop")]);
    let fake = Fake::start([Reply::sse(&filtered), Reply::sse(&answer)]).await;
    let model = fake.model("openai", json!({}));
    let turn = run(&*model, hello()).await.message();
    assert_eq!((turn.text(), turn.finish_reason()), ("".into(), Some("content_filter")));
    let mut next = hello();
    next.messages.push(turn.into());
    next.messages.push(deerflow_core::Message::human("again").into());
    run(&*model, next).await.message();
    assert_eq!(fake.bodies()[1]["messages"][1], json!({"role": "assistant", "content": "(no text)"}));
}
