//! What guards decide is in the journal of the run, in the order in which it happened, and without the arguments of calls.

use crate::support::World;
use deerflow_core::ThreadId;
use deerflow_core::ports::EventRepo;
use deerflow_store::{SqliteStore, StoreOptions};
use deerflow_testkit::{Turn, call};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// Journal rows of middlewares: event, who decided, what, and the tools it is about.
async fn decisions(world: &World) -> Vec<(String, Value)> {
    let store = SqliteStore::open(&world.path("data/deerflow.db"), StoreOptions::default()).await.unwrap();
    let rows = store.journal(&ThreadId::parse("t").unwrap(), None, 0, 1000).await.unwrap();
    store.close().await;
    let rows = rows.into_iter().filter(|row| row.row.category == "middleware");
    rows.map(|row| (row.row.event, row.row.content)).collect()
}

#[tokio::test]
async fn every_guard_that_steps_in_leaves_a_row() {
    let world = World::scripted_with(
        "guardrails:\n  enabled: true\n  provider: {use: allowlist, config: {denied_tools: [glob]}}\n\
         human_in_the_loop:\n  interrupt_on: {write_file: true}\n\
         loop_detection: {warn_threshold: 2, hard_limit: 3}\n",
    )
    .await;
    let path = "/mnt/user-data/workspace";
    let secret = json!({"description": "d", "pattern": "*secret*", "path": path});
    world.model().push(Turn::calls([call("glob", secret)]));
    let write = json!({"description": "d", "path": format!("{path}/a.txt"), "content": "secret"});
    world.model().push(Turn::calls([call("write_file", write)]));
    world.run(&["run", "go", "--thread", "t"]).await.expect_code(3);
    for _ in 0..3 {
        world.model().push(Turn::calls([call("ls", json!({"description": "secret", "path": path}))]));
    }
    world.run(&["resume", "t", "--answer", "reject"]).await.expect_code(0);
    world.model().push(
        Turn::calls([call("ls", json!({"description": "secret", "path": path}))]).finish_reason("content_filter"),
    );
    world.run(&["run", "more", "--thread", "t"]).await.expect_code(0);
    let rows = decisions(&world).await;
    assert!(!json!(rows).to_string().contains("secret"), "{rows:?}");
    let shown: Vec<_> = rows.iter().map(|(event, row)| (event.as_str(), row["action"].as_str().unwrap())).collect();
    assert_eq!(
        shown,
        [
            ("middleware:guardrail", "deny_tool_call"),
            ("middleware:human_in_the_loop", "decide"),
            ("middleware:loop_detection", "warn"),
            ("middleware:loop_detection", "stop"),
            ("middleware:safety_termination", "suppress_tool_calls"),
        ]
    );
    let changes = |n: usize| &rows[n].1["changes"];
    assert_eq!((&changes(0)["tool_name"], &changes(0)["allow"]), (&json!("glob"), &json!(false)));
    assert_eq!(changes(1)["decisions"][0]["decision"], "reject");
    assert_eq!(changes(4)["suppressed_tool_call_names"], json!(["ls"]));
}
