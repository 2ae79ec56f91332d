//! The client against a server on loopback.

#![expect(clippy::unwrap_used, reason = "test code")]

use axum::{Router, http::StatusCode, routing::get};
use deerflow_net::{BodyError, HttpOptions, ProxyRules, http_client, read_limited};
use std::time::Duration;
use tokio::net::TcpListener;

async fn serve(router: Router) -> (String, tokio::task::JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
    (base, tasks)
}

#[tokio::test]
async fn loopback_is_reached_directly_whatever_the_proxy_variables_say() {
    let (base, _tasks) = serve(Router::new().route("/", get(|| async { "hello" }))).await;
    // Nothing listens at the discard port: a request that goes to the proxy fails.
    let proxy = ProxyRules::from_lookup(&|name| name.ends_with("_proxy").then(|| "http://127.0.0.1:9".to_owned()));
    let client = http_client(&HttpOptions { proxy, ..HttpOptions::default() }).unwrap();
    let reply = client.get(&base).send().await.unwrap();
    assert_eq!(reply.text().await.unwrap(), "hello");
}

#[tokio::test]
async fn other_hosts_go_through_the_proxy() {
    let (base, _tasks) = serve(Router::new().fallback(get(|| async { "from the proxy" }))).await;
    let proxy = ProxyRules::from_lookup(&|name| (name == "http_proxy").then(|| base.clone()));
    let client = http_client(&HttpOptions { proxy, ..HttpOptions::default() }).unwrap();
    let reply = client.get("http://model.invalid/v1").send().await.unwrap();
    assert_eq!(reply.text().await.unwrap(), "from the proxy");
}

#[tokio::test]
async fn a_client_without_tls_talks_plain_http_and_trusts_no_one() {
    let (base, _tasks) = serve(Router::new().route("/", get(|| async { "hello" }))).await;
    let client = http_client(&HttpOptions { tls: false, ..HttpOptions::default() }).unwrap();
    assert_eq!(client.get(&base).send().await.unwrap().text().await.unwrap(), "hello");
    assert!(client.get(base.replace("http:", "https:")).send().await.is_err());
}

#[tokio::test]
async fn a_redirect_is_not_followed_by_default() {
    let moved = || async { (StatusCode::FOUND, [("location", "http://elsewhere.invalid/")], "") };
    let (base, _tasks) = serve(Router::new().route("/", get(moved))).await;
    let client = http_client(&HttpOptions::default()).unwrap();
    assert_eq!(client.get(&base).send().await.unwrap().status(), 302);
}

#[tokio::test]
async fn a_body_is_read_up_to_its_bound_and_not_beyond() {
    let (base, _tasks) = serve(Router::new().route("/", get(|| async { "x".repeat(100) }))).await;
    let client = http_client(&HttpOptions { total_timeout: Some(Duration::from_secs(20)), ..HttpOptions::default() });
    let client = client.unwrap();
    let get = || async { client.get(&base).send().await.unwrap() };
    assert_eq!(read_limited(get().await, 100).await.unwrap().len(), 100);
    assert!(matches!(read_limited(get().await, 99).await, Err(BodyError::TooLarge { limit: 99 })));
}
