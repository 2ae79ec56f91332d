//! Checkpoints that stand on any earlier one.

use crate::support::{Driver, count, fence, frame, home, home_with, new_run, outcome};
use deerflow_core::ports::{EffectRecord, RunRepo as _, StepKind, StepLog as _};
use deerflow_core::run::Next;
use deerflow_core::{CheckpointId, Message, RunStatus, StateUpdate, StoreError, ThreadState};
use deerflow_store::{SqliteStore, StoreOptions};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn say(id: &str, text: &str) -> StateUpdate {
    StateUpdate::messages([Message::human(text).with_id(id)])
}

/// Goes on from a checkpoint as if it were the head.
async fn branch(
    driver: &mut Driver,
    store: &SqliteStore,
    at: Option<(&CheckpointId, &ThreadState)>,
    update: StateUpdate,
) -> CheckpointId {
    driver.parent = at.map(|(id, _)| id.clone());
    driver.state = at.map(|(_, state)| state.clone()).unwrap_or_default();
    let mut commit = driver.commit(StepKind::Model, Next::Model, vec![frame("node", update)]);
    commit.branch = true;
    driver.send(store, commit).await.unwrap().checkpoint_id.unwrap()
}

#[tokio::test]
async fn a_branch_becomes_the_head_and_hides_nothing() {
    let home = home_with(StoreOptions { cache_bytes: 0, ..StoreOptions::default() }).await;
    let mut driver = Driver::bare("t");
    let a = driver.step(&home.store, StepKind::Input, Next::Model, say("1", "a")).await;
    let at_a = driver.state.clone();
    let b = driver.step(&home.store, StepKind::Model, Next::End, say("2", "b")).await;
    let at_b = driver.state.clone();
    let c = branch(&mut driver, &home.store, Some((&a, &at_a)), say("3", "c")).await;
    let d = driver.step(&home.store, StepKind::Model, Next::End, say("4", "d")).await;
    let at_d = driver.state.clone();
    let e = branch(&mut driver, &home.store, None, say("5", "afresh")).await;

    let ids = |state: &ThreadState| state.messages.iter().map(|m| m.id().to_owned()).collect::<Vec<_>>();
    let load = async |id: &CheckpointId| home.store.load(&driver.lineage, Some(id)).await.unwrap().unwrap();
    assert_eq!(home.store.load(&driver.lineage, None).await.unwrap().unwrap().id, e);
    assert_eq!((ids(&at_b), load(&b).await.state), (vec!["1".to_owned(), "2".to_owned()], at_b));
    assert_eq!((ids(&at_d), load(&d).await.state), (vec!["1".to_owned(), "3".to_owned(), "4".to_owned()], at_d));
    assert_eq!(ids(&load(&e).await.state), ["5"]);
    let history = home.store.history(&driver.lineage, None, 10).await.unwrap();
    let shown: Vec<_> = history.iter().map(|entry| (entry.id.clone(), entry.parent.clone())).collect();
    assert_eq!(shown, [(e, None), (d, Some(c.clone())), (c, Some(a.clone())), (b, Some(a.clone())), (a, None)]);
}

#[tokio::test]
async fn a_branch_on_the_head_is_a_step_and_one_on_a_stranger_is_refused() {
    let home = home().await;
    let mut driver = Driver::bare("t");
    let a = driver.step(&home.store, StepKind::Input, Next::Model, say("1", "a")).await;
    let state = driver.state.clone();
    let b = branch(&mut driver, &home.store, Some((&a, &state)), say("2", "b")).await;
    assert_eq!(count(&home.path, "SELECT count(*) FROM branches").await, 0);
    let mut other = Driver::bare("u");
    let foreign = other.step(&home.store, StepKind::Input, Next::Model, say("1", "a")).await;
    let mut commit = driver.commit(StepKind::Model, Next::Model, vec![frame("n", say("3", "lost"))]);
    commit.branch = true;
    commit.parent = Some(foreign.clone());
    let error = home.store.commit(commit).await.unwrap_err();
    assert!(matches!(&error, StoreError::NotFound { what: "checkpoint", id } if *id == foreign.to_string()), "{error}");
    assert_eq!(home.store.load(&driver.lineage, None).await.unwrap().unwrap().id, b);
    assert_eq!(count(&home.path, "SELECT count(*) FROM steps").await, 3);
}

#[tokio::test]
async fn a_fenced_branch_is_refused_and_a_good_one_leaves_no_open_effect() {
    let home = home().await;
    let mut driver = Driver::admitted(&home.store, "t").await;
    let a = driver.step(&home.store, StepKind::Input, Next::Model, say("1", "a")).await;
    let state = driver.state.clone();
    driver.step(&home.store, StepKind::Model, Next::Tools, say("2", "b")).await;
    let mut effects = driver.commit(StepKind::Effects, Next::Tools, vec![]);
    effects.effects =
        vec![EffectRecord::Started { step: 1, index: 0, call_id: "c".into(), tool: "bash".into(), fingerprint: None }];
    driver.send(&home.store, effects).await.unwrap();
    let good = driver.fence.clone();
    driver.fence.as_mut().unwrap().epoch = 7;
    let (parent, state) = (Some(a.clone()), state);
    driver.parent = parent.clone();
    let mut commit = driver.commit(StepKind::Model, Next::Model, vec![]);
    commit.branch = true;
    assert!(matches!(home.store.commit(commit).await, Err(StoreError::Fenced { .. })));
    assert_eq!(count(&home.path, "SELECT count(*) FROM effects").await, 1);
    driver.fence = good;
    branch(&mut driver, &home.store, Some((&a, &state)), say("3", "c")).await;
    assert_eq!(count(&home.path, "SELECT count(*) FROM effects").await, 0);
}

#[tokio::test]
async fn an_edit_is_refused_beside_a_live_run_and_keeps_an_open_batch_open() {
    let home = home().await;
    let row = home.store.admit(new_run("t")).await.unwrap();
    let mut driver = Driver::bare("t");
    driver.under(&row);
    driver.step(&home.store, StepKind::Input, Next::Tools, say("1", "a")).await;
    let mut effects = driver.commit(StepKind::Effects, Next::Tools, vec![]);
    effects.effects =
        vec![EffectRecord::Started { step: 1, index: 0, call_id: "c".into(), tool: "bash".into(), fingerprint: None }];
    driver.send(&home.store, effects).await.unwrap();
    (driver.run_id, driver.fence) = (None, None);
    let before = driver.state.clone();
    let edit = driver.commit(
        StepKind::Edit,
        Next::Tools,
        vec![frame("edit", StateUpdate { title: Some("New".into()), ..StateUpdate::none() })],
    );
    let error = home.store.commit(edit.clone()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("thread t has an active run {} (held by process 1 on host alpha)", row.run_id)
    );
    assert_eq!(home.store.load(&driver.lineage, None).await.unwrap().unwrap().state, before);

    home.store.finish(&fence(&row), outcome(RunStatus::Interrupted), vec![]).await.unwrap();
    home.store.commit(edit).await.unwrap();
    let head = home.store.load(&driver.lineage, None).await.unwrap().unwrap();
    assert_eq!((head.state.title.as_deref(), head.run_id, head.next), (Some("New"), None, Next::Tools));
    // Whoever resumes must still learn that the command was started.
    assert_eq!(head.open_effects.len(), 1);
}

#[tokio::test]
async fn retries_of_every_turn_cost_what_they_say() {
    let home = home_with(StoreOptions { cache_bytes: 0, ..StoreOptions::default() }).await;
    let mut driver = Driver::bare("t");
    for turn in 0..150 {
        driver.step(&home.store, StepKind::Input, Next::Model, say(&format!("h{turn}"), "a question")).await;
        let (id, state) = (driver.parent.clone().unwrap(), driver.state.clone());
        for n in 0..2 {
            driver.step(&home.store, StepKind::Model, Next::End, say(&format!("a{turn}-{n}"), "an answer")).await;
        }
        let retried = say(&format!("b{turn}"), "a better answer");
        branch(&mut driver, &home.store, Some((&id, &state)), retried).await;
    }
    let state = home.store.load(&driver.lineage, None).await.unwrap().unwrap().state;
    assert_eq!(state, driver.state);
    home.store.close().await;
    let log = count(&home.path, "SELECT sum(length(updates) + 200) FROM steps").await;
    let snapshots = count(&home.path, "SELECT sum(length(messages) + length(channels)) FROM snapshots").await;
    let number = count(&home.path, "SELECT count(*) FROM snapshots").await;
    assert!(number > 5 && snapshots <= 2 * log, "{number} snapshots of {snapshots} bytes, log of {log}");
}

/// A commit on one of the checkpoints so far, or on none; `None` goes on from the head.
type Move = (Option<prop::sample::Index>, bool, u8, bool);

async fn grow(moves: Vec<Move>) {
    let home = home_with(StoreOptions { snapshot_frequency: 1, ..StoreOptions::default() }).await;
    let cold = SqliteStore::open(&home.path, StoreOptions { cache_bytes: 0, ..StoreOptions::default() }).await.unwrap();
    let mut driver = Driver::bare("t");
    // The plain model: whole states.
    let mut tree: Vec<(CheckpointId, Option<CheckpointId>, ThreadState)> = Vec::new();
    for (n, (to, afresh, message, long)) in moves.into_iter().enumerate() {
        let base = match (to, afresh) {
            _ if tree.is_empty() => None,
            (Some(_), true) => None,
            (Some(index), false) => Some(index.get(&tree).clone()),
            (None, _) => tree.last().cloned(),
        };
        let text = if long { "long ".repeat(200) } else { format!("{n}") };
        let update = say(&format!("m{}", message % 20), &text);
        driver.parent = base.as_ref().map(|(id, ..)| id.clone());
        driver.state = base.as_ref().map(|(.., state)| state.clone()).unwrap_or_default();
        let mut commit = driver.commit(StepKind::Model, Next::Model, vec![frame("n", update)]);
        commit.branch = to.is_some();
        let id = driver.send(&home.store, commit).await.unwrap().checkpoint_id.unwrap();
        tree.push((id, base.map(|(id, ..)| id), driver.state.clone()));
    }
    for store in [&home.store, &cold] {
        let head = store.load(&driver.lineage, None).await.unwrap().unwrap();
        assert_eq!(head.state, tree.last().unwrap().2);
        for (id, parent, state) in &tree {
            let loaded = store.load(&driver.lineage, Some(id)).await.unwrap().unwrap();
            assert_eq!((&loaded.parent, &loaded.state), (parent, state));
        }
        let mut listed: Vec<_> =
            store.history(&driver.lineage, None, 500).await.unwrap().into_iter().map(|e| (e.id, e.parent)).collect();
        listed.reverse();
        assert_eq!(listed, tree.iter().map(|(id, parent, _)| (id.clone(), parent.clone())).collect::<Vec<_>>());
    }
    cold.close().await;
    home.store.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn any_tree_of_commits_loads_like_whole_states(
        moves in prop::collection::vec(
            (prop::option::weighted(0.4, any::<prop::sample::Index>()), prop::bool::weighted(0.1), any::<u8>(),
                any::<bool>()), 1..80)
    ) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(grow(moves));
    }
}
