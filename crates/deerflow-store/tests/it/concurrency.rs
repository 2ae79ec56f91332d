use crate::support::{Driver, count, event, home, new_run};
use deerflow_core::ports::{EventRepo as _, RunRepo as _, StepKind, StepLog as _};
use deerflow_core::run::Next;
use deerflow_core::{Message, RunStatus, StateUpdate, StoreError};
use deerflow_store::{SqliteStore, StoreOptions};
use futures::future::join_all;
use pretty_assertions::assert_eq;
use serde_json::json;
use std::sync::Arc;

/// A run of `steps` turns, a journal row each.
async fn whole_run(store: &SqliteStore, thread: &str, steps: usize) -> Driver {
    let mut driver = Driver::admitted(store, thread).await;
    for n in 0..steps {
        let update = StateUpdate::messages([Message::ai(format!("{thread} {n}")).with_id(n.to_string())]);
        let mut commit = driver.commit(StepKind::Model, Next::Model, vec![crate::support::frame("model", update)]);
        commit.events = vec![event(json!({"n": n}))];
        driver.send(store, commit).await.unwrap();
    }
    driver.end(store, RunStatus::Success).await;
    driver
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_threads_at_once_each_get_their_own_history() {
    let home = home().await;
    let names: Vec<_> = (0..64).map(|n| format!("t{n}")).collect();
    let drivers = join_all(names.iter().map(|name| whole_run(&home.store, name, 12))).await;
    for driver in drivers {
        assert_eq!(home.store.load(&driver.lineage, None).await.unwrap().unwrap().state, driver.state);
        let rows = home.store.journal(&driver.lineage.thread_id, None, 0, 100).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), (1..=12).collect::<Vec<_>>());
    }
    home.store.close().await;
    assert_eq!(count(&home.path, "SELECT count(*) FROM steps").await, 64 * 13);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_commit_does_not_take_its_neighbours_down() {
    let home = home().await;
    let mut good: Vec<_> = Vec::new();
    for n in 0..20 {
        good.push(Driver::admitted(&home.store, &format!("t{n}")).await);
    }
    let mut stale = Driver::admitted(&home.store, "stale").await;
    stale.parent = Some(deerflow_core::CheckpointId::next());
    let bad = stale.commit(StepKind::Input, Next::Model, vec![]);
    let store = &home.store;
    let (good, bad) = tokio::join!(
        join_all(good.iter_mut().map(|driver| driver.step(store, StepKind::Input, Next::Model, StateUpdate::none()))),
        join_all((0..20).map(|_| store.commit(bad.clone()))),
    );
    assert_eq!(good.len(), 20);
    assert!(bad.iter().all(|result| matches!(result, Err(StoreError::StaleParent { .. }))), "{bad:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_admissions_at_once_exactly_one_wins() {
    // BR-055, BR-056: two messages at once work from one snapshot, or make two threads.
    let home = home().await;
    let results = join_all((0..30).map(|_| home.store.admit(new_run("t")))).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert!(results.iter().all(|r| matches!(r, Ok(_) | Err(StoreError::ThreadBusy { .. }))), "{results:?}");
    assert_eq!(count(&home.path, "SELECT count(*) FROM threads").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_on_one_file_share_it() {
    let home = home().await;
    // Opened at the same time, on a new file too.
    let fresh = home.path.with_file_name("fresh.db");
    let opened = join_all((0..4).map(|_| SqliteStore::open(&fresh, StoreOptions::default()))).await;
    let stores: Vec<_> = opened.into_iter().map(|store| Arc::new(store.unwrap())).collect();
    let runs = (0..16).map(|n| {
        let store = stores[n % stores.len()].clone();
        async move { whole_run(&store, &format!("t{n}"), 6).await }
    });
    let mut drivers = join_all(runs).await;

    // A head that another store moved is not served from memory.
    let driver = &mut drivers[0];
    (driver.fence, driver.run_id) = (None, None);
    driver
        .step(&stores[1], StepKind::Edit, Next::Done, StateUpdate { title: Some("b".into()), ..StateUpdate::none() })
        .await;
    assert_eq!(stores[0].load(&driver.lineage, None).await.unwrap().unwrap().state, driver.state);
    for store in stores {
        store.close().await;
    }
    assert_eq!(count(&fresh, "SELECT count(*) FROM steps").await, 16 * 7 + 1);
}

#[tokio::test]
async fn closing_writes_what_was_accepted_and_refuses_the_rest() {
    let home = home().await;
    let mut drivers = Vec::new();
    for n in 0..10 {
        drivers.push(Driver::bare(&format!("t{n}")));
    }
    let commits: Vec<_> = drivers.iter_mut().map(|d| d.commit(StepKind::Input, Next::Model, vec![])).collect();
    let (results, ()) = tokio::join!(join_all(commits.into_iter().map(|c| home.store.commit(c))), home.store.close());
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let error = home.store.commit(drivers[0].commit(StepKind::Input, Next::Model, vec![])).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(matches!(home.store.load(&drivers[0].lineage, None).await, Err(StoreError::Unavailable { .. })));
    assert_eq!(count(&home.path, "SELECT count(*) FROM steps").await, 10);
    let log = home.path.with_file_name("deerflow.db-wal");
    assert!(!log.exists() || log.metadata().unwrap().len() == 0, "the log was cut");
}

#[tokio::test]
async fn a_reader_in_the_way_delays_no_write() {
    let home = crate::support::home_with(StoreOptions {
        idle: std::time::Duration::from_millis(1),
        ..StoreOptions::default()
    })
    .await;
    let mut driver = Driver::bare("t");
    driver.step(&home.store, StepKind::Input, Next::Model, StateUpdate::none()).await;
    // A foreign reader that keeps its view: the log cannot be cut, and is tried again and again.
    let mut reader = crate::support::raw(&home.path).await;
    sqlx::query("BEGIN").execute(&mut reader).await.unwrap();
    let seen: i64 = sqlx::query_scalar("SELECT count(*) FROM steps").fetch_one(&mut reader).await.unwrap();
    for n in 0..30 {
        let update = StateUpdate::messages([Message::ai("x").with_id(n.to_string())]);
        let step = driver.step(&home.store, StepKind::Model, Next::Model, update);
        tokio::time::timeout(std::time::Duration::from_secs(5), step).await.unwrap();
        // Time for the writer to find itself idle.
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    assert_eq!(sqlx::query_scalar::<_, i64>("SELECT count(*) FROM steps").fetch_one(&mut reader).await.unwrap(), seen);
    sqlx::query("COMMIT").execute(&mut reader).await.unwrap();
    home.store.close().await;
    assert_eq!(count(&home.path, "SELECT count(*) FROM steps").await, 31);
}

#[tokio::test]
async fn a_dropped_store_still_writes_what_it_accepted() {
    let home = home().await;
    let path = home.path.clone();
    let mut driver = Driver::bare("t");
    let commit = driver.commit(StepKind::Input, Next::Model, vec![]);
    driver.send(&home.store, commit).await.unwrap();
    let crate::support::Home { store, folder, .. } = home;
    drop(store);
    assert_eq!(count(&path, "SELECT count(*) FROM steps").await, 1);
    drop(folder);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_nobody_waits_for_is_whole_or_absent_and_blocks_nobody() {
    let home = home().await;
    let second = SqliteStore::open(&home.path, StoreOptions::default()).await.unwrap();
    let mut driver = Driver::admitted(&home.store, "t").await;
    let mut other = Driver::admitted(&second, "u").await;
    driver.step(&home.store, StepKind::Input, Next::Model, StateUpdate::none()).await;
    other.step(&second, StepKind::Input, Next::Model, StateUpdate::none()).await;
    let (mut written, mut absent) = (0, 0);
    for n in 0..150_u32 {
        let before = driver.state.clone();
        let update = StateUpdate::messages([Message::ai("x".repeat(20_000)).with_id(n.to_string())]);
        let mut commit = driver.commit(StepKind::Model, Next::Model, vec![crate::support::frame("model", update)]);
        commit.events = (0..50).map(|k| event(json!({"k": k}))).collect();
        // Polled a few times, and let go.
        let mut write = Box::pin(home.store.commit(commit));
        for _ in 0..n % 5 {
            if futures::poll!(&mut write).is_ready() {
                break;
            }
            for _ in 0..n % 7 {
                tokio::task::yield_now().await;
            }
        }
        drop(write);
        if n % 10 == 0 {
            // Another process is not held up by a transaction that nobody ends.
            let update = StateUpdate::messages([Message::ai("other").with_id(n.to_string())]);
            other.step(&second, StepKind::Model, Next::Model, update).await;
        }
        // Whoever writes next knows what became of it: it is the head, or its parent is.
        let marker = Driver::bare("marker").commit(StepKind::Effects, Next::Model, vec![]);
        drop(home.store.commit(marker).await);
        let head = home.store.load(&driver.lineage, None).await.unwrap().unwrap();
        if Some(&head.id) == driver.parent.as_ref() {
            driver.state = before;
            absent += 1;
        } else {
            assert_eq!(head.parent, driver.parent);
            driver.parent = Some(head.id);
            driver.step += 1;
            written += 1;
        }
        assert_eq!(head.state, driver.state);
    }
    println!("{written} written, {absent} absent");
    assert!(absent > 0);
    let rows = home.store.journal(&driver.lineage.thread_id, None, 0, 20_000).await.unwrap();
    assert_eq!(rows.len(), written * 50);
    second.close().await;
    home.store.close().await;
    assert_eq!(count(&home.path, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'").await, 0);
}
