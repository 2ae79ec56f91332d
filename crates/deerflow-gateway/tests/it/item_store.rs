//! Values beside threads.

use crate::support::{Gateway, answer};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

#[tokio::test]
async fn a_value_is_kept_found_and_deleted() {
    let gateway = Gateway::start().await;
    let put = async |namespace: Value, key: &str, value: Value| {
        gateway
            .put("/api/store/items", &json!({"namespace": namespace, "key": key, "value": value, "index": false}))
            .await
    };
    assert_eq!(put(json!(["users", "ada"]), "a", json!({"n": 1, "t": "x"})).await.0, 204);
    assert_eq!(put(json!(["users", "bob"]), "b", json!({"n": 2})).await.0, 204);
    assert_eq!(put(json!(["other"]), "c", json!({"n": 3})).await.0, 204);
    let (status, item) = gateway.get("/api/store/items?namespace=users.ada&key=a").await;
    assert_eq!(
        (status, &item["namespace"], &item["value"]),
        (200, &json!(["users", "ada"]), &json!({"n": 1, "t": "x"}))
    );
    assert!(item["created_at"].as_str().unwrap().ends_with("+00:00"));
    let none = (404, json!({"detail": "Item not found"}));
    assert_eq!(gateway.get("/api/store/items?namespace=users.ada&key=none").await, none);

    let keys = async |body: Value| {
        let (status, found) = gateway.post("/api/store/items/search", &body).await;
        assert_eq!(status, 200, "{found}");
        found["items"].as_array().unwrap().iter().map(|i| i["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys(json!({"namespace_prefix": ["users"], "query": "anything"})).await, ["b", "a"]);
    assert_eq!(keys(json!({"namespace_prefix": [], "filter": {"n": {"$gte": 2}}, "limit": 1})).await, ["c"]);
    assert_eq!(keys(json!({"namespace_prefix": [], "offset": 2})).await, ["a"]);
    assert_eq!(
        gateway.post("/api/store/namespaces", &json!({"prefix": ["users"], "limit": 100, "offset": 0})).await,
        (200, json!({"namespaces": [["users", "ada"], ["users", "bob"]]}))
    );
    let (_, cut) = gateway.post("/api/store/namespaces", &json!({"max_depth": 1})).await;
    assert_eq!(cut, json!({"namespaces": [["other"], ["users"]]}));

    let gone = gateway.client.delete(format!("{}/api/store/items", gateway.url));
    assert_eq!(answer(gone.json(&json!({"namespace": ["users", "ada"], "key": "a"}))).await.0, 204);
    assert_eq!(gateway.get("/api/store/items?namespace=users.ada&key=a").await, none);

    for (namespace, key, value) in [
        (json!([]), "k", json!({})),
        (json!(["a.b"]), "k", json!({})),
        (json!([""]), "k", json!({})),
        (json!("users"), "k", json!({})),
        (json!(["a"]), &*"k".repeat(300), json!({})),
        (json!(["a"]), "k", json!([1])),
        (json!(["a"]), "k", json!({"x": "y".repeat(1 << 20)})),
    ] {
        let (status, body) = put(namespace.clone(), key, value).await;
        assert_eq!(status, 422, "{namespace} {body}");
    }
    assert_eq!(gateway.post("/api/store/items/search", &json!({"filter": {"n": {"$no": 1}}})).await.0, 422);
    assert_eq!(gateway.post("/api/store/items/search", &json!({"limit": 0})).await.0, 422);
    assert_eq!(gateway.get("/api/store/items?namespace=a").await.0, 422);
}
