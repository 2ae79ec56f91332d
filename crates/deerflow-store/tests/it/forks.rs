//! Threads made from others.

use crate::support::{Driver, count, frame, home, home_with, thread_id};
use deerflow_core::ports::{
    ArchiveLimits, ArchiveRecord, ArchiveRole, EventRepo as _, HistoryArchive as _, RunFilter, RunRepo as _, StepKind,
    StepLog as _, ThreadFork, ThreadRepo as _,
};
use deerflow_core::run::Next;
use deerflow_core::{CheckpointId, JsonMap, Lineage, Message, RunStatus, StateUpdate, StoreError, UserId};
use deerflow_store::{SqliteStore, StoreOptions};
use pretty_assertions::assert_eq;
use serde_json::json;

fn fork(from: &str, at: Option<&CheckpointId>, to: &str) -> ThreadFork {
    ThreadFork { from: thread_id(from), at: at.cloned(), new_thread_id: thread_id(to), metadata: JsonMap::new() }
}

/// A history with an abandoned branch, snapshots, and large values.
async fn history(store: &SqliteStore, thread: &str) -> (Driver, Vec<CheckpointId>) {
    let mut driver = Driver::admitted(store, thread).await;
    let mut ids = Vec::new();
    let mut kept = None;
    for n in 0..60 {
        let update = StateUpdate {
            title: Some(format!("title {n}")),
            task_history: Some(json!({"n": n, "large": "x".repeat(600)})),
            ..StateUpdate::messages([Message::ai(format!("{n} {}", "y".repeat(100))).with_id(n.to_string())])
        };
        if n == 30 {
            let (parent, state) = kept.clone().unwrap();
            (driver.parent, driver.state) = (parent, state);
        }
        let mut commit = driver.commit(StepKind::Model, Next::Model, vec![frame("n", update)]);
        commit.branch = n == 30;
        commit.events = vec![crate::support::event(json!("only in the original's journal".repeat(30)))];
        ids.push(driver.send(store, commit).await.unwrap().checkpoint_id.unwrap());
        if n == 20 {
            kept = Some((driver.parent.clone(), driver.state.clone()));
        }
    }
    (driver, ids)
}

#[tokio::test]
async fn a_fork_has_the_same_history_up_to_its_checkpoint() {
    let home = home_with(StoreOptions { cache_bytes: 0, snapshot_frequency: 2, ..StoreOptions::default() }).await;
    let user = UserId::local();
    let (mut driver, ids) = history(&home.store, "t").await;
    driver.end(&home.store, RunStatus::Success).await;
    assert!(count(&home.path, "SELECT count(*) FROM snapshots").await > 1);
    for (n, at) in [(44, Some(&ids[44])), (25, Some(&ids[25])), (60, None)] {
        let name = format!("fork-{n}");
        let mut ask = fork("t", at, &name);
        ask.metadata.insert("mine".into(), json!(true));
        let row = home.store.fork_thread(&user, ask).await.unwrap();
        let head = at.cloned().or(driver.parent.clone()).unwrap();
        let title = if n == 60 { "title 59".to_owned() } else { format!("title {n}") };
        assert_eq!((row.title.as_deref(), row.status.as_str()), (Some(title.as_str()), "idle"));
        assert_eq!(
            json!(row.metadata),
            json!({"mine": true, "branch_parent_thread_id": "t", "branch_parent_checkpoint_id": head})
        );
        let (old, new) = (&driver.lineage, Lineage::root(thread_id(&name)));
        let mut expected = home.store.history(old, None, 100).await.unwrap();
        expected.retain(|entry| ids.iter().position(|id| *id == entry.id).unwrap_or(60) <= n);
        assert_eq!(home.store.history(&new, None, 100).await.unwrap(), expected);
        assert_eq!(home.store.load(&new, None).await.unwrap().unwrap().id, head);
        for entry in &expected {
            let original = home.store.load(old, Some(&entry.id)).await.unwrap().unwrap();
            let copy = home.store.load(&new, Some(&entry.id)).await.unwrap().unwrap();
            assert_eq!((copy.state, copy.parent, copy.next), (original.state, original.parent, original.next));
        }
        assert_eq!(home.store.journal(&new.thread_id, None, 0, 9).await.unwrap(), vec![]);
        let filter = RunFilter { thread_id: Some(new.thread_id.clone()), ..RunFilter::default() };
        assert_eq!(home.store.runs(&user, filter).await.unwrap(), vec![]);
    }
    // Only what the copied steps refer to: neither later messages nor the journal.
    let blobs = count(
        &home.path,
        "SELECT count(*) FROM blobs b JOIN threads t USING (thread_key) WHERE t.thread_id = 'fork-25'",
    )
    .await;
    assert_eq!(blobs, 26 * 2);
}

#[tokio::test]
async fn a_fork_and_its_original_go_their_own_ways() {
    let home = home_with(StoreOptions { cache_bytes: 0, ..StoreOptions::default() }).await;
    let user = UserId::local();
    let (mut driver, ids) = history(&home.store, "t").await;
    home.store.fork_thread(&user, fork("t", Some(&ids[40]), "f")).await.unwrap();
    let new = Lineage::root(thread_id("f"));
    let mut copy = Driver::admitted(&home.store, "f").await;
    copy.state = home.store.load(&new, None).await.unwrap().unwrap().state;
    copy.parent = Some(ids[40].clone());
    for n in 0..40 {
        let update = StateUpdate::messages([Message::ai("z".repeat(200)).with_id(format!("f{n}"))]);
        copy.step(&home.store, StepKind::Model, Next::Model, update).await;
    }
    driver.end(&home.store, RunStatus::Success).await;
    assert_eq!(home.store.load(&new, None).await.unwrap().unwrap().state, copy.state);
    assert_eq!(home.store.load(&driver.lineage, None).await.unwrap().unwrap().state, driver.state);
    copy.end(&home.store, RunStatus::Success).await;
    // The fork outlives its original.
    home.store.delete_thread(&user, &driver.lineage.thread_id).await.unwrap();
    assert_eq!(home.store.load(&new, None).await.unwrap().unwrap().state, copy.state);
    assert!(home.store.load(&new, Some(&ids[3])).await.unwrap().is_some());
}

#[tokio::test]
async fn the_archive_goes_with_the_fork() {
    let home = home().await;
    let user = UserId::local();
    let (mut driver, ids) = history(&home.store, "t").await;
    driver.end(&home.store, RunStatus::Success).await;
    let records = vec![ArchiveRecord { role: ArchiveRole::User, text: "we spoke of otters".into() }];
    let t = thread_id("t");
    home.store.archive(&user, &t, records, ArchiveLimits::default()).await.unwrap();
    home.store.fork_thread(&user, fork("t", None, "whole")).await.unwrap();
    home.store.fork_thread(&user, fork("t", Some(&ids[3]), "early")).await.unwrap();
    home.store.delete_thread(&user, &t).await.unwrap();
    let hits = async |thread: &str| {
        home.store.search_archive(&user, &thread_id(thread), "otters", None, 8).await.unwrap().len()
    };
    assert_eq!((hits("t").await, hits("whole").await), (0, 1));
    assert_eq!(hits("early").await, 0, "it was archived after that checkpoint");
}

#[tokio::test]
async fn what_cannot_be_forked_is_refused_by_name() {
    let home = home().await;
    let (user, eve) = (UserId::local(), UserId::parse("eve").unwrap());
    let (_, ids) = history(&home.store, "t").await;
    home.store.create_thread(&user, &thread_id("empty"), JsonMap::new()).await.unwrap();
    let before = count(&home.path, "SELECT count(*) FROM threads").await;
    let refused = async |user: &UserId, ask| home.store.fork_thread(user, ask).await.unwrap_err().to_string();
    assert_eq!(refused(&user, fork("none", None, "f")).await, "thread none does not exist");
    assert_eq!(refused(&eve, fork("t", None, "f")).await, "thread t does not exist");
    assert_eq!(refused(&user, fork("t", None, "empty")).await, "thread empty exists already");
    let stranger = CheckpointId::next();
    let error = refused(&user, fork("t", Some(&stranger), "f")).await;
    assert_eq!(error, format!("checkpoint {stranger} does not exist"));
    let error = refused(&user, fork("empty", Some(&ids[0]), "f")).await;
    assert_eq!(error, format!("checkpoint {} does not exist", ids[0]), "of another thread");
    assert_eq!(count(&home.path, "SELECT count(*) FROM threads").await, before);
    // Nothing can be copied of a thread without steps.
    let row = home.store.fork_thread(&user, fork("empty", None, "f")).await.unwrap();
    assert_eq!(json!(row.metadata)["branch_parent_checkpoint_id"], json!(null));
    assert!(matches!(home.store.fork_thread(&user, fork("t", None, "f")).await, Err(StoreError::Exists { .. })));
}
