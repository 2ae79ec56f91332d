use crate::support::{Driver, event, fence, home, new_run, outcome, worker};
use deerflow_core::ports::{EventRepo as _, Fence, RunFilter, RunRepo as _, StepKind, StepLog as _, ThreadRepo as _};
use deerflow_core::run::Next;
use deerflow_core::{Lineage, Message, RunId, RunStatus, StateUpdate, StoreError, Usage, UserId};
use pretty_assertions::assert_eq;
use serde_json::json;

#[tokio::test]
async fn an_admitted_run_reads_back_as_it_was_given() {
    let home = home().await;
    let run = new_run("t");
    let row = home.store.admit(run.clone()).await.unwrap();
    assert_eq!(row.run_id, run.run_id);
    assert_eq!(row.status, RunStatus::Pending);
    assert_eq!((row.epoch, row.worker.clone()), (1, worker("alpha")));
    assert_eq!((row.input.clone(), row.options.clone()), (run.input, run.options));
    assert_eq!((row.error.clone(), row.stop_reason.clone(), row.usage.clone()), (None, None, Usage::default()));
    assert!(row.created_at > 1_700_000_000_000_000);
    assert_eq!(home.store.run(&row.run_id).await.unwrap(), Some(row.clone()));
    assert_eq!(home.store.run(&RunId::random()).await.unwrap(), None);
    let thread = home.store.thread(&UserId::local(), &row.thread_id).await.unwrap().unwrap();
    assert_eq!(thread.status, "busy");
}

#[tokio::test]
async fn a_second_run_of_a_thread_is_refused_and_told_who_holds_it() {
    let home = home().await;
    let first = home.store.admit(new_run("t")).await.unwrap();
    let error = home.store.admit(new_run("t")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("thread t has an active run {} (held by process 1 on host alpha)", first.run_id)
    );
    home.store.finish(&fence(&first), outcome(RunStatus::Error), vec![]).await.unwrap();
    home.store.admit(new_run("t")).await.unwrap();
}

#[tokio::test]
async fn the_same_idempotency_key_gives_the_same_run() {
    let home = home().await;
    let mut run = new_run("t");
    run.idempotency_key = Some("k".into());
    let first = home.store.admit(run.clone()).await.unwrap();
    run.run_id = RunId::random();
    assert_eq!(home.store.admit(run.clone()).await.unwrap(), first);
    // After its end too, and per thread.
    home.store.finish(&fence(&first), outcome(RunStatus::Success), vec![]).await.unwrap();
    assert_eq!(home.store.admit(run.clone()).await.unwrap().run_id, first.run_id);
    run.thread_id = crate::support::thread_id("u");
    assert_eq!(home.store.admit(run.clone()).await.unwrap().run_id, run.run_id);
}

#[tokio::test]
async fn a_run_id_that_exists_is_refused_and_leaves_nothing() {
    let home = home().await;
    let run = new_run("t");
    let row = home.store.admit(run.clone()).await.unwrap();
    let mut again = run;
    again.thread_id = crate::support::thread_id("u");
    let error = home.store.admit(again.clone()).await.unwrap_err();
    assert!(matches!(&error, StoreError::Database(text) if text.contains(row.run_id.as_str())), "{error}");
    assert_eq!(home.store.thread(&UserId::local(), &again.thread_id).await.unwrap(), None);
}

#[tokio::test]
async fn a_late_writer_is_fenced_out_after_another_worker_adopted_its_run() {
    let home = home().await;
    let mut old = Driver::admitted(&home.store, "t").await;
    old.step(&home.store, StepKind::Input, Next::Model, StateUpdate::messages([Message::human("a").with_id("1")]))
        .await;
    let row = home.store.adopt(old.run_id.as_ref().unwrap(), 1, &worker("beta")).await.unwrap();
    assert_eq!((row.epoch, row.worker.clone(), row.status), (2, worker("beta"), RunStatus::Pending));

    let stale = old.fence.clone().unwrap();
    let late = old.commit(StepKind::Model, Next::End, vec![]);
    for error in [
        home.store.commit(late.clone()).await.unwrap_err(),
        home.store.start(&stale).await.unwrap_err(),
        home.store.finish(&stale, outcome(RunStatus::Error), vec![event(json!(1))]).await.unwrap_err(),
        home.store.adopt(&row.run_id, 1, &worker("gamma")).await.unwrap_err(),
    ] {
        assert!(matches!(&error, StoreError::Fenced { run_id } if *run_id == row.run_id.to_string()), "{error}");
    }
    assert_eq!(home.store.journal(&row.thread_id, None, 0, 10).await.unwrap(), vec![]);
    assert_eq!(home.store.history(&old.lineage, None, 10).await.unwrap().len(), 1);

    old.fence = Some(fence(&row));
    let committed = home.store.commit(late).await;
    assert!(matches!(committed, Err(StoreError::Fenced { .. })), "the commit carries its own fence");
    old.end(&home.store, RunStatus::Success).await;
    assert_eq!(home.store.run(&row.run_id).await.unwrap().unwrap().status, RunStatus::Success);
}

#[tokio::test]
async fn a_fence_holds_in_its_own_thread_only() {
    let home = home().await;
    let a = Driver::admitted(&home.store, "a").await;
    let mut b = Driver::admitted(&home.store, "b").await;
    b.fence = a.fence.clone();
    let commit = b.commit(StepKind::Input, Next::Model, vec![]);
    assert!(matches!(home.store.commit(commit).await, Err(StoreError::Fenced { .. })));
    assert!(home.store.load(&Lineage::root(crate::support::thread_id("b")), None).await.unwrap().is_none());
}

#[tokio::test]
async fn an_interrupted_run_can_be_adopted_a_successful_one_cannot() {
    let home = home().await;
    let row = home.store.admit(new_run("t")).await.unwrap();
    home.store.start(&fence(&row)).await.unwrap();
    assert_eq!(home.store.run(&row.run_id).await.unwrap().unwrap().status, RunStatus::Running);
    home.store.finish(&fence(&row), outcome(RunStatus::Interrupted), vec![]).await.unwrap();
    assert_eq!(home.store.thread(&row.user_id, &row.thread_id).await.unwrap().unwrap().status, "interrupted");
    assert!(matches!(home.store.start(&fence(&row)).await, Err(StoreError::Fenced { .. })), "it is over");

    let other = home.store.admit(new_run("t")).await.unwrap();
    let error = home.store.adopt(&row.run_id, 1, &worker("beta")).await.unwrap_err();
    assert!(matches!(&error, StoreError::ThreadBusy { run_id, .. } if *run_id == other.run_id.to_string()), "{error}");
    home.store.finish(&fence(&other), outcome(RunStatus::Success), vec![]).await.unwrap();

    let adopted = home.store.adopt(&row.run_id, 1, &worker("beta")).await.unwrap();
    assert_eq!((adopted.status, adopted.epoch), (RunStatus::Running, 2));
    assert_eq!(home.store.thread(&row.user_id, &row.thread_id).await.unwrap().unwrap().status, "busy");
    assert!(matches!(home.store.adopt(&other.run_id, 1, &worker("beta")).await, Err(StoreError::NotFound { .. })));
    assert!(matches!(home.store.adopt(&RunId::random(), 1, &worker("b")).await, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn the_last_step_ends_the_run_and_the_thread_with_it() {
    let home = home().await;
    for (status, thread_status) in [
        (RunStatus::Success, "idle"),
        (RunStatus::Error, "error"),
        (RunStatus::Timeout, "error"),
        (RunStatus::Interrupted, "interrupted"),
        (RunStatus::RolledBack, "idle"),
    ] {
        let mut driver = Driver::admitted(&home.store, status.as_str()).await;
        driver
            .step(
                &home.store,
                StepKind::Input,
                Next::Model,
                StateUpdate { title: Some("T".into()), ..StateUpdate::default() },
            )
            .await;
        let mut commit = driver.commit(StepKind::End, Next::Done, vec![]);
        let mut end = outcome(status);
        end.error = Some("why".into());
        end.stop_reason = Some("limit".into());
        commit.outcome = Some(end);
        driver.send(&home.store, commit).await.unwrap();
        let row = home.store.run(driver.run_id.as_ref().unwrap()).await.unwrap().unwrap();
        assert_eq!(
            (row.status, row.usage, row.error.as_deref(), row.stop_reason.as_deref()),
            (status, Usage::new(10, 5), Some("why"), Some("limit"))
        );
        let thread = home.store.thread(&row.user_id, &row.thread_id).await.unwrap().unwrap();
        assert_eq!((thread.status.as_str(), thread.title.as_deref()), (thread_status, Some("T")));
        assert!(thread.updated_at >= thread.created_at);
    }
}

#[tokio::test]
async fn runs_are_listed_newest_first_and_filtered() {
    let home = home().await;
    let mut ids = Vec::new();
    for thread in ["a", "a", "b"] {
        let row = home.store.admit(new_run(thread)).await.unwrap();
        home.store.finish(&fence(&row), outcome(RunStatus::RolledBack), vec![]).await.unwrap();
        ids.push(row.run_id);
    }
    let live = home.store.admit(new_run("c")).await.unwrap();
    ids.push(live.run_id.clone());
    ids.reverse();
    let list = async |filter: RunFilter| -> Vec<RunId> {
        home.store.runs(&UserId::local(), filter).await.unwrap().into_iter().map(|row| row.run_id).collect()
    };
    assert_eq!(list(RunFilter::default()).await, ids);
    assert_eq!(list(RunFilter { limit: 2, ..RunFilter::default() }).await, ids[..2]);
    let a = Some(crate::support::thread_id("a"));
    assert_eq!(list(RunFilter { thread_id: a.clone(), ..RunFilter::default() }).await, ids[2..]);
    let over = vec![RunStatus::Success, RunStatus::RolledBack];
    assert_eq!(list(RunFilter { status: over.clone(), ..RunFilter::default() }).await, ids[1..]);
    assert_eq!(list(RunFilter { status: vec![RunStatus::Pending], ..RunFilter::default() }).await, ids[..1]);
    assert_eq!(
        list(RunFilter { thread_id: a, status: vec![RunStatus::Pending], ..RunFilter::default() }).await,
        vec![]
    );
}

#[tokio::test]
async fn another_users_thread_does_not_exist() {
    let home = home().await;
    let mut driver = Driver::admitted(&home.store, "t").await;
    driver.end(&home.store, RunStatus::Success).await;
    let eve = UserId::parse("eve").unwrap();
    let id = crate::support::thread_id("t");
    let mut run = new_run("t");
    run.user_id = eve.clone();
    assert!(matches!(home.store.admit(run.clone()).await, Err(StoreError::NotFound { what: "thread", .. })));
    // Not through a known key, nor while a run is live.
    let mut keyed = new_run("t");
    keyed.idempotency_key = Some("k".into());
    home.store.admit(keyed).await.unwrap();
    run.idempotency_key = Some("k".into());
    assert!(matches!(home.store.admit(run).await, Err(StoreError::NotFound { what: "thread", .. })));
    assert!(matches!(home.store.delete_thread(&eve, &id).await, Err(StoreError::NotFound { what: "thread", .. })));
    assert_eq!(home.store.thread(&eve, &id).await.unwrap(), None);
    assert_eq!(home.store.threads(&eve, 10, 0).await.unwrap(), vec![]);
    assert_eq!(home.store.runs(&eve, RunFilter::default()).await.unwrap(), vec![]);
    let filter = RunFilter { thread_id: Some(id), ..RunFilter::default() };
    assert_eq!(home.store.runs(&eve, filter).await.unwrap(), vec![]);
}

#[tokio::test]
async fn a_run_that_failed_before_its_first_step_leaves_its_rows() {
    let home = home().await;
    let row = home.store.admit(new_run("t")).await.unwrap();
    let stale = Fence { run_id: row.run_id.clone(), epoch: 7 };
    assert!(matches!(home.store.start(&stale).await, Err(StoreError::Fenced { .. })));
    home.store.finish(&fence(&row), outcome(RunStatus::Error), vec![event(json!({"a": 1}))]).await.unwrap();
    let rows = home.store.journal(&row.thread_id, Some(&row.run_id), 0, 10).await.unwrap();
    assert_eq!(rows.iter().map(|row| (row.seq, row.row.content.clone())).collect::<Vec<_>>(), [(1, json!({"a": 1}))]);
}
