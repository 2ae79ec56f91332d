//! Threads.

use crate::support::Gateway;
use pretty_assertions::assert_eq;
use serde_json::json;

#[tokio::test]
async fn a_thread_is_made_once_and_found() {
    let gateway = Gateway::start().await;
    let body = json!({"thread_id": "t1", "metadata": {"kind": "test", "user_id": "me", "owner_id": "me"}, "ttl": null});
    let (status, made) = gateway.post("/api/threads", &body).await;
    assert_eq!((status, &made["thread_id"], &made["status"]), (200, &json!("t1"), &json!("idle")));
    assert_eq!((&made["metadata"], &made["values"]), (&json!({"kind": "test"}), &json!({})));
    assert_eq!(gateway.post("/api/threads", &json!({"thread_id": "t1"})).await, (200, made));
    let (_, other) = gateway.post("/api/threads", &json!({})).await;

    let (_, found) = gateway.post("/api/threads/search", &json!({"metadata": {"kind": "test"}})).await;
    assert_eq!(found.as_array().map(Vec::len), Some(1));
    let (_, all) =
        gateway.post("/api/langgraph/threads/search", &json!({"sort_by": "created_at", "sort_order": "asc"})).await;
    assert_eq!((&all[0]["thread_id"], &all[1]["thread_id"]), (&json!("t1"), &other["thread_id"]));
}

#[tokio::test]
async fn what_does_not_fit_is_named() {
    let gateway = Gateway::start().await;
    let entry = |answer: (u16, serde_json::Value)| {
        assert_eq!(answer.0, 422, "{}", answer.1);
        answer.1["detail"][0].clone()
    };
    let search = async |body| entry(gateway.post("/api/threads/search", &body).await);
    assert_eq!(
        search(json!({"limit": 0})).await,
        json!({"type": "greater_than_equal", "loc": ["body", "limit"], "msg": "Input should be greater than or equal to 1", "input": 0})
    );
    assert_eq!(search(json!({"limit": 1001})).await["type"], "less_than_equal");
    assert_eq!(
        search(json!({"limit": "x"})).await["msg"],
        "Input should be a valid integer, unable to parse string as an integer"
    );
    assert_eq!(
        search(json!({"metadata": []})).await,
        json!({"type": "dict_type", "loc": ["body", "metadata"], "msg": "Input should be a valid dictionary", "input": []})
    );
    assert_eq!(search(json!({"ids": ["ok", "../x"]})).await["loc"], json!(["body", "ids", 1]));
    assert_eq!(search(json!([])).await["type"], "dict_type");
    let raw = |text: &'static str| gateway.client.post(format!("{}/api/threads", gateway.url)).body(text);
    assert_eq!(entry(crate::support::answer(raw("{\"a\":")).await)["type"], "json_invalid");
    assert_eq!(entry(crate::support::answer(raw("\"text\"")).await)["type"], "dict_type");
    assert_eq!(
        entry(gateway.post("/api/threads", &json!({"thread_id": "a/b"})).await)["loc"],
        json!(["body", "thread_id"])
    );
}
