//! A run that stops with a question to a person: approvals, by configuration, and others, put into the database as a
//! middleware would leave them.

use crate::support::{World, story};
use crate::terminal::Typist;
use deerflow_core::ports::{Fence, NewRun, RunOutcome, RunRepo, StepCommit, StepKind, StepLog, Worker};
use deerflow_core::run::Next;
use deerflow_core::{
    INTERRUPT_SLOT, Interrupt, Lineage, Message, NodeUpdate, RunId, RunStatus, StateUpdate, ThreadId, ThreadState,
    Usage, UserId,
};
use deerflow_store::{SqliteStore, StoreOptions};
use deerflow_testkit::{Turn, call};
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
    let outcome =
        RunOutcome { status: RunStatus::Interrupted, error: None, stop_reason: None, usage: Usage::default() };
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

const APPROVALS: &str =
    "human_in_the_loop:\n  interrupt_on:\n    write_file: true\n    bash:\n      allowed_decisions: [reject]\n";

fn write(name: &str) -> deerflow_testkit::Call {
    let path = format!("/mnt/user-data/workspace/{name}");
    call("write_file", json!({"description": "d", "path": path, "content": "hi"}))
}

#[tokio::test]
async fn without_a_terminal_it_says_so_and_a_script_can_answer() {
    let world = World::scripted_with(APPROVALS).await;
    world.model().push(Turn::calls([write("a.txt"), write("b.txt")]));
    let (ran, end) = world.run_json(&["go", "--thread", "t"]).await;
    let lines = ran.expect_code(3).json_lines();
    let asked = lines.iter().find(|l| l["type"] == "interrupted").unwrap();
    assert_eq!(asked["interrupts"][0]["value"]["action_requests"][1]["name"], "write_file");
    assert_eq!((&end["interrupts"], &end["status"]), (&asked["interrupts"], &json!("interrupted")));
    let ran = world.run(&["resume", "t"]).await.expect_code(3);
    assert!(
        ran.stdout.contains("- write_file workspace/a.txt") && ran.stdout.contains("workspace/b.txt"),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.contains("deerflow resume t --answer approve"), "{}", ran.stderr);
    let again = world.run(&["resume", "t", "--json"]).await.expect_code(3).json_lines();
    assert_eq!((&again[0]["type"], &again[0]["interrupts"]), (&json!("interrupted"), &end["interrupts"]));
    assert!(world.run(&["threads", "list"]).await.stdout.contains("asks you"));
    let shown = world.run(&["threads", "show", "t"]).await.expect_code(0).stdout;
    assert!(shown.contains("write_file workspace/a.txt") && shown.contains("deerflow resume t"), "{shown}");
    for bad in ["maybe", r#"{"decisions": []}"#, r#"{"decisions": [{"type": "approve"}, {"type": "bribe"}]}"#] {
        world.run(&["resume", "t", "--answer", bad]).await.expect_code(2);
    }
    world.model().push(Turn::text("done"));
    let answer = r#"{"decisions": [{"type": "approve"}, {"type": "reject", "message": "not b"}]}"#;
    world.run(&["resume", "t", "--answer", answer]).await.expect_code(0);
    let story = story(&world.state("t").await);
    assert_eq!(story.last().unwrap(), "ai: done");
    assert!(story.iter().any(|s| s == "tool: OK") && story.iter().any(|s| s.contains("not b")), "{story:?}");
    let folder = world.path("users/default/threads/t/user-data/workspace");
    assert!(folder.join("a.txt").exists() && !folder.join("b.txt").exists());
    let ran = world.run(&["resume", "t", "--answer", "approve"]).await.expect_code(2);
    assert!(ran.stderr.contains("waits for no answer"), "{}", ran.stderr);
    world.model().assert_legal();
}

#[tokio::test]
async fn on_a_terminal_each_call_is_decided_within_what_is_allowed() {
    let world = World::scripted_with(APPROVALS).await;
    let bash = call("bash", json!({"description": "d", "command": "touch never"}));
    world.model().push(Turn::text_and_calls("I *do* both.", [write("a.txt"), bash]));
    let mut person = Typist::start(&world, &["run", "go", "--thread", "t"]);
    person.sees("may it? > ", 1).await;
    // Also when the last words were streamed, and to the letter.
    person.sees("- bash touch never", 1).await;
    person.types("\u{4}");
    assert!(person.ends(3).await.contains("no answer; give it later with: deerflow resume t"));
    world.model().push(Turn::text("done"));
    let mut person = Typist::start(&world, &["resume", "t"]);
    person.sees("may it? > ", 1).await;
    person.types("maybe\n");
    person.sees("none of the choices", 1).await;
    person.types("e {\"description\": \"d\", \"path\": \"/mnt/user-data/workspace/c.txt\", \"content\": \"hi\"}\n");
    person.sees("may it? > ", 3).await;
    person.types("y\n");
    person.sees("none of the choices", 2).await;
    person.types("n too risky\n");
    person.ends(0).await;
    let folder = world.path("users/default/threads/t/user-data/workspace");
    let there = |name: &str| folder.join(name).exists();
    assert_eq!((there("a.txt"), there("c.txt"), there("never")), (false, true, false));
    assert!(story(&world.state("t").await).iter().any(|s| s.contains("too risky")));
    world.model().assert_legal();
}

/// An answer that the middleware does not accept leaves the question open, and is not given again by itself.
#[tokio::test]
async fn an_answer_that_is_refused_is_asked_for_again() {
    let world = World::scripted_with(APPROVALS).await;
    world.model().push(Turn::calls([write("a.txt")]));
    world.run(&["run", "go", "--thread", "t"]).await.expect_code(3);
    let broken = r#"{"decisions": [{"type": "edit"}]}"#;
    let ran = world.run(&["resume", "t", "--answer", broken]).await.expect_code(1);
    assert!(ran.stderr.contains("edited_action"), "{}", ran.stderr);
    world.run(&["resume", "t"]).await.expect_code(3);
    world.model().push(Turn::text("done"));
    world.run(&["resume", "t", "--answer", "reject"]).await.expect_code(0);
    assert!(!world.path("users/default/threads/t/user-data/workspace/a.txt").exists());
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

/// Calls that a test lets a person decide about in each of the four ways, and one that nobody is asked about.
fn five_calls() -> Turn {
    let look = call("ls", json!({"description": "d", "path": "/mnt/user-data/workspace"}));
    Turn::calls([write("approved.txt"), write("before.txt"), look, write("rejected.txt"), write("answered.txt")])
}

/// What each of them came to: the files there are, the results in the order of the calls, and the request that the model got.
async fn each_was_decided(world: &World) {
    let folder = world.path("users/default/threads/t/user-data/workspace");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    assert_eq!(files, ["after.txt", "approved.txt"]);
    let state = world.state("t").await;
    let messages = state["messages"].as_array().unwrap();
    let calls = messages.iter().find_map(|m| m["tool_calls"].as_array().filter(|calls| !calls.is_empty())).unwrap();
    assert_eq!(calls[1]["args"]["path"], "/mnt/user-data/workspace/after.txt", "history tells what was run");
    let result = |n: usize| messages.iter().find(|m| m["tool_call_id"] == calls[n]["id"]).unwrap();
    let told = |n: usize| (result(n)["status"].as_str().unwrap(), result(n)["content"].as_str().unwrap());
    assert_eq!((told(0), told(1), told(4)), (("success", "OK"), ("success", "OK"), ("success", "it is there already")));
    assert_eq!(told(2).0, "success");
    assert!(told(3).0 == "error" && told(3).1.contains("not this one"), "{:?}", told(3));
    let requests = world.model().agent_requests();
    let sent = requests.last().unwrap().messages();
    let sent: Vec<&Value> = sent.iter().filter(|m| m["role"] == "tool").map(|m| &m["tool_call_id"]).collect();
    assert_eq!(sent, calls.iter().map(|c| &c["id"]).collect::<Vec<_>>());
    world.model().assert_legal();
    world.model().assert_every_tool_call_answered();
}

#[tokio::test]
async fn every_decision_at_once_on_a_terminal() {
    let world = World::scripted_with(APPROVALS).await;
    world.model().push(five_calls());
    let mut person = Typist::start(&world, &["run", "go", "--thread", "t"]);
    person.sees("1 of 4: write_file workspace/approved.txt", 1).await;
    world.model().push(Turn::text("done"));
    person.types("y\n");
    person.sees("may it? > ", 2).await;
    person.types("e {\"description\": \"d\", \"path\": \"/mnt/user-data/workspace/after.txt\", \"content\": \"hi\"}\n");
    person.sees("may it? > ", 3).await;
    person.types("n not this one\n");
    person.sees("may it? > ", 4).await;
    person.types("r it is there already\n");
    person.ends(0).await;
    each_was_decided(&world).await;
}

/// As a program does it: the question off the JSON lines, the answer by the question's id, the run that follows as JSON lines.
#[tokio::test]
async fn every_decision_at_once_from_a_program() {
    let world = World::scripted_with(APPROVALS).await;
    world.model().push(five_calls());
    let (ran, end) = world.run_json(&["go", "--thread", "t"]).await;
    ran.expect_code(3);
    let question = &end["interrupts"][0];
    let asked: Vec<_> =
        question["value"]["action_requests"].as_array().unwrap().iter().map(|r| &r["args"]["path"]).collect();
    assert_eq!(asked.len(), 4);
    assert_eq!(asked[1], "/mnt/user-data/workspace/before.txt");
    assert_eq!(
        question["value"]["review_configs"][0]["allowed_decisions"],
        json!(["approve", "edit", "reject", "respond"])
    );
    let args = json!({"description": "d", "path": "/mnt/user-data/workspace/after.txt", "content": "hi"});
    let decisions = json!({"decisions": [
        {"type": "approve"},
        {"type": "edit", "edited_action": {"name": "write_file", "args": args}},
        {"type": "reject", "message": "not this one"},
        {"type": "respond", "message": "it is there already"},
    ]});
    let answer = json!({question["id"].as_str().unwrap(): decisions}).to_string();
    world.model().push(Turn::text("done"));
    let ran = world.run(&["resume", "t", "--json", "--answer", &answer]).await.expect_code(0);
    let lines = ran.json_lines();
    let finished = lines.iter().filter(|l| l["type"] == "tool_finished").map(|l| l["status"].as_str().unwrap());
    assert_eq!(finished.collect::<Vec<_>>(), ["success"; 3], "only what runs starts and finishes");
    assert_eq!((&lines.last().unwrap()["answer"], &lines.last().unwrap()["interrupts"]), (&json!("done"), &json!([])));
    each_was_decided(&world).await;
}
