//! Telling a client's server that a run has ended.

use super::bench::{Bench, caller, say};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use deerflow_runtime::runs::{CreateError, RunsConfig};
use deerflow_testkit::{Turn, within};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::mpsc;

/// Fails the first call.
async fn receive(State(hook): State<Arc<(AtomicU32, mpsc::Sender<Value>)>>, Json(body): Json<Value>) -> StatusCode {
    if hook.0.fetch_add(1, Ordering::Relaxed) == 0 {
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    hook.1.send(body).await.unwrap();
    StatusCode::OK
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the server ends with the test")]
async fn a_webhook_gets_the_run_and_is_tried_again() {
    let bench = Bench::start_with(RunsConfig { webhook_private_addresses: true, ..RunsConfig::default() }).await;
    let (sender, mut calls) = mpsc::channel(4);
    let app = Router::new().route("/hook", post(receive)).with_state(Arc::new((AtomicU32::new(0), sender)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    bench.model.push(Turn::text("hello"));
    let mut request = say("t", "hi");
    request.facts.webhook = Some(url);
    let run = bench.ended(request).await;
    let body = within("the webhook", calls.recv()).await.unwrap();
    assert_eq!((&body["run_id"], &body["status"]), (&Value::from(run.run_id.as_str()), &"success".into()));
    let messages = body["values"]["messages"].as_array().unwrap();
    assert_eq!(messages.last().unwrap()["content"], "hello");
}

#[tokio::test]
async fn a_webhook_to_this_side_is_refused() {
    let bench = Bench::start().await;
    let mut request = say("t", "hi");
    request.facts.webhook = Some("http://127.0.0.1:9/".into());
    let error = bench.runs.create(&caller(), request).await.unwrap_err();
    assert!(matches!(error, CreateError::BadOption { field: "webhook", .. }), "{error}");
}
