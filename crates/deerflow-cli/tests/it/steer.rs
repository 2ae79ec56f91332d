//! Telling a run something while it works, from another process.

use crate::support::{World, story};
use deerflow_testkit::{Gate, Request, Turn, call};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn look() -> Turn {
    Turn::calls([call("ls", json!({"description": "d", "path": "/mnt/user-data/workspace"}))])
}

/// `role: text` of the last messages of a request.
fn tail(request: &Request, count: usize) -> Vec<String> {
    let messages = request.messages();
    let text = |m: &Value| m["content"].as_str().map_or_else(|| m["content"].to_string(), str::to_owned);
    messages[messages.len() - count..].iter().map(|m| format!("{}: {}", m["role"].as_str().unwrap(), text(m))).collect()
}

#[tokio::test]
async fn what_is_said_comes_after_the_tool_results_and_in_order() {
    let world = World::scripted().await;
    let gate = Gate::new();
    world.model().push(look().hold(&gate));
    world.model().push(Turn::text("done"));
    let running = world.spawn(&["run", "go", "--thread", "t", "--json"]);
    gate.reached().await;
    let said = world.run(&["steer", "t", "also the first"]).await.expect_code(0);
    assert!(said.stdout.contains("queued for the run of t"), "{}", said.stdout);
    world.run(&["steer", "t", "and the second"]).await.expect_code(0);
    gate.open();
    let ran = tokio::task::spawn_blocking(move || running.wait()).await.unwrap().expect_code(0);
    let requests = world.model().agent_requests();
    // What users say in a row is one message to a provider.
    let last = tail(&requests[1], 2);
    assert!(last[0].starts_with("tool: ") && last[1].starts_with("user: "), "{last:?}");
    let at = |text: &str| last[1].find(text).unwrap_or_else(|| panic!("{text} in {last:?}"));
    assert!(at("also the first") < at("and the second"), "{last:?}");
    let applied =
        ran.json_lines().into_iter().filter(|l| l["message"]["additional_kwargs"]["run_input_id"].is_string());
    assert_eq!(applied.count(), 2);
    world.model().assert_legal();
}

#[tokio::test]
async fn said_during_the_last_answer_it_gets_one_more_turn() {
    let world = World::scripted().await;
    let gate = Gate::new();
    world.model().push(Turn::text("first").hold(&gate));
    world.model().push(Turn::text("second"));
    let running = world.spawn(&["run", "go", "--thread", "t"]);
    gate.reached().await;
    world.run(&["steer", "t", "and more"]).await.expect_code(0);
    gate.open();
    let ran = tokio::task::spawn_blocking(move || running.wait()).await.unwrap().expect_code(0);
    assert!(ran.stderr.contains("» and more"), "{}", ran.stderr);
    assert_eq!(story(&world.state("t").await), ["human: go", "ai: first", "human: and more", "ai: second"]);
}

#[tokio::test]
async fn without_a_run_it_is_refused_with_what_to_do() {
    let world = World::scripted().await;
    world.model().push(Turn::text("done"));
    world.run(&["run", "go", "--thread", "t"]).await.expect_code(0);
    for thread in ["t", "nobody"] {
        let ran = world.run(&["steer", thread, "too late"]).await.expect_code(2);
        assert!(ran.stderr.contains("no live run") && ran.stderr.contains("deerflow run"), "{}", ran.stderr);
    }
    world.run(&["steer", "t", "  "]).await.expect_code(2);
    let gate = Gate::new();
    world.model().push(Turn::hang(&gate));
    let running = world.spawn(&["run", "go", "--thread", "t", "--json"]);
    gate.reached().await;
    running.kill();
    let ran = world.run(&["steer", "t", "anybody?"]).await.expect_code(2);
    assert!(ran.stderr.contains("deerflow resume t"), "{}", ran.stderr);
}

/// Killed before the input was applied, and again after: it is part of the conversation once.
#[tokio::test]
async fn killed_after_steering_it_is_applied_once() {
    let world = World::scripted().await;
    let (before, after) = (Gate::new(), Gate::new());
    world.model().push(Turn::hang(&before));
    let running = world.spawn(&["run", "go", "--thread", "t", "--json"]);
    before.reached().await;
    world.run(&["steer", "t", "and more"]).await.expect_code(0);
    running.kill();
    world.model().push(Turn::hang(&after));
    let running = world.spawn(&["resume", "t", "--json"]);
    after.reached().await;
    running.kill();
    world.model().push(Turn::text("done"));
    world.run(&["resume", "t"]).await.expect_code(0);
    assert_eq!(story(&world.state("t").await), ["human: go", "human: and more", "ai: done"]);
}

#[tokio::test]
async fn said_while_it_asks_it_is_part_of_the_next_run() {
    let world = World::scripted().await;
    let gate = Gate::new();
    world.model().push(
        Turn::calls([call("ask_clarification", json!({"question": "Which?", "options": ["a", "b"]}))]).hold(&gate),
    );
    let running = world.spawn(&["run", "go", "--thread", "t"]);
    gate.reached().await;
    world.run(&["steer", "t", "in blue"]).await.expect_code(0);
    gate.open();
    let ran = tokio::task::spawn_blocking(move || running.wait()).await.unwrap().expect_code(3);
    assert!(ran.stderr.contains("the next one of this thread gets it: in blue"), "{}", ran.stderr);
    world.model().push(Turn::text("done"));
    world.run(&["run", "a", "--thread", "t"]).await.expect_code(0);
    let story = story(&world.state("t").await);
    assert_eq!(story[story.len() - 3..], ["human: a", "human: in blue", "ai: done"]);
    world.model().assert_legal();
}

/// What was presented before the user said something more is handed over all the same.
#[tokio::test]
async fn files_from_before_are_delivered() {
    let world = World::scripted().await;
    let gate = Gate::new();
    let path = "/mnt/user-data/outputs/a.md";
    world.model().push(Turn::calls([call("write_file", json!({"description": "d", "path": path, "content": "x"}))]));
    world.model().push(Turn::calls([call("present_files", json!({"filepaths": [path]}))]));
    world.model().push(Turn::text("there").hold(&gate));
    world.model().push(Turn::text("thanks too"));
    let out = world.path("out");
    let running = world.spawn(&["run", "go", "--thread", "t", "--json", "-o", out.to_str().unwrap()]);
    gate.reached().await;
    world.run(&["steer", "t", "thanks"]).await.expect_code(0);
    gate.open();
    tokio::task::spawn_blocking(move || running.wait()).await.unwrap().expect_code(0);
    assert_eq!(std::fs::read_to_string(out.join("a.md")).unwrap(), "x");
}
