//! Databases of older versions.

use crate::support::{count, raw, thread_id, worker};
use deerflow_core::ports::{
    EventRepo as _, NewInput, RunRepo as _, StepKind, StepLog as _, ThreadFork, ThreadRepo as _, UsageRepo as _,
};
use deerflow_core::run::Next;
use deerflow_core::{JsonMap, Lineage, Message, RunId, RunStatus, StateUpdate, ThreadState, UserId};
use deerflow_store::{SqliteStore, StoreOptions};
use pretty_assertions::assert_eq;
use serde_json::json;

const SCHEMA_1: &str = include_str!("fixtures/schema-1.sql");

/// State after a step of the fixture.
fn state(step: usize) -> ThreadState {
    let mut state = ThreadState { title: Some(format!("title {step}")), ..ThreadState::default() };
    let messages = (0..=step).map(|n| Message::ai(format!("message {n}")).with_id(format!("m{n}")));
    state.apply(&StateUpdate::messages(messages)).unwrap();
    state
}

#[tokio::test]
async fn a_database_of_schema_1_opens_with_all_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deerflow.db");
    std::fs::write(&path, "").unwrap();
    sqlx::raw_sql(SCHEMA_1).execute(&mut raw(&path).await).await.unwrap();
    assert!(count(&path, "SELECT count(*) FROM snapshots").await > 0);
    // A message as older versions journalled it, and a run whose tokens were only summed.
    let older = r#"
        INSERT INTO events SELECT thread_key, 13, 'run-done', 'message', 'ai.message', json_object('node', 'model',
            'message', json_object('content', 'hi', 'additional_kwargs', json_object(), 'type', 'ai')), 1
            FROM threads WHERE thread_id = 'done';
        UPDATE threads SET last_seq = 13 WHERE thread_id = 'done';
        UPDATE runs SET last_seq = 13, usage = '{"input_tokens":30,"output_tokens":3,"total_tokens":33}'
            WHERE run_id = 'run-done'"#;
    sqlx::raw_sql(older).execute(&mut raw(&path).await).await.unwrap();

    let store = SqliteStore::open(&path, StoreOptions { cache_bytes: 0, ..StoreOptions::default() }).await.unwrap();
    let user = UserId::local();
    for name in ["done", "live"] {
        let lineage = Lineage::root(thread_id(name));
        let mut history = store.history(&lineage, None, 100).await.unwrap();
        history.reverse();
        assert_eq!(history.len(), 12);
        for (n, entry) in history.iter().enumerate() {
            let loaded = store.load(&lineage, Some(&entry.id)).await.unwrap().unwrap();
            assert_eq!((loaded.state, loaded.parent), (state(n), n.checked_sub(1).map(|n| history[n].id.clone())));
        }
        assert_eq!(store.journal(&thread_id(name), None, 0, 12).await.unwrap().len(), 12);
    }
    let done = store.run(&RunId::parse("run-done").unwrap()).await.unwrap().unwrap();
    assert_eq!(done.status, RunStatus::Success);
    let message = store.journal(&thread_id("done"), None, 12, 9).await.unwrap().remove(0).row;
    assert_eq!((message.event.as_str(), &message.content["content"]), ("llm.ai.response", &json!("hi")));
    assert_eq!(json!(message.metadata), json!({"node": "model", "caller": "lead_agent"}));
    let usage = store.thread_usage(&user, &thread_id("done"), false).await.unwrap();
    assert_eq!(usage.by_model.values().map(|model| model.total_tokens).sum::<u64>(), 33);

    // The run that was cut off goes on, with what the new schema brings.
    let row = store.adopt(&RunId::parse("run-live").unwrap(), 1, &worker("new")).await.unwrap();
    let mut driver = crate::support::Driver::bare("live");
    driver.under(&row);
    let head = store.load(&driver.lineage, None).await.unwrap().unwrap();
    assert_eq!((head.next, head.open_effects.len()), (Next::Tools, 1));
    (driver.parent, driver.state, driver.step) = (Some(head.id), head.state, head.step + 1);
    use deerflow_core::ports::InputQueue as _;
    let input = NewInput {
        run_input_id: "a".into(),
        run_id: row.run_id.clone(),
        content: Message::human("more").with_id("a"),
        created_by: user.clone(),
    };
    store.enqueue(&user, input).await.unwrap();
    driver.step(&store, StepKind::Tools, Next::Model, StateUpdate::none()).await;
    driver.end(&store, RunStatus::Success).await;
    let fork =
        ThreadFork { from: thread_id("done"), at: None, new_thread_id: thread_id("fork"), metadata: JsonMap::new() };
    store.fork_thread(&user, fork).await.unwrap();
    assert_eq!(store.load(&Lineage::root(thread_id("fork")), None).await.unwrap().unwrap().state, state(11));
    store.close().await;
}
