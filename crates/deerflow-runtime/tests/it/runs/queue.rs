//! Runs that wait for their turn.

use super::bench::{Bench, caller, say, statuses, thread_id};
use deerflow_core::ports::{CancelAction, RunControl as _, RunRepo as _};
use deerflow_core::{RunStatus, StoreError};
use deerflow_runtime::runs::{CreateError, CreateRun, MultitaskStrategy, RunsConfig};
use deerflow_testkit::{Gate, Turn};
use std::time::Duration;

fn enqueue(text: &str) -> CreateRun {
    CreateRun { strategy: MultitaskStrategy::Enqueue, ..say("t", text) }
}

#[tokio::test]
async fn queued_runs_follow_one_another_in_order() {
    let bench = Bench::start().await;
    let gate = Gate::new();
    bench.model.push(Turn::text("one").hold(&gate));
    bench.model.extend(["two", "three", "four"].map(Turn::text));
    let mut rows = vec![bench.create(enqueue("1")).await];
    gate.reached().await;
    for text in ["2", "3", "4"] {
        rows.push(bench.create(enqueue(text)).await);
    }
    assert_eq!(statuses(&rows[1..]), [RunStatus::Queued; 3]);
    assert_eq!(bench.store.waiting(&thread_id("t")).await.unwrap().len(), 3);
    gate.open();
    for row in &rows {
        assert_eq!(bench.runs.wait(&row.run_id).await.unwrap().status, RunStatus::Success);
    }
    let said = ["human: 1", "ai: one", "human: 2", "ai: two", "human: 3", "ai: three", "human: 4", "ai: four"];
    assert_eq!(bench.said("t").await, said);
}

#[tokio::test]
async fn a_run_can_begin_later_and_be_withdrawn_before() {
    let bench = Bench::start().await;
    bench.model.push(Turn::text("late"));
    let later = bench.create(CreateRun { after: Duration::from_millis(300), ..say("t", "hi") }).await;
    let never = bench.create(CreateRun { after: Duration::from_secs(3600), ..say("t", "never") }).await;
    assert_eq!((later.status, never.status), (RunStatus::Queued, RunStatus::Queued));
    assert!(bench.model.agent_requests().is_empty());
    // A run that waits for its hour blocks nobody.
    let row = bench.runs.wait(&later.run_id).await.unwrap();
    assert_eq!(row.status, RunStatus::Success);
    let row = bench.runs.cancel(&never.run_id, CancelAction::Interrupt, true).await.unwrap();
    assert_eq!((row.status, row.error.as_deref()), (RunStatus::Interrupted, Some("Cancelled before it began")));
    assert_eq!(bench.said("t").await, ["human: hi", "ai: late"]);
}

#[tokio::test]
async fn a_queue_survives_its_process() {
    let bench = Bench::start().await;
    let gate = Gate::new();
    bench.model.push(Turn::text("lost").hold(&gate));
    let process = bench.process(RunsConfig::default()).await;
    let first = process.create(say("t", "1")).await;
    gate.reached().await;
    let second = process.create(enqueue("2")).await;
    assert_eq!(second.status, RunStatus::Queued);
    bench.model.extend([Turn::text("one"), Turn::text("two")]);
    process.kill();
    assert_eq!(bench.runs.recover().await.unwrap(), 1);
    for row in [&first, &second] {
        assert_eq!(bench.runs.wait(&row.run_id).await.unwrap().status, RunStatus::Success);
    }
    assert_eq!(bench.said("t").await, ["human: 1", "ai: one", "human: 2", "ai: two"]);
}

#[tokio::test]
async fn whoever_would_not_wait_does_not_overtake_the_queue() {
    let bench = Bench::start().await;
    let gate = Gate::new();
    bench.model.push(Turn::text("one").hold(&gate));
    let first = bench.create(enqueue("1")).await;
    gate.reached().await;
    let second = bench.create(enqueue("2")).await;
    bench.model.push(Turn::text("two"));
    gate.open();
    bench.runs.wait(&first.run_id).await.unwrap();
    let rival = bench.runs.create(&caller(), say("t", "me first")).await;
    match rival {
        Err(CreateError::Store(StoreError::ThreadBusy { .. })) => {}
        // The queue was faster.
        Ok(row) => assert!(row.created_at >= bench.store.run(&second.run_id).await.unwrap().unwrap().updated_at),
        Err(error) => panic!("{error}"),
    }
    assert_eq!(bench.runs.wait(&second.run_id).await.unwrap().status, RunStatus::Success);
}
