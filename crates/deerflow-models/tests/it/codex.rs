//! The Codex service against frames written from what is public of it.

use crate::fake::{Fake, Reply, Then, ask, hello, run};
use deerflow_core::{
    ChatModel, ChatRequest, Content, ContentBlock, JsonMap, Message, ModelErrorKind as Kind, ToolCall, ToolSpec,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../fixtures/codex/", $name))
    };
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn log_in(folder: &Path, token: &str, account: &str) {
    let login = json!({"OPENAI_API_KEY": null, "tokens": {"access_token": token, "account_id": account}});
    std::fs::write(folder.join("auth.json"), login.to_string()).unwrap();
}

fn model(fake: &Fake, folder: &Path, extra: Value) -> Arc<dyn ChatModel> {
    let mut profile = json!({
        "name": "main", "use": "deerflow.models.openai_codex_provider:CodexChatModel", "model": "fake",
        "base_url": fake.base, "max_tokens": 4096
    });
    for (key, value) in extra.as_object().unwrap() {
        profile[key] = value.clone();
    }
    let env = |name: &str| (name == "CODEX_HOME").then(|| folder.display().to_string());
    deerflow_models::create_chat_model(&serde_json::from_value(profile).unwrap(), &env).unwrap()
}

fn tool() -> Arc<ToolSpec> {
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
    Arc::new(ToolSpec { name: "bash".into(), description: "Runs a command.".into(), parameters })
}

#[tokio::test]
async fn the_login_is_read_before_every_request() {
    let folder = tempfile::tempdir().unwrap();
    log_in(folder.path(), "token-one", "acc-1");
    let fake = Fake::start([Reply::sse(fixture!("plain.sse")).cut(9), Reply::sse(fixture!("plain.sse"))]).await;
    let model = model(&fake, folder.path(), json!({"stream": false}));
    let outcome = run(&*model, hello()).await;
    assert_eq!(outcome.text(), "Hi there, 你好😀");
    let message = outcome.message();
    assert_eq!((message.text(), message.finish_reason()), ("Hi there, 你好😀".into(), Some("stop")));
    assert_eq!(fake.bodies(), [value(fixture!("plain.request.json"))]);
    let sent = ("/v1/responses".to_owned(), "Bearer token-one".to_owned());
    assert_eq!(fake.path_and_header("authorization"), sent);
    assert_eq!(fake.path_and_header("chatgpt-account-id").1, "acc-1");
    // The CLI has renewed its login.
    log_in(folder.path(), "token-two", "acc-2");
    run(&*model, hello()).await.message();
    assert_eq!(fake.path_and_header("authorization").1, "Bearer token-two");
    assert_eq!(fake.path_and_header("chatgpt-account-id").1, "acc-2");
    // It has logged out.
    std::fs::remove_file(folder.path().join("auth.json")).unwrap();
    let error = run(&*model, hello()).await.error();
    assert_eq!(error.kind, Kind::Auth);
    assert!(error.hint.unwrap().contains("codex login"));
    assert_eq!(fake.bodies().len(), 2);
}

#[test]
fn without_a_login_there_is_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let profile = json!({"name": "main", "use": "codex", "model": "fake"});
    let env = |name: &str| (name == "CODEX_HOME").then(|| folder.path().display().to_string());
    let made = deerflow_models::create_chat_model(&serde_json::from_value(profile).unwrap(), &env);
    let error = made.err().unwrap();
    assert_eq!(error.kind, Kind::Auth);
    assert!(error.to_string().contains("model `main`") && error.to_string().contains("codex login"), "{error}");
}

#[tokio::test]
async fn items_that_only_the_last_event_tells_fill_the_gaps_and_reasoning_goes_back() {
    let folder = tempfile::tempdir().unwrap();
    log_in(folder.path(), "token-one", "acc-1");
    let fake = Fake::start([Reply::sse(fixture!("tool_calls.sse")).cut(17), Reply::sse(fixture!("plain.sse"))]).await;
    let extra = json!({"supports_thinking": true, "supports_reasoning_effort": true, "reasoning_effort": "low"});
    let model = model(&fake, folder.path(), extra);
    let mut request = ChatRequest {
        system: Some("Be brief.".into()),
        tools: vec![tool()],
        thinking: true,
        reasoning_effort: Some("high".into()),
        ..hello()
    };
    request.messages.push(Arc::new(Message::system("Answer in English.")));
    let turn = run(&*model, request.clone()).await.message();
    let calls: Vec<_> = turn.tool_calls().iter().map(|call| (call.id(), call.args["command"].clone())).collect();
    assert_eq!(calls, [("call_a", json!("ls")), ("call_b", json!("pwd"))]);
    request.messages.extend([Arc::new(turn), Arc::new(Message::tool("a.txt", "call_a", "bash"))]);
    run(&*model, request).await.message();
    assert_eq!(fake.bodies()[1], value(fixture!("tool_calls.request.json")));
}

#[tokio::test]
async fn images_become_text() {
    let folder = tempfile::tempdir().unwrap();
    log_in(folder.path(), "token-one", "acc-1");
    let picture = || ContentBlock::ImageUrl("data:image/png;base64,AA==".into());
    let text = |text: &str| ContentBlock::Text(text.into());
    let request = ask(vec![
        Message::human(Content::Blocks(vec![text("what is it?"), picture()])),
        Message::ai_calls("", vec![ToolCall::new("call_s", "screenshot", JsonMap::new())]),
        Message::tool(Content::Blocks(vec![text("taken"), picture()]), "call_s", "screenshot"),
    ]);
    let fake = Fake::start([Reply::sse(fixture!("plain.sse"))]).await;
    run(&*model(&fake, folder.path(), json!({"supports_vision": true})), request).await.message();
    assert_eq!(fake.bodies()[0], value(fixture!("images.request.json")));
}

#[tokio::test]
async fn bad_arguments_are_an_invalid_call_and_an_incomplete_reply_says_so() {
    let folder = tempfile::tempdir().unwrap();
    log_in(folder.path(), "token-one", "acc-1");
    let fake = Fake::start([Reply::sse(fixture!("bad_arguments.sse")), Reply::sse(fixture!("incomplete.sse"))]).await;
    let model = model(&fake, folder.path(), json!({}));
    let bad = run(&*model, hello()).await.message();
    let part = bad.as_ai().unwrap();
    assert_eq!((part.tool_calls.len(), part.invalid_tool_calls[0].id.as_deref()), (0, Some("call_x")));
    let cut = run(&*model, hello()).await.message();
    assert_eq!((cut.text(), cut.finish_reason()), ("half an ans".into(), Some("length")));
}

#[tokio::test]
async fn errors_say_how_to_log_in_and_how_long_to_wait() {
    let folder = tempfile::tempdir().unwrap();
    log_in(folder.path(), "token-one", "acc-1");
    let busy = || Reply::json(429, &value(fixture!("error_429.json")));
    let fake = Fake::start([
        Reply::json(401, &value(fixture!("error_401.json"))),
        busy(),
        Reply::json(500, &value(fixture!("error_500.json"))),
        Reply::json(529, &json!({"error": {"message": "overloaded for token-one"}})),
        busy().header("retry-after", "30"),
        Reply::json(429, &value(fixture!("usage_limit.json"))),
        Reply::sse(fixture!("plain.sse")),
        busy(),
    ])
    .await;
    let model = model(&fake, folder.path(), json!({}));
    let refused = run(&*model, hello()).await.error();
    assert_eq!((refused.kind, refused.retry_after), (Kind::Auth, None));
    assert!(refused.hint.unwrap().contains("codex login"));
    let mut waits = Vec::new();
    for _ in 0..4 {
        let error = run(&*model, hello()).await.error();
        assert!(error.kind.is_retriable() && !error.to_string().contains("token-one"), "{error}");
        waits.push(error.retry_after.map(|wait| wait.as_secs()));
    }
    assert_eq!(waits, [Some(2), Some(4), Some(8), Some(30)]);
    let limit = run(&*model, hello()).await.error();
    assert_eq!((limit.kind, limit.retry_after), (Kind::Quota, None), "{limit}");
    run(&*model, hello()).await.message();
    assert_eq!(run(&*model, hello()).await.error().retry_after, Some(Duration::from_secs(2)));
}

#[tokio::test]
async fn a_stream_without_its_last_event_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    log_in(folder.path(), "token-one", "acc-1");
    for (text, then, kind) in [
        (fixture!("truncated.sse"), Then::End, Kind::StreamInterrupted),
        (fixture!("truncated.sse"), Then::Hang, Kind::StreamInterrupted),
        (fixture!("garbage.sse"), Then::End, Kind::BadResponse),
    ] {
        let fake = Fake::start([Reply::sse(text).then(then)]).await;
        let outcome = run(&*model(&fake, folder.path(), json!({"stream_chunk_timeout": 0.3})), hello()).await;
        assert_eq!(outcome.text(), "half an ans");
        assert_eq!(outcome.error().kind, kind);
    }
}

#[tokio::test]
async fn what_was_recorded_is_replayed_without_a_login() {
    let folder = tempfile::tempdir().unwrap();
    log_in(folder.path(), "token-one", "acc-1");
    let tape = folder.path().join("tape.jsonl");
    let fake = Fake::start([Reply::sse(fixture!("plain.sse"))]).await;
    let live = run(&*model(&fake, folder.path(), json!({"record_to": tape})), hello()).await.message();
    assert!(!std::fs::read_to_string(&tape).unwrap().contains("token-one"));
    let profile = json!({"name": "again", "use": "replay", "model": "", "path": tape});
    let again = deerflow_models::create_chat_model(&serde_json::from_value(profile).unwrap(), &|_| None).unwrap();
    assert_eq!(run(&*again, hello()).await.message(), live);
}
