//! `kill -9` at every step boundary and inside calls: what resumes keeps the contract, and no thread is lost.

use crate::support::{World, story};
use deerflow_testkit::{Gate, Turn, call};
use pretty_assertions::assert_eq;
use serde_json::json;

fn write(n: u32) -> Turn {
    Turn::text_and_calls(
        format!("step {n}"),
        [call(
            "write_file",
            json!({"description": "w", "path": format!("/mnt/user-data/workspace/{n}.txt"), "content": format!("content {n}")}),
        )],
    )
}

fn expected(rounds: u32) -> Vec<String> {
    let mut story = vec!["human: go".to_owned()];
    for n in 1..=rounds {
        story.extend([format!("ai: step {n}"), "tool: OK".to_owned()]);
    }
    story.push("ai: done".to_owned());
    story
}

/// Killed while the model is asked for the n-th time: exactly at the boundary after n steps and inside the call.
#[tokio::test]
async fn killed_in_each_model_call_it_goes_on_where_it_was() {
    for killed_at in 0..=3u32 {
        let world = World::scripted().await;
        let gate = Gate::new();
        for n in 1..=killed_at {
            world.model().push(write(n));
        }
        world.model().push(Turn::hang(&gate));
        let running = world.spawn(&["run", "go", "--thread", "t", "--json"]);
        gate.reached().await;
        running.kill();
        for n in killed_at + 1..=3 {
            world.model().push(write(n));
        }
        world.model().push(Turn::text("done"));
        let ran = world.run(&["resume", "t"]).await.expect_code(0);
        assert!(ran.stderr.contains("was cut off"), "{}", ran.stderr);
        assert_eq!(story(&world.state("t").await), expected(3), "killed at {killed_at}");
        world.model().assert_legal();
        // The message of the lost attempt never shows.
        let again = world.run(&["resume", "t"]).await;
        assert_eq!(again.code, 2, "{}", again.stderr);
        assert!(again.stderr.contains("nothing to resume"), "{}", again.stderr);
    }
}

/// Killed while a command runs: it died with its server, is not run again, and the model is told so.
#[tokio::test]
async fn killed_inside_a_command_it_is_not_run_twice() {
    let world = World::scripted().await;
    let command = "echo once >> /mnt/user-data/workspace/log; sleep 60; echo twice >> /mnt/user-data/workspace/log";
    world.model().push(Turn::calls([call("bash", json!({"description": "d", "command": command}))]));
    let running = world.spawn(&["run", "go", "--thread", "t", "--json"]);
    running.wait_for("tool_started");
    let log = world.path("users/default/threads/t/user-data/workspace/log");
    deerflow_testkit::eventually("the command has begun", || async { log.exists().then_some(()) }).await;
    running.kill();
    world.model().push(Turn::text("done"));
    world.run(&["resume", "t"]).await.expect_code(0);
    let story = story(&world.state("t").await);
    assert!(story[2].contains("outcome unknown"), "{story:?}");
    assert_eq!(story[3], "ai: done");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "once\n");
}

/// A finished call survives a crash beside a slow sibling.
#[tokio::test]
async fn a_finished_call_beside_a_slow_one_is_kept() {
    let world = World::scripted().await;
    world.model().push(Turn::calls([
        call("bash", json!({"description": "d", "command": "sleep 60"})),
        call("bash", json!({"description": "d", "command": "echo quick >> /mnt/user-data/workspace/log; cat /mnt/user-data/workspace/log"})),
    ]));
    let running = world.spawn(&["run", "go", "--thread", "t", "--json"]);
    running.wait_for("tool_finished");
    // The result is stored right after it is told; the next tick is far behind that.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    running.kill();
    world.model().push(Turn::text("done"));
    world.run(&["resume", "t"]).await.expect_code(0);
    let story = story(&world.state("t").await);
    assert!(story[2].contains("outcome unknown"), "{story:?}");
    assert_eq!(story[3], "tool: quick");
    let log = std::fs::read_to_string(world.path("users/default/threads/t/user-data/workspace/log")).unwrap();
    assert_eq!(log, "quick\n");
}

/// A thread whose process died takes a new message as well; nothing dangles.
#[tokio::test]
async fn a_new_message_after_a_crash_is_legal_and_works() {
    let world = World::scripted().await;
    world.model().push(Turn::calls([call("bash", json!({"description": "d", "command": "sleep 60"}))]));
    let running = world.spawn(&["run", "go", "--thread", "t", "--json"]);
    running.wait_for("tool_started");
    running.kill();
    world.model().push(Turn::text("fine"));
    let ran = world.run(&["run", "continue", "--thread", "t"]).await.expect_code(0);
    assert!(ran.stdout.contains("fine"));
    world.model().assert_legal();
    world.model().assert_every_tool_call_answered();
}

#[tokio::test]
async fn ctrl_c_stops_cleanly_and_says_how_to_go_on() {
    let world = World::scripted().await;
    let gate = Gate::new();
    world.model().push(Turn::hang(&gate));
    let running = world.spawn(&["run", "go", "--thread", "t"]);
    gate.reached().await;
    running.signal("-INT");
    let ran = tokio::task::spawn_blocking(move || running.wait()).await.unwrap().expect_code(130);
    assert!(ran.stderr.contains("deerflow resume t"), "{}", ran.stderr);
    world.model().push(Turn::text("done"));
    world.run(&["resume", "t"]).await.expect_code(0);
    assert_eq!(story(&world.state("t").await), ["human: go", "ai: done"]);
}

#[tokio::test]
async fn a_second_process_on_a_running_thread_is_refused_with_the_holders_name() {
    let world = World::scripted().await;
    let gate = Gate::new();
    world.model().push(Turn::hang(&gate));
    let running = world.spawn(&["run", "go", "--thread", "t", "--json"]);
    gate.reached().await;
    for args in [vec!["run", "more", "--thread", "t"], vec!["resume", "t"]] {
        let ran = world.run(&args).await.expect_code(1);
        assert!(ran.stderr.contains(&format!("process {}", running.child.id())), "{}", ran.stderr);
    }
    let ran = world.run(&["threads", "delete", "t", "--yes"]).await.expect_code(1);
    assert!(ran.stderr.contains("active run"), "{}", ran.stderr);
    running.kill();
}
