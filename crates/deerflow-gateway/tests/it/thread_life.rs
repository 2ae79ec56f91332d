//! Threads from beginning to end.

use crate::support::Gateway;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

#[tokio::test]
async fn a_thread_can_be_insisted_on_and_begin_with_writes() {
    let gateway = Gateway::start().await;
    let steps = json!([
        {"updates": [{"values": {"messages": [{"type": "human", "content": "hi"}]}, "as_node": "__input__"}]},
        {"updates": [{"command": {"update": {"title": "T"}}}]},
    ]);
    let body =
        json!({"thread_id": "t", "supersteps": steps, "ttl": {"ttl": 5, "strategy": "delete"}, "if_exists": "raise"});
    let (status, made) = gateway.post("/api/threads", &body).await;
    assert_eq!(
        (status, &made["values"]["title"], &made["values"]["messages"][0]["content"]),
        (200, &json!("T"), &json!("hi"))
    );
    assert_eq!(gateway.post("/api/threads", &body).await, (409, json!({"detail": "Thread t already exists"})));
    let again = json!({"thread_id": "t", "if_exists": "do_nothing"});
    assert_eq!(gateway.post("/api/threads", &again).await.0, 200);
    assert_eq!(gateway.post("/api/threads", &json!({"if_exists": "other"})).await.0, 422);
    // Nothing is made when one of the writes cannot be.
    for bad in
        [json!({"values": {"none": 1}}), json!({"command": {"resume": 1}}), json!({"values": {}, "as_node": "x"})]
    {
        let body = json!({"thread_id": "bad", "supersteps": [{"updates": [bad]}]});
        assert_eq!(gateway.post("/api/threads", &body).await.0, 422, "{body}");
        assert_eq!(gateway.get("/api/threads/bad").await.0, 404);
    }
}

#[tokio::test]
async fn metadata_is_merged_and_pinning_is_no_use() {
    let gateway = Gateway::start().await;
    let (_, made) = gateway.post("/api/threads", &json!({"thread_id": "t", "metadata": {"a": 1, "b": 2}})).await;
    let pinned = gateway.patch("/api/threads/t", &json!({"metadata": {"deerflow_pinned": true}})).await;
    assert_eq!((pinned.0, &pinned.1["updated_at"]), (200, &made["updated_at"]));
    let body = json!({"metadata": {"a": null, "b": 3, "user_id": "x"}, "ttl": 7});
    let (_, patched) = gateway.patch("/api/threads/t", &body).await;
    assert_eq!(patched["metadata"], json!({"b": 3, "deerflow_pinned": true}));
    assert!(patched["updated_at"].as_str() > made["updated_at"].as_str());
    let request = gateway.client.patch(format!("{}/api/threads/t", gateway.url)).header("Prefer", "return=minimal");
    let minimal = crate::support::answer(request.json(&json!({"metadata": {}}))).await;
    assert_eq!(minimal, (204, Value::String(String::new())));
    let (_, through) = gateway.patch("/api/threads/t/state", &json!({"metadata": {"c": true}})).await;
    assert_eq!(through["metadata"]["c"], true);
    assert_eq!(gateway.patch("/api/threads/none", &json!({"metadata": {}})).await.0, 404);
    assert_eq!(gateway.patch("/api/threads/t", &json!({"metadata": []})).await.0, 422);
}

#[tokio::test]
async fn deleting_takes_the_files_and_spares_a_live_run() {
    let gateway = Gateway::start().await;
    gateway.thread("t", json!({"title": "T"})).await;
    let file = gateway.folder("t").join("user-data/outputs/a.txt");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "a").unwrap();
    gateway.occupy("busy").await;
    std::fs::create_dir_all(gateway.folder("busy")).unwrap();
    let busy = gateway.delete("/api/threads/busy").await;
    assert_eq!(busy, (409, json!({"detail": "Thread has work in flight. Delete it after the work finishes."})));
    assert!(gateway.folder("busy").exists());

    assert_eq!(gateway.delete("/api/threads/t").await, (200, json!({"success": true, "message": "Deleted thread t"})));
    assert!(!gateway.folder("t").exists());
    assert_eq!(gateway.delete("/api/threads/t").await, (404, json!({"detail": "Thread t not found"})));
    // Files that came before the thread was made.
    std::fs::create_dir_all(gateway.folder("early/user-data")).unwrap();
    assert_eq!(gateway.delete("/api/threads/early").await.0, 200);
    assert!(!gateway.folder("early").exists());

    gateway.thread("p1", json!({})).await;
    gateway.thread("p2", json!({})).await;
    let prune = json!({"thread_ids": ["p1", "p2", "busy", "none"], "strategy": "delete"});
    assert_eq!(gateway.post("/api/threads/prune", &prune).await, (200, json!({"pruned_count": 2})));
    assert_eq!(gateway.post("/api/threads/count", &json!({})).await, (200, json!(1)));
    let keep = json!({"thread_ids": ["busy"], "strategy": "keep_latest"});
    assert_eq!(gateway.post("/api/threads/prune", &keep).await, (200, json!({"pruned_count": 0})));
    let unknown = json!({"thread_ids": [], "strategy": "burn"});
    assert_eq!(gateway.post("/api/threads/prune", &unknown).await.1["detail"][0]["loc"], json!(["body", "strategy"]));
}

#[tokio::test]
async fn a_copy_has_history_and_files_of_its_own() {
    let gateway = Gateway::start().await;
    gateway.thread("t", json!({"title": "T", "messages": "hi"})).await;
    let file = gateway.folder("t").join("user-data/outputs/a.txt");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "a").unwrap();
    let (status, copy) = answer_empty(&gateway, "/api/threads/t/copy").await;
    assert_eq!((status, &copy["values"]["title"]), (200, &json!("T")));
    let id = copy["thread_id"].as_str().unwrap();
    gateway.post("/api/threads/t/state", &json!({"values": {"title": "changed"}})).await;
    std::fs::write(&file, "b").unwrap();
    assert_eq!(gateway.get(&format!("/api/threads/{id}/state")).await.1["values"]["title"], "T");
    let copied = std::fs::read_to_string(gateway.folder(id).join("user-data/outputs/a.txt"));
    assert_eq!(copied.unwrap(), "a");
    assert_eq!(answer_empty(&gateway, "/api/threads/none/copy").await.0, 404);
}

async fn answer_empty(gateway: &Gateway, path: &str) -> (u16, Value) {
    crate::support::answer(gateway.client.post(format!("{}{path}", gateway.url))).await
}

#[tokio::test]
async fn threads_are_found_by_what_is_in_them() {
    let gateway = Gateway::start().await;
    gateway.thread("a", json!({"title": "A", "messages": ["one", "two"]})).await;
    gateway.thread("b", json!({"title": "B"})).await;
    let search = async |body: Value| gateway.post("/api/threads/search", &body).await;
    let (_, found) = search(json!({"values": {"title": "B"}})).await;
    assert_eq!(found.as_array().unwrap().iter().map(|t| &t["thread_id"]).collect::<Vec<_>>(), [&json!("b")]);
    assert_eq!(gateway.post("/api/threads/count", &json!({"values": {"title": "A"}})).await.1, 1);
    assert_eq!(gateway.post("/api/threads/count", &json!({"status": "running"})).await.1, 0);

    let body = json!({
        "ids": ["a"], "select": ["thread_id"],
        "extract": {"last": "values.messages[-1].content", "none": "metadata.x", "title": "values.title"},
    });
    assert_eq!(
        search(body).await,
        (200, json!([{"thread_id": "a", "extracted": {"last": "two", "none": null, "title": "A"}}]))
    );
    let (_, shown) = search(json!({"sort_by": "thread_id", "sort_order": "asc"})).await;
    assert_eq!(shown[0]["values"], json!({"title": "A"}));
    assert_eq!(shown[0].get("extracted"), None);

    let place = async |body: Value| {
        let (status, body) = search(body).await;
        assert_eq!(status, 422, "{body}");
        body["detail"][0]["loc"].clone()
    };
    assert_eq!(place(json!({"metadata": {"a b": 1}})).await, json!(["body", "metadata", "a b"]));
    assert_eq!(place(json!({"metadata": {"a": {"b": 1}}})).await, json!(["body", "metadata", "a"]));
    assert_eq!(place(json!({"metadata": {"a": 18446744073709551615u64}})).await, json!(["body", "metadata", "a"]));
    assert_eq!(place(json!({"extract": {"x": "a..b"}})).await, json!(["body", "extract", "x"]));
    let many: serde_json::Map<String, Value> = (0..11).map(|n| (n.to_string(), json!("values.x"))).collect();
    assert_eq!(place(json!({"extract": many})).await, json!(["body", "extract"]));
}
