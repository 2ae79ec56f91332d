//! Storage modes: markers over one format.

use crate::support::{Driver, fence, frame, home_with, new_run, outcome, raw, thread_id};
use deerflow_core::ports::{EffectRecord, RunRepo as _, StepKind, StepLog as _, ThreadFork, ThreadRepo as _};
use deerflow_core::run::Next;
use deerflow_core::{JsonMap, Message, RunStatus, StateUpdate, StoreError, ThreadState, UserId};
use deerflow_store::{ChannelMode, SqliteStore, StoreOptions};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn options(mode: ChannelMode) -> StoreOptions {
    StoreOptions { mode, cache_bytes: 0, ..StoreOptions::default() }
}

#[tokio::test]
async fn a_thread_of_the_other_mode_is_refused_until_it_is_migrated() {
    let home = home_with(options(ChannelMode::Full)).await;
    let user = UserId::local();
    let mut driver = Driver::admitted(&home.store, "t").await;
    let a = driver
        .step(&home.store, StepKind::Input, Next::Tools, StateUpdate::messages([Message::human("a").with_id("1")]))
        .await;
    let delta = SqliteStore::open(&home.path, options(ChannelMode::Delta)).await.unwrap();
    let mut step = driver.commit(StepKind::Tools, Next::Model, vec![]);
    step.parent = Some(a.clone());
    let mut effects = driver.commit(StepKind::Effects, Next::Tools, vec![]);
    effects.effects =
        vec![EffectRecord::Started { step: 1, index: 0, call_id: "c".into(), tool: "bash".into(), fingerprint: None }];
    let mut branch = driver.commit(StepKind::Model, Next::Model, vec![]);
    (branch.branch, branch.parent) = (true, None);
    let fork = ThreadFork { from: thread_id("t"), at: None, new_thread_id: thread_id("f"), metadata: JsonMap::new() };
    for error in [
        delta.load(&driver.lineage, None).await.unwrap_err(),
        delta.load(&driver.lineage, Some(&a)).await.unwrap_err(),
        delta.history(&driver.lineage, None, 9).await.unwrap_err(),
        delta.commit(step.clone()).await.unwrap_err(),
        delta.commit(effects).await.unwrap_err(),
        delta.commit(branch).await.unwrap_err(),
        delta.admit(new_run("t")).await.unwrap_err(),
        delta.fork_thread(&user, fork).await.unwrap_err(),
    ] {
        assert_eq!(
            error.to_string(),
            "thread t is stored in mode full, but `database.checkpoint_channel_mode` is delta; hint: run `deerflow \
             threads migrate t --to delta`, or change the setting"
        );
    }
    // A run that is live would be cut off.
    let busy = delta.migrate_thread(&user, &thread_id("t"), ChannelMode::Delta).await.unwrap_err();
    assert!(matches!(busy, StoreError::ThreadBusy { .. }), "{busy}");
    home.store.finish(driver.fence.as_ref().unwrap(), outcome(RunStatus::Interrupted), vec![]).await.unwrap();
    let eve = UserId::parse("eve").unwrap();
    let foreign = delta.migrate_thread(&eve, &thread_id("t"), ChannelMode::Delta).await.unwrap_err();
    assert!(matches!(foreign, StoreError::NotFound { .. }), "{foreign}");

    delta.migrate_thread(&user, &thread_id("t"), ChannelMode::Delta).await.unwrap();
    assert_eq!(delta.load(&driver.lineage, Some(&a)).await.unwrap().unwrap().state, driver.state);
    let row = delta.admit(new_run("t")).await.unwrap();
    driver.under(&row);
    driver.end(&delta, RunStatus::Success).await;
    assert!(matches!(home.store.load(&driver.lineage, None).await, Err(StoreError::ModeMismatch { .. })));
    delta.migrate_thread(&user, &thread_id("t"), ChannelMode::Full).await.unwrap();
    assert_eq!(home.store.load(&driver.lineage, None).await.unwrap().unwrap().state, driver.state);
    delta.close().await;
}

#[tokio::test]
async fn a_run_on_a_thread_of_the_other_mode_can_be_closed() {
    let home = home_with(options(ChannelMode::Full)).await;
    let row = home.store.admit(new_run("t")).await.unwrap();
    let delta = SqliteStore::open(&home.path, options(ChannelMode::Delta)).await.unwrap();
    let adopted = delta.adopt(&row.run_id, 1, &crate::support::worker("beta")).await.unwrap();
    delta.finish(&fence(&adopted), outcome(RunStatus::Interrupted), vec![]).await.unwrap();
    delta.migrate_thread(&UserId::local(), &thread_id("t"), ChannelMode::Delta).await.unwrap();
    delta.close().await;
}

#[tokio::test]
async fn a_thread_in_an_unknown_mode_is_refused() {
    let home = home_with(options(ChannelMode::Delta)).await;
    let mut driver = Driver::bare("t");
    driver.step(&home.store, StepKind::Input, Next::Model, StateUpdate::none()).await;
    sqlx::query("UPDATE threads SET mode = 'holographic'").execute(&mut raw(&home.path).await).await.unwrap();
    let error = home.store.load(&driver.lineage, None).await.unwrap_err().to_string();
    assert!(error.starts_with("thread t is stored in mode holographic") && error.contains("is delta"), "{error}");
}

/// What a message list does to a write, as the reducer is specified: told in a dozen lines, without care for speed.
fn reduce(state: &mut Vec<Message>, write: &[Message]) -> Result<(), ()> {
    if let Some(last) = write.iter().rposition(|m| m.id.as_deref() == Some("__remove_all__")) {
        *state = write[last + 1..].to_vec();
        return Ok(());
    }
    let mut list = state.clone();
    let mut doomed: Vec<String> = Vec::new();
    for message in write {
        let id = message.id().to_owned();
        match list.iter().rposition(|m| m.id() == id) {
            Some(_) if message.role() == "remove" => doomed.push(id),
            Some(at) => {
                list[at] = message.clone();
                doomed.retain(|other| *other != id);
            }
            None if message.role() == "remove" => return Err(()),
            None => list.push(message.clone()),
        }
    }
    list.retain(|m| !doomed.iter().any(|id| id == m.id()));
    *state = list;
    Ok(())
}

fn message() -> impl Strategy<Value = Message> {
    (0u8..20, 0u8..9, "[a-z]{0,30}").prop_map(|(kind, id, text)| match kind {
        0 => Message::remove_all(),
        1..=4 => Message::remove(format!("m{id}")),
        5..=10 => Message::human(text).with_id(format!("m{id}")),
        _ => Message::ai(text).with_id(format!("m{id}")),
    })
}

type History = Vec<(Option<usize>, Vec<Message>)>;

async fn write(mode: ChannelMode, writes: &[Vec<Message>]) -> History {
    let home = home_with(StoreOptions { snapshot_frequency: 1, ..options(mode) }).await;
    let mut driver = Driver::bare("t");
    let mut model: Vec<Message> = Vec::new();
    let mut states: Vec<ThreadState> = Vec::new();
    let mut ids = Vec::new();
    for write in writes {
        let update = StateUpdate::messages(write.clone());
        let accepted = driver.state.clone().apply(&update).is_ok();
        assert_eq!(accepted, reduce(&mut model, write).is_ok(), "{write:?}");
        if !accepted || write.is_empty() {
            continue;
        }
        let commit = driver.commit(StepKind::Model, Next::Model, vec![frame("n", update)]);
        ids.push(driver.send(&home.store, commit).await.unwrap().checkpoint_id.unwrap());
        let held: Vec<Message> = driver.state.messages.iter().map(|m| Message::clone(m)).collect();
        assert_eq!(held, model, "the reducer and its model");
        states.push(driver.state.clone());
    }
    let mut history = Vec::new();
    for entry in home.store.history(&driver.lineage, None, 500).await.unwrap() {
        let at = ids.iter().position(|id| *id == entry.id).unwrap();
        let state = home.store.load(&driver.lineage, Some(&entry.id)).await.unwrap().unwrap().state;
        assert_eq!(state, states[at]);
        let parent = entry.parent.map(|parent| ids.iter().position(|id| *id == parent).unwrap());
        history.push((parent, state.messages.iter().map(|m| Message::clone(m)).collect()));
    }
    home.store.close().await;
    history
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    #[test]
    fn both_modes_keep_the_same_states_and_histories(
        writes in prop::collection::vec(prop::collection::vec(message(), 1..5), 1..50)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (full, delta) = runtime.block_on(async {
            (write(ChannelMode::Full, &writes).await, write(ChannelMode::Delta, &writes).await)
        });
        prop_assert_eq!(full, delta);
    }
}
