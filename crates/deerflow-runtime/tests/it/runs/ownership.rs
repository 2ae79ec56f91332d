//! Several processes, living and dead.

use super::bench::{Bench, say, thread_id};
use deerflow_core::RunStatus;
use deerflow_core::ports::{CancelAction, EventRepo as _, Fence, RunControl as _, RunRepo as _};
use deerflow_runtime::runs::{CreateRun, MultitaskStrategy, OrphanPolicy, RunsConfig};
use deerflow_testkit::{Gate, Turn, call, eventually};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_run_of_a_dead_process_goes_on_from_its_last_step() {
    let bench = Bench::start().await;
    let gate = Gate::new();
    let process = bench.process(RunsConfig::default()).await;
    let list = call("ls", json!({"description": "x", "path": "/mnt/user-data/workspace"}));
    bench.model.extend([Turn::calls([list]), Turn::text("lost").hold(&gate)]);
    let run = process.create(say("t", "look")).await;
    gate.reached().await;
    // Nobody takes what is alive.
    assert_eq!(bench.runs.recover().await.unwrap(), 0);
    process.kill();
    bench.model.push(Turn::text("done"));
    assert_eq!(bench.runs.recover().await.unwrap(), 1);
    let row = bench.runs.wait(&run.run_id).await.unwrap();
    assert_eq!(row.status, RunStatus::Success);
    assert_eq!(row.epoch, 2);
    // The tool was not run again.
    assert_eq!(bench.model.agent_requests().len(), 3);
    assert_eq!(bench.said("t").await.len(), 4);
}

#[tokio::test]
async fn a_run_of_a_dead_process_can_be_ended_instead() {
    let config = RunsConfig { orphan_policy: OrphanPolicy::Fail, ..RunsConfig::default() };
    let bench = Bench::start_with(config.clone()).await;
    let gate = Gate::new();
    let process = bench.process(config).await;
    bench.model.push(Turn::text("lost").hold(&gate));
    let run = process.create(say("t", "look")).await;
    gate.reached().await;
    process.kill();
    bench.runs.recover().await.unwrap();
    let row = bench.runs.wait(&run.run_id).await.unwrap();
    assert_eq!((row.status, row.stop_reason.as_deref()), (RunStatus::Error, Some("orphan_recovered")));
}

#[tokio::test]
async fn a_rollback_that_died_half_way_is_finished_by_whoever_comes_next() {
    let bench = Bench::start().await;
    let gate = Gate::new();
    let process = bench.process(RunsConfig::default()).await;
    bench.model.push(Turn::text("lost").hold(&gate));
    let run = process.create(say("t", "look")).await;
    gate.reached().await;
    process.kill();
    bench.store.request_cancel(&run.run_id, CancelAction::Rollback).await.unwrap();
    bench.runs.recover().await.unwrap();
    let row = bench.runs.wait(&run.run_id).await.unwrap();
    assert_eq!(row.error.as_deref(), Some("Rolled back by user"));
    assert_eq!(bench.said("t").await, [""; 0]);
}

#[tokio::test]
async fn one_process_stops_the_run_of_another_and_follows_it() {
    let bench = Bench::start().await;
    let gate = Gate::new();
    let process = bench.process(RunsConfig::default()).await;
    bench.model.push(Turn::text("never").hold(&gate));
    let run = process.create(say("t", "hi")).await;
    gate.reached().await;
    bench.model.push(Turn::text("mine"));
    let mine = bench.create(CreateRun { strategy: MultitaskStrategy::Interrupt, ..say("t", "new") }).await;
    assert_eq!(bench.runs.wait(&run.run_id).await.unwrap().status, RunStatus::Interrupted);
    assert_eq!(bench.runs.wait(&mine.run_id).await.unwrap().status, RunStatus::Success);
    assert_eq!(bench.said("t").await, ["human: hi", "human: new", "ai: mine"]);
    process.kill();
}

#[tokio::test]
async fn an_owner_that_was_taken_over_writes_nothing_more() {
    let bench = Bench::start().await;
    let gate = Gate::new();
    bench.model.push(Turn::text("mine").hold(&gate));
    let run = bench.create(say("t", "hi")).await;
    gate.reached().await;
    let thief = deerflow_core::ports::Worker { id: "thief".into(), label: "process 1 on elsewhere".into() };
    let taken = bench.store.adopt(&run.run_id, run.epoch, &thief).await.unwrap();
    gate.open();
    let stream = bench.runs.bridge().get(&run.run_id).unwrap();
    eventually("the former owner to let go", async || stream.is_closed().then_some(())).await;
    assert_eq!(bench.said("t").await, ["human: hi"]);
    let row = bench.store.run(&run.run_id).await.unwrap().unwrap();
    assert_eq!((row.status, &row.worker), (RunStatus::Running, &thief));
    bench.store.start(&Fence { run_id: run.run_id, epoch: taken.epoch }).await.unwrap();
}

#[tokio::test]
async fn a_shutdown_drains_and_hands_over() {
    let bench = Bench::start().await;
    let (short, long) = (Gate::new(), Gate::new());
    let process = bench.process(RunsConfig::default()).await;
    bench.model.push(Turn::text("in time").hold(&short));
    let drained = process.create(say("a", "hi")).await;
    short.reached().await;
    bench.model.push(Turn::text("too slow").hold(&long));
    let handed = process.create(say("t", "hi")).await;
    long.reached().await;
    let (runs, closing) = (process.runs.clone(), process.runs.clone());
    #[expect(clippy::disallowed_methods, reason = "awaited below")]
    let shutdown = tokio::spawn(async move { closing.shutdown(Duration::from_secs(2)).await });
    short.open();
    shutdown.await.unwrap();
    assert!(runs.create(&super::bench::caller(), say("b", "hi")).await.is_err());
    drop(runs);
    process.kill();
    let status = |row: Option<deerflow_core::ports::RunRow>| row.unwrap().status;
    assert_eq!(status(bench.store.run(&drained.run_id).await.unwrap()), RunStatus::Success);
    assert_eq!(status(bench.store.run(&handed.run_id).await.unwrap()), RunStatus::Running);
    bench.model.push(Turn::text("after all"));
    bench.runs.recover().await.unwrap();
    assert_eq!(bench.runs.wait(&handed.run_id).await.unwrap().status, RunStatus::Success);
    assert_eq!(bench.said("t").await, ["human: hi", "ai: after all"]);
    let rows = bench.store.journal(&thread_id("t"), None, 0, 100).await.unwrap();
    assert_eq!(rows.iter().filter(|row| row.row.event == "run.end").count(), 1);
}

#[tokio::test]
async fn a_live_run_gets_a_lease_and_a_silent_owner_loses_it() {
    let bench = Bench::start().await;
    let other = bench.process(RunsConfig::default()).await;
    let gate = Gate::new();
    bench.model.push(Turn::text("never").hold(&gate));
    let run = bench.create(say("t", "hi")).await;
    gate.reached().await;
    let leased = eventually("a lease", async || {
        bench.store.live(None).await.unwrap().into_iter().find_map(|live| live.lease_until)
    })
    .await;
    assert!(leased > run.created_at);
    // The owner lives, as its lock says, but has not been heard of for an hour.
    let owner = run.worker.clone();
    assert_eq!(other.recover().await, 0);
    bench.store.renew(&owner, run.created_at - 3_600_000_000).await.unwrap();
    bench.model.push(Turn::text("by another"));
    assert_eq!(other.recover().await, 1);
    assert_eq!(bench.runs.wait(&run.run_id).await.unwrap().status, RunStatus::Success);
    assert_eq!(bench.said("t").await, ["human: hi", "ai: by another"]);
    other.kill();
}
