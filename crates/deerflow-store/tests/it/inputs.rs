//! What users say while a run works.

use crate::support::{Driver, count, fence, frame, home, new_run, outcome, thread_id, worker};
use deerflow_core::ports::{
    Fence, InputQueue as _, InputRow, InputState, NewInput, QUEUED_INPUTS, RunRepo as _, StepKind, StepLog as _,
    ThreadRepo as _,
};
use deerflow_core::run::Next;
use deerflow_core::{CheckpointId, Message, RunId, RunStatus, StateUpdate, StoreError, UserId};
use deerflow_store::{SqliteStore, StoreOptions};
use pretty_assertions::assert_eq;
use serde_json::json;

fn input(run_id: &RunId, id: &str) -> NewInput {
    NewInput {
        run_input_id: id.to_owned(),
        run_id: run_id.clone(),
        content: Message::human(format!("please {id}")).with_id(id),
        created_by: UserId::local(),
    }
}

async fn enqueue(store: &SqliteStore, run_id: &RunId, id: &str) -> InputRow {
    store.enqueue(&UserId::local(), input(run_id, id)).await.unwrap()
}

async fn queued(store: &SqliteStore, run_id: &RunId) -> Vec<String> {
    store.queued(run_id).await.unwrap().into_iter().map(|row| row.run_input_id).collect()
}

async fn returned(store: &SqliteStore, thread: &str) -> Vec<String> {
    let rows = store.returned(&UserId::local(), &thread_id(thread)).await.unwrap();
    rows.into_iter().map(|row| row.run_input_id).collect()
}

/// The step that delivers these inputs: messages and `applied_run_inputs`, as input control writes them.
fn delivery(driver: &mut Driver, rows: &[InputRow], before: &[&str]) -> deerflow_core::ports::StepCommit {
    let ids: Vec<_> =
        before.iter().map(|id| (*id).to_owned()).chain(rows.iter().map(|row| row.run_input_id.clone())).collect();
    let applied = json!({"run_id": driver.run_id, "ids": ids, "last_seq": rows.last().map(|row| row.seq)});
    let update = StateUpdate {
        applied_run_inputs: applied.as_object().cloned(),
        ..StateUpdate::messages(rows.iter().map(|row| row.content.clone()))
    };
    driver.commit(StepKind::Model, Next::Model, vec![frame("InputControl.before_model", update)])
}

fn said(driver: &Driver) -> Vec<String> {
    driver.state.messages.iter().map(|message| message.text().into_owned()).collect()
}

#[tokio::test]
async fn inputs_wait_in_order_and_the_step_that_shows_them_takes_them() {
    let home = home().await;
    let mut driver = Driver::admitted(&home.store, "t").await;
    let run = driver.run_id.clone().unwrap();
    let other = Driver::admitted(&home.store, "u").await.run_id.unwrap();
    driver.step(&home.store, StepKind::Input, Next::Model, StateUpdate::none()).await;
    let first = enqueue(&home.store, &run, "b").await;
    assert_eq!((first.seq, first.state, &first.run_id, first.thread_id.as_str()), (1, InputState::Queued, &run, "t"));
    assert_eq!((first.content.text().as_ref(), first.created_by.as_str()), ("please b", "default"));
    enqueue(&home.store, &run, "a").await;
    enqueue(&home.store, &other, "a").await;
    assert_eq!(queued(&home.store, &run).await, ["b", "a"]);

    let rows = home.store.queued(&run).await.unwrap();
    let commit = delivery(&mut driver, &rows[..1], &[]);
    driver.send(&home.store, commit).await.unwrap();
    assert_eq!(queued(&home.store, &run).await, ["a"]);
    enqueue(&home.store, &run, "c").await;
    let rows = home.store.queued(&run).await.unwrap();
    let commit = delivery(&mut driver, &rows, &["b"]);
    driver.send(&home.store, commit).await.unwrap();
    assert_eq!(queued(&home.store, &run).await, Vec::<String>::new());
    assert_eq!(said(&driver), ["please b", "please a", "please c"]);
    assert_eq!(queued(&home.store, &other).await, ["a"], "the same id in another thread");
}

#[tokio::test]
async fn the_same_id_is_the_same_input_for_ever() {
    let home = home().await;
    let mut driver = Driver::admitted(&home.store, "t").await;
    let run = driver.run_id.clone().unwrap();
    driver.step(&home.store, StepKind::Input, Next::Model, StateUpdate::none()).await;
    let first = enqueue(&home.store, &run, "a").await;
    let mut changed = input(&run, "a");
    changed.content = Message::human("something else").with_id("a");
    assert_eq!(home.store.enqueue(&UserId::local(), changed.clone()).await.unwrap(), first);
    let commit = delivery(&mut driver, std::slice::from_ref(&first), &[]);
    driver.send(&home.store, commit).await.unwrap();
    let known = home.store.enqueue(&UserId::local(), changed.clone()).await.unwrap();
    assert_eq!(known, InputRow { state: InputState::Acknowledged, ..first.clone() });
    driver.end(&home.store, RunStatus::Success).await;
    assert_eq!(home.store.enqueue(&UserId::local(), changed).await.unwrap(), known, "after the end too");
    assert_eq!(count(&home.path, "SELECT count(*) FROM run_inputs").await, 1);
}

#[tokio::test]
async fn inputs_that_cannot_be_taken_are_refused_by_name() {
    let home = home().await;
    let user = UserId::local();
    let row = home.store.admit(new_run("t")).await.unwrap();
    let eve = home.store.enqueue(&UserId::parse("eve").unwrap(), input(&row.run_id, "a")).await.unwrap_err();
    assert!(matches!(&eve, StoreError::NotFound { what: "run", .. }), "{eve}");
    for id in ["", "a\nb", &"x".repeat(129)] {
        let error = home.store.enqueue(&user, input(&row.run_id, id)).await.unwrap_err();
        assert!(matches!(&error, StoreError::BadInput { field: "run_input_id", .. }), "{error}");
    }
    for n in 0..QUEUED_INPUTS {
        enqueue(&home.store, &row.run_id, &n.to_string()).await;
    }
    let error = home.store.enqueue(&user, input(&row.run_id, "more")).await.unwrap_err();
    assert!(matches!(&error, StoreError::QueueFull { limit: QUEUED_INPUTS, .. }), "{error}");
    assert_eq!(enqueue(&home.store, &row.run_id, "5").await.seq, 6, "a known one needs no room");
    home.store.finish(&fence(&row), outcome(RunStatus::Interrupted), vec![]).await.unwrap();
    let error = home.store.enqueue(&user, input(&row.run_id, "late")).await.unwrap_err();
    assert_eq!(error.to_string(), format!("run {} is over (interrupted); start a new run", row.run_id));
    assert_eq!(home.store.returned(&user, &row.thread_id).await.unwrap().len(), QUEUED_INPUTS as usize);
}

#[tokio::test]
async fn what_a_run_leaves_behind_is_the_next_ones() {
    let home = home().await;
    let (user, eve) = (UserId::local(), UserId::parse("eve").unwrap());
    // It ends with a step, or without one.
    for (thread, with_step) in [("t", true), ("u", false)] {
        let mut driver = Driver::admitted(&home.store, thread).await;
        let run = driver.run_id.clone().unwrap();
        driver.step(&home.store, StepKind::Input, Next::Model, StateUpdate::none()).await;
        for id in ["a", "b", "c"] {
            enqueue(&home.store, &run, id).await;
        }
        let rows = home.store.queued(&run).await.unwrap();
        let commit = delivery(&mut driver, &rows[..1], &[]);
        driver.send(&home.store, commit).await.unwrap();
        let old = driver.fence.clone().unwrap();
        if with_step {
            driver.end(&home.store, RunStatus::Success).await;
        } else {
            home.store.finish(&old, outcome(RunStatus::Interrupted), vec![]).await.unwrap();
        }
        assert_eq!((queued(&home.store, &run).await, returned(&home.store, thread).await.len()), (vec![], 2));
        assert_eq!(home.store.returned(&eve, &thread_id(thread)).await.unwrap(), vec![]);
        assert!(matches!(home.store.take_returned(&old).await, Err(StoreError::Fenced { .. })), "it is over");

        let next = home.store.admit(new_run(thread)).await.unwrap();
        driver.under(&next);
        enqueue(&home.store, &next.run_id, "d").await;
        let taken = home.store.take_returned(&fence(&next)).await.unwrap();
        let shown: Vec<_> = taken.iter().map(|row| (row.run_input_id.as_str(), row.seq, row.state)).collect();
        assert_eq!(shown, [("b", 2, InputState::Queued), ("c", 3, InputState::Queued)]);
        assert_eq!(home.store.take_returned(&fence(&next)).await.unwrap(), vec![]);
        // A crash before the commit loses nothing: they wait.
        assert_eq!(queued(&home.store, &next.run_id).await, ["b", "c", "d"]);
        let rows = home.store.queued(&next.run_id).await.unwrap();
        let commit = delivery(&mut driver, &rows, &[]);
        driver.send(&home.store, commit).await.unwrap();
        assert_eq!((queued(&home.store, &next.run_id).await, returned(&home.store, thread).await), (vec![], vec![]));
        driver.end(&home.store, RunStatus::Success).await;
    }
    home.store.delete_thread(&user, &thread_id("t")).await.unwrap();
    home.store.delete_thread(&user, &thread_id("u")).await.unwrap();
    assert_eq!(count(&home.path, "SELECT count(*) FROM run_inputs").await, 0);
}

#[tokio::test]
async fn a_run_can_give_its_inputs_back() {
    let home = home().await;
    let row = home.store.admit(new_run("t")).await.unwrap();
    enqueue(&home.store, &row.run_id, "a").await;
    let stale = Fence { epoch: 9, ..fence(&row) };
    assert!(matches!(home.store.release(&stale).await, Err(StoreError::Fenced { .. })));
    assert_eq!(home.store.release(&fence(&row)).await.unwrap(), 1);
    assert_eq!(home.store.release(&fence(&row)).await.unwrap(), 0);
    assert_eq!(returned(&home.store, "t").await, ["a"]);
}

#[tokio::test]
async fn a_crash_on_either_side_of_the_commit_applies_an_input_once() {
    for after in [false, true] {
        let home = home().await;
        let mut driver = Driver::admitted(&home.store, "t").await;
        let run = driver.run_id.clone().unwrap();
        driver.step(&home.store, StepKind::Input, Next::Model, StateUpdate::none()).await;
        enqueue(&home.store, &run, "a").await;
        let (parent, before) = (driver.parent.clone(), driver.state.clone());
        let rows = home.store.queued(&run).await.unwrap();
        let lost = delivery(&mut driver, &rows, &[]);
        if after {
            // The answer is lost, not the write.
            home.store.commit(lost.clone()).await.unwrap();
        } else {
            (driver.parent, driver.state) = (parent, before);
        }
        home.store.close().await;
        let second = SqliteStore::open(&home.path, StoreOptions::default()).await.unwrap();
        let row = second.adopt(&run, 1, &worker("beta")).await.unwrap();
        let head = second.load(&driver.lineage, None).await.unwrap().unwrap();
        driver.under(&row);
        (driver.parent, driver.state, driver.step) = (Some(head.id), head.state, head.step + 1);
        let rows = second.queued(&run).await.unwrap();
        assert_eq!(rows.len(), usize::from(!after));
        if !rows.is_empty() {
            let commit = delivery(&mut driver, &rows, &[]);
            driver.send(&second, commit).await.unwrap();
        }
        assert_eq!(said(&driver), ["please a"]);
        assert_eq!(queued(&second, &run).await, Vec::<String>::new());
        second.close().await;
    }
}

#[tokio::test]
async fn a_worker_that_lost_its_run_acknowledges_nothing() {
    let home = home().await;
    let mut old = Driver::admitted(&home.store, "t").await;
    let run = old.run_id.clone().unwrap();
    old.step(&home.store, StepKind::Input, Next::Model, StateUpdate::none()).await;
    enqueue(&home.store, &run, "a").await;
    let rows = home.store.queued(&run).await.unwrap();
    let late = delivery(&mut old, &rows, &[]);
    let row = home.store.adopt(&run, 1, &worker("beta")).await.unwrap();
    assert!(matches!(home.store.commit(late.clone()).await, Err(StoreError::Fenced { .. })));
    // Nor does a step that is refused for its parent.
    let mut stale = late;
    (stale.fence, stale.parent) = (Some(fence(&row)), Some(CheckpointId::next()));
    assert!(matches!(home.store.commit(stale).await, Err(StoreError::StaleParent { .. })));
    assert_eq!(queued(&home.store, &run).await, ["a"]);
    let mut new = Driver::bare("t");
    new.under(&row);
    (new.parent, new.step) = (old.parent.clone(), old.step);
    let commit = delivery(&mut new, &rows, &[]);
    new.send(&home.store, commit).await.unwrap();
    assert_eq!((said(&new), queued(&home.store, &run).await), (vec!["please a".to_owned()], vec![]));
}
