//! A goal over the real binary: reached, blocked, given up, and across a crash.

use crate::support::{World, story};
use deerflow_testkit::{Gate, Turn};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn verdict(satisfied: bool, blocker: &str, reason: &str) -> Turn {
    Turn::text(json!({"satisfied": satisfied, "blocker": blocker, "reason": reason}).to_string())
}

fn phases(lines: &[Value]) -> Vec<String> {
    let goal = lines.iter().filter(|l| l["type"] == "custom" && l["data"]["type"] == "goal");
    goal.map(|l| l["data"]["phase"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn it_goes_on_until_the_goal_is_reached() {
    let world = World::scripted().await;
    world.model().push(Turn::text("one cause"));
    world.model().push_auxiliary(verdict(false, "goal_not_met_yet", "only one cause"));
    world.model().push(Turn::text("two causes"));
    world.model().push_auxiliary(verdict(true, "none", "both are named"));
    let ran = world.run(&["run", "--goal", "Two causes are named", "--thread", "t"]).await.expect_code(0);
    assert!(ran.stderr.contains("goal not reached yet (1 of 8): only one cause"), "{}", ran.stderr);
    assert!(ran.stderr.contains("goal reached: both are named"), "{}", ran.stderr);
    assert!(ran.stdout.contains("two causes") && ran.stdout.contains("goal reached: Two causes are named"));
    let asked = world.model().agent_requests();
    assert!(asked[0].last_user_text().contains("Two causes are named"), "the objective is the task as well");
    assert!(asked[1].last_user_text().contains("only one cause"), "{}", asked[1].last_user_text());
    let state = world.state("t").await;
    assert_eq!((&state["goal"], &state["goal_outcome"]["status"]), (&Value::Null, &json!("achieved")));
    let shown = world.run(&["goal", "show", "t", "--json"]).await.expect_code(0);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!((&shown["goal"], &shown["goal_outcome"]["reason"]), (&Value::Null, &json!("both are named")));
    world.model().assert_legal();
}

#[tokio::test]
async fn a_goal_with_a_prompt_of_its_own_on_a_thread() {
    let world = World::scripted().await;
    world.model().push(Turn::text("hello"));
    world.run(&["run", "hi", "--thread", "t"]).await.expect_code(0);
    world.model().push(Turn::text("done"));
    world.model().push_auxiliary(verdict(true, "none", "yes"));
    let (ran, end) = world.run_json(&["start with a", "--goal", "all of it", "--thread", "t"]).await;
    assert_eq!(phases(&ran.expect_code(0).json_lines()), ["achieved"]);
    assert_eq!(end["goal_outcome"]["objective"], "all of it");
    assert!(world.model().agent_requests()[1].last_user_text().contains("start with a"));
    // A run without a goal says nothing of the old one.
    world.model().push(Turn::text("bye"));
    let ran = world.run(&["run", "and?", "--thread", "t"]).await.expect_code(0);
    assert!(!ran.stdout.contains("goal"), "{}", ran.stdout);
}

#[tokio::test]
async fn blocked_it_stops_and_the_goal_can_be_shown_and_ended() {
    let world = World::scripted().await;
    world.model().push(Turn::text("Which year do you mean?"));
    world.model().push_auxiliary(verdict(false, "needs_user_input", "the year is open"));
    let ran = world.run(&["run", "--goal", "The year is reviewed", "--thread", "t"]).await.expect_code(0);
    assert!(ran.stderr.contains("stopped working towards the goal: it needs something from you"), "{}", ran.stderr);
    assert!(ran.stdout.contains("goal not reached yet (0 of 8 automatic turns)"), "{}", ran.stdout);
    let shown = world.run(&["goal", "show", "t"]).await.expect_code(0).stdout;
    assert!(shown.contains("The year is reviewed") && shown.contains("last verdict: the year is open"), "{shown}");
    let cleared = world.run(&["goal", "clear", "t"]).await.expect_code(0).stdout;
    assert_eq!(cleared.trim(), "ended the goal of t: The year is reviewed");
    assert_eq!(world.state("t").await["goal"], Value::Null);
    assert!(world.run(&["goal", "clear", "t"]).await.expect_code(0).stdout.contains("has no goal"));
    assert!(world.run(&["goal", "show", "t"]).await.expect_code(0).stdout.contains("has no goal"));
    assert_eq!(world.model().agent_requests().len(), 1);
    for args in [["goal", "show", "nobody"], ["goal", "clear", "nobody"]] {
        let ran = world.run(&args).await.expect_code(2);
        assert!(ran.stderr.contains("there is no thread"), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn without_progress_or_turns_left_it_gives_up() {
    let world = World::scripted().await;
    for _ in 0..4 {
        world.model().push(Turn::text("the same"));
        world.model().push_auxiliary(verdict(false, "goal_not_met_yet", "nothing new"));
    }
    let (ran, end) = world.run_json(&["--goal", "x", "--thread", "t"]).await;
    assert_eq!(phases(&ran.expect_code(0).json_lines()), ["continue", "continue", "stand_down"]);
    assert_eq!(end["goal"]["last_evaluation"]["stand_down_reason"], "no_progress_detected");
    let world = World::scripted().await;
    for text in ["a", "b"] {
        world.model().push(Turn::text(text));
        world.model().push_auxiliary(verdict(false, "goal_not_met_yet", "more"));
    }
    let ran = world.run(&["run", "--goal", "x", "--max-continuations", "1"]).await.expect_code(0);
    assert!(ran.stderr.contains("all its automatic turns are used"), "{}", ran.stderr);
}

#[tokio::test]
async fn a_verdict_that_cannot_be_read_ends_the_run_and_keeps_the_goal() {
    let world = World::scripted().await;
    world.model().push(Turn::text("done"));
    world.model().push_auxiliary(Turn::text("looks good to me"));
    let ran = world.run(&["run", "--goal", "x", "--thread", "t"]).await.expect_code(0);
    assert!(ran.stderr.contains("could not be judged"), "{}", ran.stderr);
    assert_eq!(world.state("t").await["goal"]["objective"], "x");
}

/// The continuation is counted in the step that asks for more; a crash before the next turn does not count it twice.
#[tokio::test]
async fn killed_between_continuation_and_turn_it_keeps_the_count() {
    let world = World::scripted().await;
    let gate = Gate::new();
    world.model().push(Turn::text("one"));
    world.model().push_auxiliary(verdict(false, "goal_not_met_yet", "more"));
    world.model().push(Turn::hang(&gate));
    let running = world.spawn(&["run", "--goal", "x", "--thread", "t", "--json"]);
    gate.reached().await;
    let busy = world.run(&["goal", "clear", "t"]).await.expect_code(1);
    assert!(busy.stderr.contains("active run") && busy.stderr.contains("Ctrl-C"), "{}", busy.stderr);
    running.kill();
    assert_eq!(world.state("t").await["goal"]["continuation_count"], 1);
    world.model().push(Turn::text("two"));
    world.model().push_auxiliary(verdict(true, "none", "there"));
    world.run(&["resume", "t"]).await.expect_code(0);
    let state = world.state("t").await;
    assert_eq!(state["goal_outcome"]["continuation_count"], 1);
    let asks = |m: &&Value| m["additional_kwargs"]["deerflow_goal_continuation"] == true;
    assert_eq!(state["messages"].as_array().unwrap().iter().filter(asks).count(), 1);
    world.model().assert_legal();
}

/// A dead run does not keep its goal alive.
#[tokio::test]
async fn the_goal_of_a_run_that_was_cut_off_can_be_ended() {
    let world = World::scripted().await;
    let gate = Gate::new();
    world.model().push(Turn::hang(&gate));
    let running = world.spawn(&["run", "--goal", "x", "--thread", "t", "--json"]);
    gate.reached().await;
    running.kill();
    world.run(&["goal", "clear", "t"]).await.expect_code(0);
    world.model().push(Turn::text("done"));
    world.run(&["resume", "t"]).await.expect_code(0);
    assert_eq!(world.state("t").await["goal"], Value::Null);
}

/// The judge takes its time. What is said meanwhile is answered in the same run, whatever the verdict, and the goal is judged
/// again with the answer.
#[tokio::test]
async fn what_is_said_while_the_goal_is_judged_is_answered_first() {
    for (satisfied, blocker) in [(true, "none"), (false, "goal_not_met_yet"), (false, "needs_user_input")] {
        let world = World::scripted().await;
        let gate = Gate::new();
        world.model().push(Turn::text("done"));
        world.model().push_auxiliary(verdict(satisfied, blocker, "first").hold(&gate));
        let running = world.spawn(&["run", "--goal", "x", "--thread", "t", "--json"]);
        gate.reached().await;
        world.run(&["steer", "t", "and in blue"]).await.expect_code(0);
        world.model().push(Turn::text("done in blue"));
        world.model().push_auxiliary(verdict(true, "none", "second"));
        gate.open();
        let ran = tokio::task::spawn_blocking(move || running.wait()).await.unwrap().expect_code(0);
        assert_eq!(phases(&ran.json_lines()), ["achieved"], "{blocker}");
        let state = world.state("t").await;
        assert_eq!(story(&state), ["human: x", "ai: done", "human: and in blue", "ai: done in blue"], "{blocker}");
        let outcome = &state["goal_outcome"];
        assert_eq!((&outcome["reason"], &outcome["continuation_count"]), (&json!("second"), &json!(0)));
        assert_eq!(outcome["reply_message_id"], state["messages"].as_array().unwrap().last().unwrap()["id"]);
    }
}
