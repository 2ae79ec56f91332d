//! Stopping runs.

use super::bench::{Bench, say};
use deerflow_core::RunStatus;
use deerflow_core::ports::CancelAction::{Interrupt, Rollback};
use deerflow_runtime::runs::{CancelError, CreateRun, MultitaskStrategy, RunInput};
use deerflow_testkit::{Gate, Turn, call};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn an_interrupted_run_keeps_its_steps_and_stays_interrupted() {
    let bench = Bench::start().await;
    let gate = Gate::new();
    bench.model.push(Turn::text("never").hold(&gate));
    let run = bench.create(say("t", "hi")).await;
    gate.reached().await;
    let row = bench.runs.cancel(&run.run_id, Interrupt, true).await.unwrap();
    assert_eq!((row.status, row.error), (RunStatus::Interrupted, None));
    assert_eq!(bench.said("t").await, ["human: hi"]);
    // The model's stream was let go.
    bench.model.abandoned(1).await;
    // Again, in either way, it is what it is.
    for action in [Interrupt, Rollback] {
        let row = bench.runs.cancel(&run.run_id, action, true).await.unwrap();
        assert_eq!(row.status, RunStatus::Interrupted);
    }
    // The thread goes on.
    bench.model.push(Turn::text("back"));
    let row = bench.ended(say("t", "and now")).await;
    assert_eq!(row.status, RunStatus::Success);
    assert_eq!(bench.said("t").await, ["human: hi", "human: and now", "ai: back"]);
}

#[tokio::test]
async fn a_rollback_restores_what_was_before() {
    let bench = Bench::start().await;
    bench.model.push(Turn::text("first"));
    bench.ended(say("t", "hi")).await;
    let before = bench.head("t").await;
    let gate = Gate::new();
    bench.model.push(Turn::calls([call("bash", json!({"description": "x", "command": "true"}))]));
    bench.model.push(Turn::text("never").hold(&gate));
    let run = bench.create(say("t", "more")).await;
    gate.reached().await;
    let row = bench.runs.cancel(&run.run_id, Rollback, true).await.unwrap();
    assert_eq!((row.status, row.error.as_deref()), (RunStatus::Error, Some("Rolled back by user")));
    let after = bench.head("t").await;
    assert_eq!((after.state, after.next), (before.state, before.next));
    // Taken back is taken back.
    let row = bench.runs.cancel(&run.run_id, Rollback, true).await.unwrap();
    assert_eq!(row.error.as_deref(), Some("Rolled back by user"));
}

#[tokio::test]
async fn the_first_run_of_a_thread_can_be_taken_back() {
    let bench = Bench::start().await;
    let gate = Gate::new();
    bench.model.push(Turn::text("never").hold(&gate));
    let run = bench.create(say("t", "hi")).await;
    gate.reached().await;
    bench.runs.cancel(&run.run_id, Rollback, true).await.unwrap();
    assert_eq!(bench.said("t").await, [""; 0]);
    bench.model.push(Turn::text("fresh"));
    bench.ended(say("t", "again")).await;
    assert_eq!(bench.said("t").await, ["human: again", "ai: fresh"]);
}

#[tokio::test]
async fn a_tools_processes_end_with_the_run() {
    let bench = Bench::start().await;
    let command =
        "echo started > /mnt/user-data/workspace/mark; (sleep 300; echo late > /mnt/user-data/workspace/late) & wait";
    bench.model.push(Turn::calls([call("bash", json!({"description": "x", "command": command}))]));
    let run = bench.create(say("t", "hi")).await;
    let mark = bench.home.path().join("users/default/threads/t/user-data/workspace/mark");
    deerflow_testkit::eventually("the command to start", async || mark.exists().then_some(())).await;
    let stopped = bench.runs.cancel(&run.run_id, Interrupt, true);
    let row = tokio::time::timeout(Duration::from_secs(20), stopped).await.expect("it does not wait for the sleep");
    assert_eq!(row.unwrap().status, RunStatus::Interrupted);
}

#[tokio::test]
async fn a_finished_run_cannot_be_cancelled() {
    let bench = Bench::start().await;
    bench.model.push(Turn::text("done"));
    let run = bench.ended(say("t", "hi")).await;
    let error = bench.runs.cancel(&run.run_id, Interrupt, false).await.unwrap_err();
    assert!(matches!(error, CancelError::Over { status: RunStatus::Success, .. }), "{error}");
    let unknown = deerflow_core::RunId::random();
    assert!(matches!(bench.runs.cancel(&unknown, Interrupt, true).await, Err(CancelError::NotFound(_))));
}

#[tokio::test]
async fn a_reader_that_leaves_stops_the_run_only_if_that_was_asked() {
    let bench = Bench::start().await;
    let gate = Gate::new();
    bench.model.push(Turn::text("slow").hold(&gate));
    let run = bench.create(say("t", "hi")).await;
    gate.reached().await;
    drop(bench.runs.attach(&run.run_id, false));
    bench.runs.attach(&run.run_id, true).done();
    let guard = bench.runs.attach(&run.run_id, true);
    gate.open();
    assert_eq!(bench.runs.wait(&run.run_id).await.unwrap().status, RunStatus::Success);
    drop(guard);

    let gate = Gate::new();
    bench.model.push(Turn::text("slow").hold(&gate));
    let run = bench.create(say("t", "hi")).await;
    gate.reached().await;
    drop(bench.runs.attach(&run.run_id, true));
    assert_eq!(bench.runs.wait(&run.run_id).await.unwrap().status, RunStatus::Interrupted);
}

#[tokio::test]
async fn a_newer_run_takes_the_place_of_an_older_one() {
    for (strategy, status, left) in [
        (MultitaskStrategy::Interrupt, RunStatus::Interrupted, vec!["human: old", "human: new", "ai: answer"]),
        (MultitaskStrategy::Rollback, RunStatus::Error, vec!["human: new", "ai: answer"]),
    ] {
        let bench = Bench::start().await;
        let gate = Gate::new();
        bench.model.push(Turn::text("never").hold(&gate));
        let old = bench.create(say("t", "old")).await;
        gate.reached().await;
        bench.model.push(Turn::text("answer"));
        let waiting = bench.create(CreateRun { strategy: MultitaskStrategy::Enqueue, ..say("t", "waiting") }).await;
        let new = bench.create(CreateRun { strategy, ..say("t", "new") }).await;
        assert_eq!(bench.runs.wait(&new.run_id).await.unwrap().status, RunStatus::Success);
        assert_eq!(bench.runs.wait(&old.run_id).await.unwrap().status, status);
        let waiting = bench.runs.wait(&waiting.run_id).await.unwrap();
        assert_eq!(
            (waiting.status, waiting.error.as_deref()),
            (RunStatus::Interrupted, Some("Cancelled by newer run"))
        );
        assert_eq!(bench.said("t").await, left);
    }
}

#[tokio::test]
async fn a_stopped_run_can_be_gone_on_with() {
    let bench = Bench::start().await;
    let gate = Gate::new();
    bench.model.push(Turn::text("never").hold(&gate));
    let run = bench.create(say("t", "hi")).await;
    gate.reached().await;
    bench.runs.cancel(&run.run_id, Interrupt, true).await.unwrap();
    bench.model.push(Turn::text("now"));
    let row = bench.ended(CreateRun { input: RunInput::Nothing, ..say("t", "") }).await;
    assert_eq!(row.status, RunStatus::Success);
    assert_eq!(bench.said("t").await, ["human: hi", "ai: now"]);
}
