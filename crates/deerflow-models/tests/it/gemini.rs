//! What of Gemini's interface needs more than one request.

use crate::fake::{Fake, Reply, ask, hello, run};
use deerflow_core::{ChatRequest, Message, ModelErrorKind, ToolSpec};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::sync::Arc;

fn reply(parts: Value) -> Reply {
    let candidate = json!({"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0});
    Reply::sse(&format!("data: {}\n\n", json!({"candidates": [candidate]})))
}

fn call(name: &str) -> Value {
    json!({"functionCall": {"name": name, "args": {}}})
}

fn with_tools(mut request: ChatRequest, names: &[&str]) -> ChatRequest {
    let tool = |name: &&str| ToolSpec { name: (*name).into(), description: String::new(), parameters: json!({}) };
    request.tools = names.iter().map(|name| Arc::new(tool(name))).collect();
    request
}

#[tokio::test]
async fn the_key_is_a_header_and_a_login_is_a_bearer_token() {
    let fake = Fake::start([reply(json!([{"text": "hi"}])), reply(json!([{"text": "hi"}]))]).await;
    run(&*fake.model("gemini", json!({})), hello()).await.message();
    let path = "/v1/models/fake:streamGenerateContent?alt=sse".to_owned();
    assert_eq!(fake.path_and_header("x-goog-api-key"), (path, "sk-secret-1".to_owned()));
    assert_eq!(fake.path_and_header("authorization").1, "");
    run(&*fake.model("gemini", json!({"api_key": "ya29.login"})), hello()).await.message();
    assert_eq!(fake.path_and_header("authorization").1, "Bearer ya29.login");
    assert_eq!(fake.path_and_header("x-goog-api-key").1, "");
}

#[tokio::test]
async fn ids_that_are_invented_are_the_same_for_the_same_request_and_never_come_again_in_the_thread() {
    let step = || reply(json!([call("now"), call("now")]));
    let fake = Fake::start([step(), step(), step(), reply(json!([{"text": "done"}]))]).await;
    let model = fake.model("gemini", json!({}));
    let mut request = with_tools(hello(), &["now"]);
    let first = run(&*model, request.clone()).await.message();
    let again = run(&*model, request.clone()).await.message();
    assert_eq!(first.tool_calls(), again.tool_calls());
    let mut seen: Vec<String> = Vec::new();
    let mut turn = first;
    for _ in 0..2 {
        let ids: Vec<String> = turn.tool_calls().iter().map(|call| call.id().to_owned()).collect();
        assert_eq!(ids.len(), 2);
        request.messages.push(Arc::new(turn));
        request.messages.extend(ids.iter().map(|id| Arc::new(Message::tool("noon", id, "now"))));
        seen.extend(ids);
        turn = run(&*model, request.clone()).await.message();
    }
    let all: std::collections::HashSet<&String> = seen.iter().collect();
    assert_eq!(all.len(), 4, "{seen:?}");
    let sent = &fake.bodies()[3]["contents"];
    let of = |content: usize, kind: &str| -> Vec<String> {
        let parts = sent[content]["parts"].as_array().unwrap();
        parts.iter().map(|part| part[kind]["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!([of(1, "functionCall"), of(3, "functionCall")].concat(), seen);
    assert_eq!([of(2, "functionResponse"), of(4, "functionResponse")].concat(), seen);
}

/// BR-012
#[tokio::test]
async fn a_thread_goes_on_when_its_signatures_are_no_longer_taken() {
    let corrupted =
        json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "Corrupted thought signature."}});
    let signed = json!([{"functionCall": {"name": "now", "args": {}, "id": "a"}, "thoughtSignature": "U0lH"}]);
    let fake = Fake::start([
        reply(signed),
        Reply::json(400, &corrupted),
        reply(json!([{"text": "noon"}])),
        Reply::json(400, &corrupted),
    ])
    .await;
    let model = fake.model("gemini", json!({"model": "gemini-3-pro"}));
    let mut request = with_tools(hello(), &["now"]);
    let turn = run(&*model, request.clone()).await.message();
    request.messages.push(Arc::new(turn));
    request.messages.push(Arc::new(Message::tool("12:00", "a", "now")));
    assert_eq!(run(&*model, request).await.text(), "noon");
    let signature = |body: usize| fake.bodies()[body]["contents"][1]["parts"][0]["thoughtSignature"].clone();
    assert_eq!((signature(1), signature(2)), (json!("U0lH"), json!("skip_thought_signature_validator")));
    // Where there is nothing to leave out the refusal stands.
    assert_eq!(run(&*model, ask(vec![Message::human("q")])).await.error().kind, ModelErrorKind::BadRequest);
    assert_eq!(fake.bodies().len(), 4);
}

#[tokio::test]
async fn a_tool_whose_name_begins_with_a_digit_is_declared_and_called_all_the_same() {
    let fake = Fake::start([reply(json!([call("_3d_render"), call("_own")])), reply(json!([{"text": "ok"}]))]).await;
    let model = fake.model("gemini", json!({}));
    let mut request = with_tools(hello(), &["3d_render", "_own"]);
    let turn = run(&*model, request.clone()).await.message();
    let names: Vec<&str> = turn.tool_calls().iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["3d_render", "_own"]);
    request.messages.push(Arc::new(turn));
    run(&*model, request).await.message();
    let bodies = fake.bodies();
    let declared = &bodies[0]["tools"][0]["functionDeclarations"];
    assert_eq!((&declared[0]["name"], &declared[1]["name"]), (&json!("_3d_render"), &json!("_own")));
    assert_eq!(bodies[1]["contents"][1]["parts"][0]["functionCall"]["name"], "_3d_render");
    assert_eq!(bodies[1]["contents"][2]["parts"][0]["functionResponse"]["name"], "_3d_render");
}

/// Signatures belong to texts and calls as they were; what a middleware changed since goes back without.
#[tokio::test]
async fn a_turn_that_was_changed_since_keeps_the_signatures_of_what_is_left() {
    let parts = json!([
        {"text": "secret", "thoughtSignature": "VA=="},
        {"functionCall": {"name": "now", "args": {}, "id": "a"}, "thoughtSignature": "QQ=="},
        {"functionCall": {"name": "now", "args": {}, "id": "b"}, "thoughtSignature": "Qg=="}
    ]);
    let fake = Fake::start([reply(parts), reply(json!([{"text": "ok"}]))]).await;
    let model = fake.model("gemini", json!({"model": "gemini-3-pro"}));
    let mut request = with_tools(hello(), &["now"]);
    let mut turn = run(&*model, request.clone()).await.message();
    turn.content = "[redacted]".into();
    turn.as_ai_mut().unwrap().tool_calls.remove(0);
    request.messages.push(Arc::new(turn));
    run(&*model, request).await.message();
    assert_eq!(
        fake.bodies()[1]["contents"][1]["parts"],
        json!([
            {"text": "[redacted]"},
            {"functionCall": {"id": "b", "name": "now", "args": {}}, "thoughtSignature": "Qg=="}
        ])
    );
}
