//! Conversations: listed, shown, deleted, and small.

use crate::support::World;
use deerflow_testkit::{Turn, call};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

#[tokio::test]
async fn threads_are_listed_shown_and_deleted_with_their_files() {
    let world = World::scripted().await;
    let ran = world.run(&["threads", "list"]).await.expect_code(0);
    assert_eq!(ran.stdout.trim(), "no threads yet");
    world.model().push(Turn::calls([call(
        "write_file",
        json!({"description": "d", "path": "/mnt/user-data/outputs/a.md", "content": "x"}),
    )]));
    world.model().push(Turn::calls([call("present_files", json!({"filepaths": ["/mnt/user-data/outputs/a.md"]}))]));
    world.model().push(Turn::text("made a"));
    let ran = world.run(&["run", "make a", "--thread", "t1"]).await.expect_code(0);
    let file = world.path("users/default/threads/t1/user-data/outputs/a.md");
    assert!(ran.stdout.contains(file.to_str().unwrap()), "without --output it says where the file is: {}", ran.stdout);
    let list: Vec<Value> = serde_json::from_str(&world.run(&["threads", "list", "--json"]).await.stdout).unwrap();
    assert_eq!(
        (list[0]["thread_id"].as_str(), list[0]["title"].as_str(), list[0]["status"].as_str()),
        (Some("t1"), Some("make a"), Some("idle"))
    );
    let shown = world.run(&["threads", "show", "t1"]).await.expect_code(0).stdout;
    assert!(
        shown.contains("you  make a") && shown.contains("→ write_file outputs/a.md") && shown.contains("agent  made a"),
        "{shown}"
    );
    assert!(!shown.contains("system-reminder"), "{shown}");
    let ran = world.run(&["threads", "delete", "t1"]).await.expect_code(2);
    assert!(ran.stderr.contains("--yes"), "{}", ran.stderr);
    world.run(&["threads", "delete", "t1", "--yes"]).await.expect_code(0);
    assert!(!world.path("users/default/threads/t1").exists());
    world.run(&["threads", "show", "t1"]).await.expect_code(2);
}

#[tokio::test]
async fn json_lines_tell_a_whole_run() {
    let world = World::scripted().await;
    world
        .model()
        .push(Turn::calls([call("ls", json!({"description": "d", "path": "/mnt/user-data/workspace"}))]).usage(10, 5));
    world.model().push(Turn::text("nothing there").usage(20, 7));
    let (ran, end) = world.run_json(&["look", "--thread", "t"]).await;
    let lines = ran.expect_code(0).json_lines();
    let mut kinds: Vec<&str> = lines.iter().map(|l| l["type"].as_str().unwrap()).collect();
    kinds.dedup();
    assert_eq!(kinds.first(), Some(&"run_started"));
    assert_eq!(kinds.last(), Some(&"run_finished"));
    for kind in ["model_started", "model_delta", "message", "tool_started", "tool_finished", "committed"] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    assert_eq!(end["status"], "success");
    assert_eq!(end["usage"]["total_tokens"], 42);
    assert_eq!(end["thread_id"], "t");
}

#[tokio::test]
async fn plan_mode_keeps_a_plan_and_asks_to_finish_it() {
    let world = World::scripted().await;
    let todos = |status: &str| call("write_todos", json!({"todos": [{"content": "read", "status": status}]}));
    world.model().push(Turn::calls([todos("in_progress")]));
    world.model().push(Turn::text("I am done"));
    world.model().push(Turn::calls([todos("completed")]));
    world.model().push(Turn::text("now I am"));
    let (ran, end) = world.run_json(&["go", "--plan", "--thread", "t"]).await;
    ran.expect_code(0);
    assert_eq!(end["answer"], "now I am");
    let asked = world.model().agent_requests();
    assert!(asked[0].tool_names().contains(&"write_todos"));
    assert!(asked[2].last_user_text().contains("not completed"), "{}", asked[2].last_user_text());
    assert_eq!(world.state("t").await["todos"], json!([{"content": "read", "status": "completed"}]));
    world.model().assert_legal();
}
