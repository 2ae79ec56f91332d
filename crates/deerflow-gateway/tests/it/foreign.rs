//! What belongs to somebody else is not there.

use crate::support::Gateway;
use deerflow_core::ports::ThreadRepo as _;
use deerflow_core::{JsonMap, ThreadId, UserId};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

#[tokio::test]
async fn every_thread_route_hides_other_users_threads() {
    let gateway = Gateway::start().await;
    let (other, id) = (UserId::parse("other").unwrap(), ThreadId::parse("theirs").unwrap());
    let metadata = JsonMap::from_iter([("secret".to_owned(), json!(1))]);
    let (before, _) = gateway.store.create_thread(&other, &id, metadata).await.unwrap();
    let (_, document) = gateway.get("/openapi.json").await;
    let body = json!({
        "metadata": {"x": 1}, "values": {"title": "x"}, "checkpoint": {}, "objective": "x", "message_id": "m",
        "messages": [{"role": "user", "content": "x"}], "content": "x", "expected_sha256": "0".repeat(64),
    });
    let mut seen = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        if !path.contains("{thread_id}") || path.contains("crons") {
            continue;
        }
        let url = path
            .replace("{thread_id}", "theirs")
            .replace("{checkpoint_id}", "c")
            .replace("{filename}", "f")
            .replace("{path}", "mnt/user-data/outputs/a");
        // Unlike the others, these take no key that they do not know.
        let body = if path.contains("/runs") {
            match path.rsplit('/').next() {
                Some("prepare") => json!({"message_id": "m", "human_message_id": "m", "replacement_text": "x"}),
                Some("feedback") => json!({"rating": 1}),
                _ => json!({"input": {"messages": [{"role": "user", "content": "x"}]}}),
            }
        } else {
            body.clone()
        };
        let url = url.replace("{run_id}", "r").replace("{feedback_id}", "f");
        for method in item.as_object().unwrap().keys() {
            let answer = match method.as_str() {
                "get" => gateway.get(&url).await,
                "post" => gateway.post(&url, &body).await,
                "put" => gateway.put(&url, &body).await,
                "patch" => gateway.patch(&url, &body).await,
                "delete" => gateway.delete(&url).await,
                other => panic!("{other}"),
            };
            let expected = if url.ends_with("/history") {
                (200, json!([]))
            } else {
                (404, json!({"detail": "Thread theirs not found"}))
            };
            assert_eq!(answer, expected, "{method} {url}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
    assert_eq!(gateway.post("/api/threads", &json!({"thread_id": "theirs"})).await.0, 404);
    assert_eq!(gateway.post("/api/threads/search", &json!({"ids": ["theirs"]})).await, (200, json!([])));
    assert_eq!(gateway.post("/api/threads/count", &json!({})).await, (200, json!(0)));
    assert_eq!(gateway.post("/api/threads/prune", &json!({"thread_ids": ["theirs"]})).await.1["pruned_count"], 0);
    let search = gateway.post("/api/threads/search", &json!({"values": {}, "metadata": {"secret": 1}})).await;
    assert_eq!(search.1, Value::Array(Vec::new()));
    assert_eq!(gateway.store.thread(&other, &id).await.unwrap(), Some(before));
    assert!(!gateway.home.path().join("users/default/threads/theirs").exists());
}
