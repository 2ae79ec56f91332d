use crate::support::{Driver, count, event, fence, home, new_run, outcome};
use deerflow_core::ports::{EffectRecord, RunRepo as _, StepKind, StepLog as _, ThreadRepo as _};
use deerflow_core::run::Next;
use deerflow_core::{Message, RunStatus, StateUpdate, StoreError, UserId};
use pretty_assertions::assert_eq;
use serde_json::json;

#[tokio::test]
async fn threads_are_listed_most_recently_used_first() {
    let home = home().await;
    for thread in ["a", "b", "c", "a"] {
        let row = home.store.admit(new_run(thread)).await.unwrap();
        home.store.finish(&fence(&row), outcome(RunStatus::Success), vec![]).await.unwrap();
    }
    let list = async |limit, offset| -> Vec<String> {
        let rows = home.store.threads(&UserId::local(), limit, offset).await.unwrap();
        rows.into_iter().map(|row| row.thread_id.to_string()).collect()
    };
    assert_eq!(list(10, 0).await, ["a", "c", "b"]);
    assert_eq!(list(1, 1).await, ["c"]);
    assert_eq!(list(10, 3).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_deleted_thread_leaves_nothing_and_its_neighbour_everything() {
    let home = home().await;
    let mut neighbour = Driver::admitted(&home.store, "b").await;
    neighbour
        .step(&home.store, StepKind::Input, Next::Model, StateUpdate::messages([Message::human("same").with_id("1")]))
        .await;
    let rows_before = total(&home.path).await;

    let mut driver = Driver::admitted(&home.store, "a").await;
    for n in 0..60 {
        let update = StateUpdate::messages([Message::human("same").with_id(n.to_string())]);
        let mut commit = driver.commit(StepKind::Model, Next::Tools, vec![crate::support::frame("n", update)]);
        commit.events = vec![event(json!("x".repeat(1000)))];
        driver.send(&home.store, commit).await.unwrap();
    }
    let mut effects = driver.commit(StepKind::Effects, Next::Tools, vec![]);
    effects.effects =
        vec![EffectRecord::Started { step: 1, index: 0, call_id: "c".into(), tool: "t".into(), fingerprint: None }];
    driver.send(&home.store, effects).await.unwrap();
    let user = UserId::local();
    let id = driver.lineage.thread_id.clone();

    let busy = home.store.delete_thread(&user, &id).await.unwrap_err();
    assert!(
        matches!(&busy, StoreError::ThreadBusy { run_id, .. } if *run_id == driver.run_id.as_ref().unwrap().to_string())
    );
    home.store.finish(driver.fence.as_ref().unwrap(), outcome(RunStatus::Interrupted), vec![]).await.unwrap();
    home.store.delete_thread(&user, &id).await.unwrap();

    assert_eq!(total(&home.path).await, rows_before);
    assert!(home.store.load(&driver.lineage, None).await.unwrap().is_none());
    assert!(matches!(home.store.delete_thread(&user, &id).await, Err(StoreError::NotFound { what: "thread", .. })));
    let late = driver.commit(StepKind::Model, Next::End, vec![]);
    assert!(matches!(home.store.commit(late).await, Err(StoreError::Fenced { .. })), "it does not come back to life");
    assert_eq!(home.store.load(&neighbour.lineage, None).await.unwrap().unwrap().state, neighbour.state);

    home.store.compact().await.unwrap();
    assert_eq!(count(&home.path, "SELECT freelist_count FROM pragma_freelist_count").await, 0);
}

async fn total(path: &std::path::Path) -> i64 {
    count(
        path,
        "SELECT (SELECT count(*) FROM threads) + (SELECT count(*) FROM runs) + (SELECT count(*) FROM lineages)
            + (SELECT count(*) FROM steps) + (SELECT count(*) FROM snapshots) + (SELECT count(*) FROM effects)
            + (SELECT count(*) FROM blobs) + (SELECT count(*) FROM events)",
    )
    .await
}
