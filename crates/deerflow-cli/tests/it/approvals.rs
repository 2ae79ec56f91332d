//! A run that stopped with an approval. The question is put into the database as a middleware would leave it.

use crate::support::{World, story};
use crate::terminal::Typist;
use deerflow_core::ports::{Fence, NewRun, RunOutcome, RunRepo, StepCommit, StepKind, StepLog, Worker};
use deerflow_core::run::Next;
use deerflow_core::{
    INTERRUPT_SLOT, Interrupt, Lineage, Message, NodeUpdate, RunId, RunStatus, StateUpdate, ThreadId, ThreadState,
    Usage, UserId,
};
use deerflow_store::{SqliteStore, StoreOptions};
use deerflow_testkit::Turn;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::sync::Arc;

/// A thread `t` whose run wants to write a file and asks first.
async fn asked(world: &World, question: Value) {
    let store = SqliteStore::open(&world.path("data/deerflow.db"), StoreOptions::default()).await.unwrap();
    let thread_id = ThreadId::parse("t").unwrap();
    let message = |value: Value| serde_json::from_value::<Message>(value).unwrap();
    let input = StateUpdate::messages([message(json!({"type": "human", "id": "h1", "content": "go"}))]);
    let run = NewRun {
        run_id: RunId::random(),
        thread_id: thread_id.clone(),
        user_id: UserId::local(),
        worker: Worker { id: "gone".into(), label: "gone".into() },
        input: input.clone(),
        options: json!({"interactive": true}),
        idempotency_key: None,
    };
    let row = store.admit(run).await.unwrap();
    let fence = Fence { run_id: row.run_id.clone(), epoch: row.epoch };
    store.start(&fence).await.unwrap();
    let args = json!({"description": "d", "path": "/mnt/user-data/workspace/a.txt", "content": "hi"});
    let call = json!({"id": "c1", "name": "write_file", "args": args, "type": "tool_call"});
    let ask = StateUpdate::messages([message(json!({"type": "ai", "id": "a1", "content": "", "tool_calls": [call]}))]);
    let open = json!([Interrupt { id: "q1".into(), value: question, node: "Asks".into() }]);
    let slot = StateUpdate { private: [(INTERRUPT_SLOT.to_owned(), open)].into(), ..StateUpdate::none() };
    let outcome = RunOutcome {
        status: RunStatus::Interrupted,
        error: None,
        stop_reason: None,
        usage: Usage::default(),
    };
    let mut state = ThreadState::default();
    let mut parent = None;
    let steps = [
        (StepKind::Input, Next::Model, vec![("__input__", input)], None),
        (StepKind::Model, Next::Wait, vec![("model", ask), (INTERRUPT_SLOT, slot)], Some(outcome)),
    ];
    for (step, (kind, next, updates, outcome)) in steps.into_iter().enumerate() {
        for (_, update) in &updates {
            state.apply(update).unwrap();
        }
        let updates = updates.into_iter().map(|(node, update)| NodeUpdate { node: node.to_owned(), update }).collect();
        let commit = StepCommit {
            lineage: Lineage::root(thread_id.clone()),
            run_id: Some(row.run_id.clone()),
            parent,
            branch: false,
            fence: Some(fence.clone()),
            kind,
            step: step as u64,
            next,
            updates,
            state: Arc::new(state.clone()),
            effects: vec![],
            events: vec![],
            outcome,
        };
        parent = store.commit(commit).await.unwrap().checkpoint_id;
    }
    store.close().await;
}

fn question() -> Value {
    json!({
        "action_requests": [{"name": "write_file", "args": {"path": "/mnt/user-data/workspace/a.txt"}, "description": "writes a file"}],
        "review_configs": [{"action_name": "write_file", "allowed_decisions": ["approve", "reject"]}],
    })
}

#[tokio::test]
async fn without_a_terminal_it_says_so_and_a_script_can_answer() {
    let world = World::scripted().await;
    asked(&world, question()).await;
    let ran = world.run(&["resume", "t"]).await.expect_code(3);
    assert!(ran.stdout.contains("write_file workspace/a.txt") && ran.stdout.contains("writes a file"), "{}", ran.stdout);
    assert!(ran.stderr.contains("deerflow resume t --answer approve"), "{}", ran.stderr);
    assert!(world.run(&["threads", "list"]).await.stdout.contains("asks you"));
    let shown = world.run(&["threads", "show", "t"]).await.expect_code(0).stdout;
    assert!(shown.contains("write_file workspace/a.txt") && shown.contains("deerflow resume t"), "{shown}");
    for bad in ["maybe", r#"{"decisions": []}"#, r#"{"decisions": [{"type": "edit"}]}"#] {
        world.run(&["resume", "t", "--answer", bad]).await.expect_code(2);
    }
    world.model().push(Turn::text("done"));
    world.run(&["resume", "t", "--answer", "approve"]).await.expect_code(0);
    assert_eq!(story(&world.state("t").await), ["human: go", "ai: ", "tool: OK", "ai: done"]);
    let ran = world.run(&["resume", "t", "--answer", "approve"]).await.expect_code(2);
    assert!(ran.stderr.contains("waits for no answer"), "{}", ran.stderr);
}

#[tokio::test]
async fn on_a_terminal_it_asks_until_the_answer_is_one() {
    let world = World::scripted().await;
    asked(&world, question()).await;
    let mut person = Typist::start(&world, &["resume", "t"]);
    person.sees("may it? > ", 1).await;
    person.types("\n");
    person.ends(3).await;
    world.model().push(Turn::text("done"));
    let mut person = Typist::start(&world, &["resume", "t"]);
    person.sees("may it? > ", 1).await;
    person.types("e {}\n");
    person.sees("none of the choices", 1).await;
    person.types("y\n");
    person.ends(0).await;
    assert_eq!(story(&world.state("t").await)[2..], ["tool: OK", "ai: done"]);
}

/// The answer is durable with its run: killed right after, it is not asked for again.
#[tokio::test]
async fn another_question_takes_text_and_a_killed_answer_is_resumed() {
    let world = World::scripted().await;
    asked(&world, json!("Which colour?")).await;
    let shown = world.run(&["resume", "t", "--quiet"]).await.expect_code(3);
    assert!(shown.stdout.contains("Which colour?"), "{}", shown.stdout);
    let gate = deerflow_testkit::Gate::new();
    world.model().push(Turn::hang(&gate));
    let running = world.spawn(&["resume", "t", "--answer", "the blue one", "--json"]);
    gate.reached().await;
    running.kill();
    world.model().push(Turn::text("done"));
    world.run(&["resume", "t"]).await.expect_code(0);
    assert_eq!(story(&world.state("t").await), ["human: go", "ai: ", "tool: OK", "ai: done"]);
}
