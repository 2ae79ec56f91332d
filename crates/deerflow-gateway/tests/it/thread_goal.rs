//! Goals, compaction and branches.

use crate::support::Gateway;
use deerflow_testkit::Turn;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

#[tokio::test]
async fn a_goal_is_set_shown_and_ended() {
    let gateway = Gateway::start().await;
    assert_eq!(gateway.get("/api/threads/t/goal").await, (200, json!({"goal": null})));
    assert_eq!(gateway.delete("/api/threads/t/goal").await, (200, json!({"goal": null})));
    let (status, set) =
        gateway.put("/api/threads/t/goal", &json!({"objective": " a\n report ", "max_continuations": 2})).await;
    assert_eq!(status, 200, "{set}");
    assert_eq!((&set["goal"]["objective"], &set["goal"]["max_continuations"]), (&json!("a report"), &json!(2)));
    assert_eq!((&set["goal"]["status"], &set["goal"]["continuation_count"]), (&json!("active"), &json!(0)));
    assert_eq!(gateway.get("/api/threads/t/goal").await, (200, set));
    assert_eq!(gateway.delete("/api/threads/t/goal").await, (200, json!({"goal": null})));
    assert_eq!(gateway.get("/api/threads/t/goal").await, (200, json!({"goal": null})));

    let long = "x".repeat(4001);
    for (body, kind) in [
        (json!({"objective": " "}), "string_too_short"),
        (json!({"objective": long}), "string_too_long"),
        (json!({"objective": "x", "max_continuations": 9}), "less_than_equal"),
        (json!({}), "missing"),
    ] {
        let (status, refused) = gateway.put("/api/threads/t2/goal", &body).await;
        assert_eq!((status, &refused["detail"][0]["type"]), (422, &json!(kind)));
    }
    assert_eq!(gateway.get("/api/threads/t2").await.0, 404);
    gateway.put("/api/threads/t/goal", &json!({"objective": "x"})).await;
    gateway.occupy("t").await;
    let busy = json!({"detail": "Thread has a run in flight. Clear the goal after the run finishes."});
    assert_eq!(gateway.delete("/api/threads/t/goal").await, (409, busy));
    assert_eq!(gateway.put("/api/threads/t/goal", &json!({"objective": "y"})).await.0, 409);
}

fn talk(turns: usize) -> Value {
    let turn = |n: usize| {
        [
            json!({"type": "human", "content": format!("question {n}"), "id": format!("h{n}")}),
            json!({"type": "ai", "content": format!("answer {n}"), "id": format!("a{n}")}),
        ]
    };
    (0..turns).flat_map(turn).collect()
}

#[tokio::test]
async fn a_long_conversation_makes_room_for_a_summary() {
    let gateway = Gateway::start().await;
    gateway.thread("t", json!({"messages": talk(20)})).await;
    gateway.model.push_auxiliary(Turn::text("what was said before"));
    let body = json!({"keep": {"type": "messages", "value": 4}, "model_name": "scripted"});
    let (status, done) = gateway.post("/api/threads/t/compact", &body).await;
    assert_eq!(status, 200, "{done}");
    assert_eq!(
        (&done["compacted"], &done["reason"], &done["summary_updated"]),
        (&json!(true), &Value::Null, &json!(true))
    );
    assert_eq!((&done["removed_message_count"], &done["preserved_message_count"]), (&json!(36), &json!(4)));
    let (_, state) = gateway.get("/api/threads/t/state").await;
    assert_eq!(
        (&state["checkpoint_id"], state["values"]["messages"].as_array().unwrap().len()),
        (&done["checkpoint_id"], 4)
    );
    assert_eq!(state["values"]["summary_text"], "what was said before");

    let (_, again) = gateway.post("/api/threads/t/compact", &body).await;
    assert_eq!((&again["compacted"], &again["reason"]), (&json!(false), &json!("not_enough_messages")));
    assert_eq!(gateway.post("/api/threads/none/compact", &json!({})).await.0, 404);
    assert_eq!(
        gateway.post("/api/threads/t/compact", &json!({"keep": {"type": "messages", "value": -1}})).await.0,
        422
    );
    assert_eq!(gateway.post("/api/threads/t/compact", &json!({"model_name": "none"})).await.0, 422);
    gateway.occupy("t").await;
    assert_eq!(gateway.post("/api/threads/t/compact", &json!({})).await.0, 409);
}

#[tokio::test]
async fn a_branch_goes_on_from_an_answer() {
    let gateway = Gateway::start().await;
    gateway.thread("t", json!({"messages": talk(1), "title": "T"})).await;
    let more = json!({"values": {"messages": talk(2)}, "as_node": "__end__"});
    gateway.post("/api/threads/t/state", &more).await;
    std::fs::create_dir_all(gateway.folder("t").join("user-data/workspace")).unwrap();
    std::fs::write(gateway.folder("t").join("user-data/workspace/a.txt"), "a").unwrap();
    let messages = async |id: &Value| {
        let state = gateway.get(&format!("/api/threads/{}/state", id.as_str().unwrap())).await.1;
        let ids = state["values"]["messages"].as_array().unwrap().iter().map(|m| m["id"].clone()).collect::<Vec<_>>();
        (json!(ids), state["values"]["title"].clone())
    };

    let (status, last) = gateway.post("/api/threads/t/branches", &json!({"message_id": "a1", "title": "Other"})).await;
    assert_eq!(status, 200, "{last}");
    assert_eq!(last["workspace_clone_mode"], "current_thread_best_effort");
    assert_eq!(messages(&last["thread_id"]).await, (json!(["h0", "a0", "h1", "a1"]), json!("Other")));
    let id = last["thread_id"].as_str().unwrap();
    assert!(gateway.folder(id).join("user-data/workspace/a.txt").exists());
    let (_, row) = gateway.get(&format!("/api/threads/{id}")).await;
    assert_eq!(row["metadata"]["branch_parent_thread_id"], "t");
    assert_eq!(row["metadata"]["branch_parent_message_id"], "a1");

    let (_, first) = gateway.post("/api/threads/t/branches", &json!({"message_id": "a0", "message_ids": ["a0"]})).await;
    assert_eq!(
        (&first["workspace_clone_mode"], &first["history_seed_mode"]),
        (&json!("skipped_historical_turn"), &json!("seeded"))
    );
    assert_eq!(messages(&first["thread_id"]).await, (json!(["h0", "a0"]), json!("T")));

    let gone = json!({"detail": "This turn can no longer be branched from."});
    for id in ["h0", "none"] {
        assert_eq!(gateway.post("/api/threads/t/branches", &json!({"message_id": id})).await, (409, gone.clone()));
    }
    assert_eq!(gateway.post("/api/threads/t/branches", &json!({"message_id": ""})).await.0, 422);
    assert_eq!(gateway.post("/api/threads/none/branches", &json!({"message_id": "a"})).await.0, 404);
    gateway.patch("/api/threads/t", &json!({"metadata": {"deerflow_sidecar": true}})).await;
    let sidecar = json!({"detail": "Branching is only available in the main conversation."});
    assert_eq!(gateway.post("/api/threads/t/branches", &json!({"message_id": "a1"})).await, (409, sidecar));
}
