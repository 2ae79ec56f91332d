//! State, edits and history of threads.

use crate::support::Gateway;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn contents(state: &Value) -> Vec<&str> {
    state["values"]["messages"].as_array().unwrap().iter().map(|m| m["content"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_thread_without_steps_has_an_empty_state() {
    let gateway = Gateway::start().await;
    gateway.post("/api/threads", &json!({"thread_id": "t"})).await;
    let (status, state) = gateway.get("/api/threads/t/state").await;
    assert_eq!(status, 200);
    let empty = json!({"messages": [], "artifacts": [], "viewed_images": {}, "delegations": [], "skill_context": []});
    assert_eq!((&state["values"], &state["next"], &state["tasks"]), (&empty, &json!([]), &json!([])));
    assert_eq!(state["checkpoint"]["checkpoint_id"], state["checkpoint_id"]);
    // The id of that state is one that every route takes.
    let id = state["checkpoint_id"].as_str().unwrap().to_owned();
    let (status, again) = gateway.get(&format!("/api/threads/t/state/{id}?subgraphs=false")).await;
    assert_eq!((status, &again), (200, &state));
    assert_eq!(gateway.post("/api/threads/t/history", &json!({"before": id})).await, (200, json!([])));
    let write = json!({"values": {"title": "first"}, "checkpoint": state["checkpoint"]});
    assert_eq!(gateway.post("/api/threads/t/state", &write).await.1["values"]["title"], "first");
    assert_eq!(gateway.get("/api/threads/t").await.1["values"]["title"], "first");
}

#[tokio::test]
async fn reducers_apply_to_edits_and_old_checkpoints_can_be_edited() {
    let gateway = Gateway::start().await;
    gateway.thread("t", json!({"messages": [{"type": "human", "content": "a", "id": "1"}], "title": "T"})).await;
    let (_, first) = gateway.get("/api/threads/t/state").await;
    assert_eq!((contents(&first), &first["metadata"]["source"]), (vec!["a"], &json!("update")));

    let add = json!({"values": {"messages": [{"role": "assistant", "content": "b", "id": "2"}]}, "as_node": "model"});
    let (status, second) = gateway.post("/api/threads/t/state", &add).await;
    assert_eq!((status, contents(&second)), (200, vec!["a", "b"]));
    assert_eq!(second["parent_checkpoint"]["checkpoint_id"], first["checkpoint_id"]);
    assert_eq!((&second["next"], &second["tasks"][0]["name"]), (&json!(["after_agent"]), &json!("after_agent")));
    assert_eq!(gateway.get("/api/threads/t").await.1["status"], "interrupted");
    let replace =
        json!({"values": {"messages": [{"role": "assistant", "content": "B", "id": "2"}]}, "as_node": "__end__"});
    assert_eq!(contents(&gateway.post("/api/threads/t/state", &replace).await.1), ["a", "B"]);

    // A branch from the first.
    let branch = json!({"values": {"messages": "c"}, "checkpoint_id": first["checkpoint_id"]});
    let (_, branched) = gateway.post("/api/threads/t/state", &branch).await;
    assert_eq!(contents(&branched), ["a", "c"]);
    assert_eq!(gateway.get("/api/threads/t/state").await.1, branched);
    let old = second["checkpoint_id"].as_str().unwrap();
    assert_eq!(contents(&gateway.get(&format!("/api/threads/t/state/{old}")).await.1), ["a", "b"]);
    let at = json!({"checkpoint": second["checkpoint"], "select": ["values.messages", "next"]});
    let (_, at) = gateway.post("/api/threads/t/state/checkpoint", &at).await;
    assert_eq!((contents(&at), at.as_object().unwrap().len()), (vec!["a", "b"], 2));
    let only = gateway.get("/api/threads/t/state?select=next&select=values.title").await.1;
    assert_eq!(only, json!({"next": [], "values": {"title": "T"}}));
}

#[tokio::test]
async fn a_write_that_does_not_fit_changes_nothing() {
    let gateway = Gateway::start().await;
    gateway.thread("t", json!({"messages": "a"})).await;
    let (_, before) = gateway.get("/api/threads/t/state").await;
    let write = async |body: Value| gateway.post("/api/threads/t/state", &body).await;
    assert_eq!(
        write(json!({"values": {"b": 1, "a": 2, "title": "x"}})).await,
        (422, json!({"detail": "Unknown thread-state field(s): a, b"}))
    );
    let place = async |body: Value| {
        let (status, body) = write(body).await;
        assert_eq!(status, 422, "{body}");
        body["detail"][0]["loc"].clone()
    };
    assert_eq!(place(json!({"values": {"title": 7}})).await, json!(["body", "values", "title"]));
    assert_eq!(
        write(json!({"values": {"messages": [{"type": "alien"}]}})).await,
        (400, json!({"detail": "Invalid message at values.messages[0]: unknown role \"alien\""}))
    );
    assert_eq!(place(json!({"values": "text"})).await, json!(["body", "values"]));
    assert_eq!(place(json!({"values": {}, "as_node": "nobody"})).await, json!(["body", "as_node"]));
    assert_eq!(place(json!({"values": {}, "checkpoint_id": "../x"})).await, json!(["body", "checkpoint_id"]));
    assert_eq!(place(json!({"values": {}, "checkpoint": {"checkpoint_ns": "task:1"}})).await[2], "checkpoint_ns");
    assert_eq!(write(json!({"values": {"messages": [{"type": "remove", "id": "none", "content": ""}]}})).await.0, 422);
    let unknown = write(json!({"values": {}, "checkpoint_id": "nowhere"})).await;
    assert_eq!(unknown, (404, json!({"detail": "Checkpoint nowhere not found"})));
    assert_eq!(gateway.get("/api/threads/t/state").await.1, before);

    for (path, body) in [("state", json!({"values": {}})), ("state/checkpoint", json!({"checkpoint": {}}))] {
        let none = gateway.post(&format!("/api/threads/none/{path}"), &body).await;
        assert_eq!(none, (404, json!({"detail": "Thread none not found"})), "{path}");
    }
    assert_eq!(gateway.get("/api/threads/none/state").await.0, 404);
    assert_eq!(gateway.get("/api/threads/t/state/nowhere").await.0, 404);
    assert_eq!(gateway.get("/api/threads/a%20b/state").await.1["detail"][0]["loc"], json!(["path", "thread_id"]));

    gateway.occupy("t").await;
    let busy = write(json!({"values": {"title": "x"}})).await;
    assert_eq!(busy, (409, json!({"detail": "Thread has a run in flight. Update state after the run finishes."})));
    assert_eq!(gateway.get("/api/threads/t").await.1["status"], "busy");
}

#[tokio::test]
async fn history_is_paged_and_one_entry_has_no_checkpoint() {
    let gateway = Gateway::start().await;
    let said = json!([
        {"type": "human", "content": "q", "id": "1", "additional_kwargs": {"run_id": "r1"}},
        {"type": "ai", "content": "a", "id": "2"},
    ]);
    gateway.thread("t", json!({"messages": said})).await;
    for title in ["one", "two", "three"] {
        gateway.post("/api/threads/t/state", &json!({"values": {"title": title}})).await;
    }
    let history = async |body: Value| {
        let (status, body) = gateway.post("/api/threads/t/history", &body).await;
        assert_eq!(status, 200, "{body}");
        body.as_array().unwrap().clone()
    };
    let all = history(json!({})).await;
    let titles: Vec<&Value> = all.iter().map(|entry| &entry["values"]["title"]).collect();
    assert_eq!(titles, [&json!("three"), &json!("two"), &json!("one"), &Value::Null]);
    assert_eq!(
        all[0]["parent_checkpoint"],
        json!({
            "thread_id": "t", "checkpoint_ns": "", "checkpoint_id": all[1]["checkpoint_id"], "checkpoint_map": null,
        })
    );
    assert_eq!(all[0]["values"]["messages"][1]["run_id"], "r1");
    assert_eq!(all[0]["values"]["messages"][0]["run_id"], Value::Null);

    // Both ways to say where the page begins, and it begins after that one.
    for before in [all[1]["checkpoint_id"].clone(), all[1]["checkpoint"].clone()] {
        let page = history(json!({"limit": 2, "before": before})).await;
        assert_eq!(
            page.iter().map(|e| &e["checkpoint_id"]).collect::<Vec<_>>(),
            [&all[2]["checkpoint_id"], &all[3]["checkpoint_id"]]
        );
    }
    assert_eq!(history(json!({"metadata": {"step": all[2]["metadata"]["step"]}})).await.len(), 1);
    assert_eq!(history(json!({"metadata": {"source": "input"}})).await.len(), 0);
    assert_eq!(
        history(json!({"limit": 2, "select": ["values.title"]})).await[0],
        json!({"values": {"title": "three"}})
    );

    let one = history(json!({"limit": 1})).await;
    let keys: Vec<&String> = one[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["values", "next", "metadata", "checkpoint_id", "parent_checkpoint_id", "created_at"]);
    assert_eq!(one[0]["metadata"], json!({"step": all[0]["metadata"]["step"]}));
    assert_eq!(gateway.post("/api/threads/none/history", &json!({})).await, (200, json!([])));
    assert_eq!(gateway.post("/api/threads/t/history", &json!({"limit": 101})).await.0, 422);
    assert_eq!(gateway.post("/api/threads/t/history", &json!({"before": "nowhere"})).await.0, 404);
    assert_eq!(gateway.post("/api/threads/t/history", &json!({"before": 7})).await.0, 422);
}
