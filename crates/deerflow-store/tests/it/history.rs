use crate::support::{Driver, count, event, frame, home, home_with, worker};
use deerflow_core::ports::{EffectRecord, OpenEffect, RunRepo as _, StepKind, StepLog as _};
use deerflow_core::run::Next;
use deerflow_core::{CheckpointId, Lineage, Message, RunStatus, StateUpdate, StoreError, ToolCall};
use deerflow_store::{SqliteStore, StoreOptions};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn say(id: &str, text: &str) -> StateUpdate {
    StateUpdate::messages([Message::human(text).with_id(id)])
}

#[tokio::test]
async fn every_checkpoint_shows_the_state_of_its_step() {
    let home = home().await;
    let mut driver = Driver::admitted(&home.store, "t").await;
    assert!(home.store.load(&driver.lineage, None).await.unwrap().is_none());
    let a = driver.step(&home.store, StepKind::Input, Next::Model, say("1", "a")).await;
    let state_a = driver.state.clone();
    let b = driver.step(&home.store, StepKind::Model, Next::End, say("1", "b")).await;

    let head = home.store.load(&driver.lineage, None).await.unwrap().unwrap();
    assert_eq!((&head.id, &head.parent, head.step), (&b, &Some(a.clone()), 1));
    assert_eq!((head.kind, head.next, &head.run_id), (StepKind::Model, Next::End, &driver.run_id));
    assert_eq!(head.state, driver.state);
    assert_eq!(head.open_effects, vec![]);
    let old = home.store.load(&driver.lineage, Some(&a)).await.unwrap().unwrap();
    assert_eq!((old.state, old.parent), (state_a, None));

    // Without what this process remembers.
    let second = SqliteStore::open(&home.path, StoreOptions::default()).await.unwrap();
    assert_eq!(second.load(&driver.lineage, None).await.unwrap().unwrap().state, driver.state);
    second.close().await;
}

#[tokio::test]
async fn a_write_on_an_old_checkpoint_is_refused_and_nothing_is_written() {
    let home = home().await;
    let mut driver = Driver::bare("t");
    let a = driver.step(&home.store, StepKind::Input, Next::Model, say("1", "a")).await;
    driver.step(&home.store, StepKind::Model, Next::End, say("2", "b")).await;
    for parent in [None, Some(a), Some(CheckpointId::next())] {
        for kind in [StepKind::Model, StepKind::Effects] {
            let mut commit = driver.commit(kind, Next::End, vec![frame("n", say("x", "lost"))]);
            commit.parent = parent.clone();
            commit.events = vec![event(json!(1))];
            commit.effects = vec![EffectRecord::Finished { step: 1, index: 0, update: Box::default(), end_run: false }];
            let error = home.store.commit(commit).await.unwrap_err();
            let shown = parent.as_ref().map_or("(none)".to_owned(), ToString::to_string);
            assert!(matches!(&error, StoreError::StaleParent { parent, .. } if *parent == shown), "{error}");
        }
    }
    assert_eq!(home.store.history(&driver.lineage, None, 10).await.unwrap().len(), 2);
    assert_eq!(count(&home.path, "SELECT count(*) FROM blobs").await, 2);
    assert_eq!(count(&home.path, "SELECT (SELECT count(*) FROM effects) + (SELECT count(*) FROM events)").await, 0);
}

#[tokio::test]
async fn history_pages_from_the_newest() {
    let home = home().await;
    let mut driver = Driver::bare("t");
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(driver.step(&home.store, StepKind::Edit, Next::Done, say(&n.to_string(), "x")).await);
    }
    ids.reverse();
    let page = async |before: Option<&CheckpointId>, limit| -> Vec<CheckpointId> {
        let rows = home.store.history(&driver.lineage, before, limit).await.unwrap();
        rows.into_iter().map(|row| row.id).collect()
    };
    assert_eq!(page(None, 3).await, ids[..3]);
    assert_eq!(page(Some(&ids[2]), 3).await, ids[3..6]);
    assert_eq!(page(Some(&ids[5]), 3).await, ids[6..]);
    assert_eq!(page(Some(&ids[6]), 3).await, vec![]);
    let unknown = home.store.history(&driver.lineage, Some(&CheckpointId::next()), 3).await;
    assert!(matches!(unknown, Err(StoreError::NotFound { what: "checkpoint", .. })));
    assert_eq!(home.store.history(&Lineage::root(crate::support::thread_id("u")), None, 3).await.unwrap(), vec![]);
}

#[tokio::test]
async fn a_sub_agents_lineage_is_its_own_but_its_journal_is_the_threads() {
    let home = home().await;
    let mut lead = Driver::admitted(&home.store, "t").await;
    let head = lead
        .step(&home.store, StepKind::Input, Next::Model, StateUpdate { title: Some("lead".into()), ..say("1", "a") })
        .await;
    let mut child = Driver::bare("t");
    child.lineage.namespace = "child".into();
    child.fence = lead.fence.clone();
    let mut commit = child.commit(
        StepKind::Input,
        Next::Model,
        vec![frame("n", StateUpdate { title: Some("child".into()), ..say("1", "other") })],
    );
    commit.events = vec![event(json!("from the child"))];
    let committed = child.send(&home.store, commit).await.unwrap();
    assert_eq!((committed.seqs, committed.last_seq), (vec![1], 1));
    let mut commit = lead.commit(StepKind::Model, Next::End, vec![]);
    commit.events = vec![event(json!("from the lead")), event(json!(2))];
    let committed = lead.send(&home.store, commit).await.unwrap();
    assert_eq!((committed.seqs, committed.last_seq), (vec![2, 3], 3));

    let wrong = home.store.load(&child.lineage, Some(&head)).await;
    assert!(matches!(wrong, Err(StoreError::NotFound { what: "checkpoint", .. })), "a checkpoint of another lineage");
    assert_eq!(home.store.load(&child.lineage, None).await.unwrap().unwrap().state, child.state);
    assert_eq!(home.store.load(&lead.lineage, None).await.unwrap().unwrap().state, lead.state);
    use deerflow_core::ports::ThreadRepo as _;
    let thread = home.store.thread(&deerflow_core::UserId::local(), &lead.lineage.thread_id).await.unwrap().unwrap();
    assert_eq!(thread.title.as_deref(), Some("lead"));
}

fn started(index: usize, fingerprint: Option<Value>) -> EffectRecord {
    EffectRecord::Started { step: 1, index, call_id: format!("c{index}"), tool: "write_file".into(), fingerprint }
}

#[tokio::test]
async fn a_finished_call_survives_a_crash_beside_its_slow_sibling() {
    let home = home().await;
    let mut driver = Driver::admitted(&home.store, "t").await;
    driver.step(&home.store, StepKind::Input, Next::Model, say("1", "a")).await;
    let call = |id: &str| ToolCall::new(id, "write_file", serde_json::Map::new());
    let calls = Message::ai_calls("", vec![call("c0"), call("c1")]).with_id("2");
    let head = driver.step(&home.store, StepKind::Model, Next::Tools, StateUpdate::messages([calls])).await;
    let result = |id: &str| {
        StateUpdate::messages([Message::tool("done ".repeat(300), id, "write_file").with_id(format!("r-{id}"))])
    };

    let mut effects = driver.commit(StepKind::Effects, Next::Tools, vec![]);
    effects.effects = vec![started(0, Some(json!({"before": "h"}))), started(1, None)];
    let committed = driver.send(&home.store, effects).await.unwrap();
    assert_eq!((committed.checkpoint_id.as_ref(), committed.seqs, committed.last_seq), (Some(&head), vec![], 0));
    let mut effects = driver.commit(StepKind::Effects, Next::Tools, vec![]);
    effects.effects = vec![EffectRecord::Finished { step: 1, index: 1, update: Box::new(result("c1")), end_run: true }];
    effects.events = vec![event(json!("finished"))];
    assert_eq!(driver.send(&home.store, effects).await.unwrap().seqs, vec![1]);

    let open = vec![
        OpenEffect {
            index: 0,
            call_id: "c0".into(),
            tool: "write_file".into(),
            fingerprint: Some(json!({"before": "h"})),
            finished: None,
        },
        OpenEffect {
            index: 1,
            call_id: "c1".into(),
            tool: "write_file".into(),
            fingerprint: None,
            finished: Some((result("c1"), true)),
        },
    ];
    let second = SqliteStore::open(&home.path, StoreOptions::default()).await.unwrap();
    let row = second.adopt(driver.run_id.as_ref().unwrap(), 1, &worker("beta")).await.unwrap();
    let loaded = second.load(&driver.lineage, None).await.unwrap().unwrap();
    assert_eq!((loaded.open_effects, loaded.state), (open, driver.state.clone()));

    // The batch settles them.
    driver.under(&row);
    let batch = vec![frame("tools", result("c0")), frame("tools", result("c1"))];
    let commit = driver.commit(StepKind::Tools, Next::Model, batch);
    driver.send(&second, commit).await.unwrap();
    let loaded = second.load(&driver.lineage, None).await.unwrap().unwrap();
    assert_eq!((loaded.open_effects, loaded.state), (vec![], driver.state.clone()));
    assert_eq!(count(&home.path, "SELECT count(*) FROM effects").await, 0);
    assert_eq!(second.load(&driver.lineage, Some(&head)).await.unwrap().unwrap().open_effects, vec![]);
    second.close().await;
}

#[tokio::test]
async fn concurrent_writes_of_a_batch_fold_as_they_did() {
    let home = home_with(StoreOptions { cache_bytes: 0, ..StoreOptions::default() }).await;
    let mut driver = Driver::bare("t");
    driver.step(&home.store, StepKind::Input, Next::Tools, say("1", "a")).await;
    let batch = (0..3)
        .map(|n| frame("tools", StateUpdate { artifacts: Some(vec![format!("/f{n}")]), ..say(&format!("r{n}"), "x") }))
        .collect();
    let commit = driver.commit(StepKind::Tools, Next::Model, batch);
    driver.send(&home.store, commit).await.unwrap();
    assert_eq!(home.store.load(&driver.lineage, None).await.unwrap().unwrap().state, driver.state);
}

#[tokio::test]
async fn messages_that_came_without_an_id_keep_the_one_they_got() {
    let home = home_with(StoreOptions { cache_bytes: 0, ..StoreOptions::default() }).await;
    let mut driver = Driver::bare("t");
    driver
        .step(
            &home.store,
            StepKind::Input,
            Next::Model,
            StateUpdate::messages([Message::human("a"), Message::human("a")]),
        )
        .await;
    let first = home.store.load(&driver.lineage, None).await.unwrap().unwrap().state;
    assert_eq!(first, driver.state);
    assert_eq!(home.store.load(&driver.lineage, None).await.unwrap().unwrap().state, first);
}

#[tokio::test]
async fn an_image_read_ten_times_is_stored_once() {
    // BR-059: the original's store reached 135 GB, since every step held images and messages in full.
    let home = home().await;
    let mut driver = Driver::admitted(&home.store, "t").await;
    let image = deerflow_core::ContentBlock::ImageUrl(format!("data:image/png;base64,{}", "A".repeat(1_000_000)));
    let message = Message::human(deerflow_core::Content::Blocks(vec![image])).with_id("image");
    for n in 0..10 {
        let mut commit = driver.commit(
            StepKind::Input,
            Next::Model,
            vec![frame("n", StateUpdate::messages([message.clone(), Message::ai("x").with_id(n.to_string())]))],
        );
        commit.events = vec![event(serde_json::to_value(&message).unwrap())];
        driver.send(&home.store, commit).await.unwrap();
    }
    driver.end(&home.store, RunStatus::Success).await;
    home.store.close().await;
    let size = std::fs::metadata(&home.path).unwrap().len();
    assert!(size < 1_300_000, "{size}");
}
