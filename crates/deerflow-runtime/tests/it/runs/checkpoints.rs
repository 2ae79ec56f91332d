//! Beginning elsewhere than at the head, commands, and pauses.

use super::bench::{Bench, say, thread_id};
use deerflow_core::ports::{CancelAction, HistoryEntry, StepLog as _};
use deerflow_core::run::Next;
use deerflow_core::{Lineage, Message, RunStatus, StateUpdate};
use deerflow_runtime::runs::{Command, CreateRun, RunInput};
use deerflow_runtime::{StateEdit, update_state};
use deerflow_testkit::{Gate, Turn, call};
use serde_json::json;

async fn history(bench: &Bench) -> Vec<HistoryEntry> {
    bench.store.history(&Lineage::root(thread_id("t")), None, 100).await.unwrap()
}

fn nothing() -> CreateRun {
    CreateRun::new(thread_id("t"), RunInput::Nothing)
}

#[tokio::test]
async fn a_run_can_begin_at_an_older_checkpoint_and_be_taken_back_to_the_head() {
    let bench = Bench::start().await;
    bench.model.extend([Turn::text("one"), Turn::text("two")]);
    bench.ended(say("t", "1")).await;
    let after_one = bench.head("t").await;
    bench.ended(say("t", "2")).await;
    let head = bench.head("t").await;
    let from = |text: &str| CreateRun { checkpoint: Some(after_one.id.clone()), ..say("t", text) };

    let gate = Gate::new();
    bench.model.push(Turn::text("never").hold(&gate));
    let run = bench.create(from("other")).await;
    gate.reached().await;
    bench.runs.cancel(&run.run_id, CancelAction::Rollback, true).await.unwrap();
    assert_eq!(bench.head("t").await.state, head.state);

    bench.model.push(Turn::text("else"));
    bench.ended(from("other")).await;
    assert_eq!(bench.said("t").await, ["human: 1", "ai: one", "human: other", "ai: else"]);
}

#[tokio::test]
async fn the_head_and_its_equals_are_no_selection() {
    let bench = Bench::start().await;
    bench.model.extend(["one", "two", "three"].map(Turn::text));
    bench.ended(say("t", "1")).await;
    let head = bench.head("t").await;
    let at =
        |id: &deerflow_core::CheckpointId, text: &str| CreateRun { checkpoint: Some(id.clone()), ..say("t", text) };
    let run = bench.ended(at(&head.id, "2")).await;
    let input = history(&bench).await.into_iter().rfind(|entry| entry.run_id.as_ref() == Some(&run.run_id)).unwrap();
    assert_eq!(input.parent, Some(head.id));
    // An edit that changes nothing.
    let head = bench.head("t").await;
    let edit = StateEdit::default();
    let edited = update_state(bench.store.as_ref(), &run.user_id, &run.thread_id, edit).await.unwrap();
    let run = bench.ended(at(&head.id, "3")).await;
    let input = history(&bench).await.into_iter().rfind(|entry| entry.run_id.as_ref() == Some(&run.run_id)).unwrap();
    assert_eq!(input.parent, edited.checkpoint_id);
}

#[tokio::test]
async fn a_run_pauses_where_it_is_told_to_and_goes_on_from_there() {
    let bench = Bench::start().await;
    let list = || Turn::calls([call("ls", json!({"description": "x", "path": "/mnt/user-data/workspace"}))]);
    bench.model.extend([list(), list(), Turn::text("done")]);
    let pause = |request: CreateRun| CreateRun { interrupt_before: vec!["tools".into()], ..request };
    let row = bench.ended(pause(say("t", "look"))).await;
    assert_eq!((row.status, bench.head("t").await.next), (RunStatus::Interrupted, Next::Tools));
    assert_eq!(bench.model.agent_requests().len(), 1);
    // It passes where it paused, and pauses at the next.
    let row = bench.ended(pause(nothing())).await;
    assert_eq!((row.status, bench.head("t").await.next), (RunStatus::Interrupted, Next::Tools));
    assert_eq!(bench.model.agent_requests().len(), 2);
    let row = bench.ended(CreateRun { interrupt_after: vec!["*".into()], ..nothing() }).await;
    assert_eq!((row.status, bench.head("t").await.next), (RunStatus::Interrupted, Next::Model));
    let row = bench.ended(nothing()).await;
    assert_eq!((row.status, bench.head("t").await.next), (RunStatus::Success, Next::Done));
    bench.model.assert_every_tool_call_answered();
}

#[tokio::test]
async fn a_command_writes_and_leads_elsewhere() {
    let bench = Bench::start().await;
    bench.model.extend([Turn::text("one"), Turn::text("two"), Turn::text("three")]);
    bench.ended(say("t", "1")).await;
    // Words to answer.
    let update = Some(StateUpdate::messages([Message::human("by command")]));
    let command = Command { goto: None, update: update.clone() };
    bench.ended(CreateRun { command, ..nothing() }).await;
    assert_eq!(bench.said("t").await, ["human: 1", "ai: one", "human: by command", "ai: two"]);
    // Another turn over the same words.
    let command = Command { goto: Some("model".into()), update: None };
    bench.ended(CreateRun { command, ..nothing() }).await;
    assert_eq!(bench.said("t").await.len(), 5);
    // Written and left at that.
    let command = Command { goto: Some("__end__".into()), update };
    let row = bench.ended(CreateRun { command, ..nothing() }).await;
    assert_eq!(row.status, RunStatus::Success);
    assert_eq!(bench.said("t").await.len(), 6);
    assert_eq!(bench.model.agent_requests().len(), 3);
}
