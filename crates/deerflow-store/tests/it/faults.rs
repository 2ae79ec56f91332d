use crate::support::{Driver, count, fence, frame, home, home_with, new_run, outcome, raw};
use deerflow_core::ports::{RunRepo as _, StepKind, StepLog as _, ThreadRepo as _};
use deerflow_core::run::Next;
use deerflow_core::{Message, RunStatus, StateUpdate, StoreError, UserId};
use deerflow_store::{Durability, SqliteStore, StoreOptions};
use pretty_assertions::assert_eq;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

async fn refused(path: &Path) -> String {
    SqliteStore::open(path, StoreOptions::default()).await.unwrap_err().to_string()
}

#[tokio::test]
async fn files_are_private() {
    let home = home().await;
    Driver::admitted(&home.store, "t").await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(home.path.parent().unwrap()), 0o700);
    for suffix in ["", "-wal", "-shm"] {
        assert_eq!(mode(Path::new(&format!("{}{suffix}", home.path.display()))), 0o600, "{suffix}");
    }
}

#[tokio::test]
async fn a_home_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    // A file where the folder should be: refused for root too.
    std::fs::write(folder.path().join("data"), "").unwrap();
    let error = refused(&folder.path().join("data").join("deerflow.db")).await;
    assert!(
        error.contains("its folder cannot be made") && error.contains("hint: set `database.sqlite_dir`"),
        "{error}"
    );
    // Nor can a kernel file system be written.
    let error = refused(Path::new("/proc/deerflow.db")).await;
    assert!(error.starts_with("cannot use the database /proc/deerflow.db"), "{error}");
    // A folder in the place of the file.
    let error = refused(folder.path()).await;
    assert!(error.contains("cannot use the database"), "{error}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deerflow.db");
    let text = "these are my notes\n".repeat(500);
    std::fs::write(&path, &text).unwrap();
    let error = refused(&path).await;
    assert!(error.contains("is not an SQLite database"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_damaged_file_says_so() {
    let home = home().await;
    let mut driver = Driver::admitted(&home.store, "t").await;
    for n in 0..50 {
        driver
            .step(
                &home.store,
                StepKind::Model,
                Next::Model,
                StateUpdate::messages([Message::ai("x".repeat(3000)).with_id(n.to_string())]),
            )
            .await;
    }
    home.store.close().await;
    // Everything but the header.
    let mut bytes = std::fs::read(&home.path).unwrap();
    for byte in &mut bytes[4096..] {
        *byte = 0xa5;
    }
    std::fs::write(&home.path, bytes).unwrap();
    let error = match SqliteStore::open(&home.path, StoreOptions::default()).await {
        Err(error) => error,
        Ok(store) => store.load(&driver.lineage, None).await.unwrap_err(),
    };
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    assert!(error.to_string().contains("hint: restore a backup"), "{error}");
}

#[tokio::test]
async fn lost_rows_are_reported_not_papered_over() {
    let home = home_with(StoreOptions { cache_bytes: 0, ..StoreOptions::default() }).await;
    let mut driver = Driver::bare("t");
    for n in 0..4 {
        driver
            .step(
                &home.store,
                StepKind::Model,
                Next::Model,
                StateUpdate::messages([Message::ai("x").with_id(n.to_string())]),
            )
            .await;
    }
    let mut conn = raw(&home.path).await;
    sqlx::query("DELETE FROM steps WHERE ordinal = 1").execute(&mut conn).await.unwrap();
    let error = home.store.load(&driver.lineage, None).await.unwrap_err();
    assert_eq!(error.to_string(), "stored data is damaged: steps 1 to 1 are missing");
    sqlx::query("DELETE FROM blobs").execute(&mut conn).await.unwrap();
    let first = home.store.history(&driver.lineage, None, 9).await.unwrap().pop().unwrap().id;
    let error = home.store.load(&driver.lineage, Some(&first)).await.unwrap_err().to_string();
    assert!(error.starts_with("stored data is damaged: content"), "{error}");
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions() {
    let home = home().await;
    home.store.close().await;
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (9000, 'later', 1, x'00', 0)",
    )
    .execute(&mut raw(&home.path).await)
    .await
    .unwrap();
    let error = refused(&home.path).await;
    assert!(
        error.contains("schema 9000") && error.contains("up to 7") && error.contains("update the program"),
        "{error}"
    );
}

#[tokio::test]
async fn opening_again_changes_nothing() {
    let home = home_with(StoreOptions { durability: Durability::Power, ..StoreOptions::default() }).await;
    let mut driver = Driver::admitted(&home.store, "t").await;
    driver.step(&home.store, StepKind::Input, Next::Model, StateUpdate::none()).await;
    home.store.close().await;
    let again = SqliteStore::open(&home.path, StoreOptions::default()).await.unwrap();
    assert_eq!(again.history(&driver.lineage, None, 9).await.unwrap().len(), 1);
    assert_eq!(again.path(), home.path);
}

/// A state that grows by about 4 kB a step.
fn big(n: usize) -> StateUpdate {
    StateUpdate::messages([Message::ai(format!("{n}{}", "x".repeat(4000))).with_id(n.to_string())])
}

#[tokio::test]
async fn a_full_disk_refuses_the_step_and_keeps_the_thread_usable() {
    let home = home_with(StoreOptions { max_bytes: Some(1 << 20), ..StoreOptions::default() }).await;
    let filler = home.store.admit(new_run("filler")).await.unwrap();
    let mut fill = Driver::bare("filler");
    fill.under(&filler);
    let mut kept = Driver::admitted(&home.store, "kept").await;
    kept.step(&home.store, StepKind::Input, Next::Model, big(0)).await;
    let error = loop {
        let before = fill.state.clone();
        let commit = fill.commit(StepKind::Model, Next::Model, vec![frame("n", big(fill.step as usize))]);
        if let Err(error) = fill.send(&home.store, commit).await {
            fill.state = before;
            break error;
        }
        assert!(fill.step < 400, "the limit was never reached");
    };
    let shown = home.path.display().to_string();
    assert!(matches!(&error, StoreError::DiskFull { path } if *path == shown), "{error}");
    assert!(error.to_string().contains("free some space"), "{error}");
    // Nothing of the refused step is there.
    let loaded = home.store.load(&fill.lineage, None).await.unwrap().unwrap();
    assert_eq!((Some(loaded.id), loaded.state), (fill.parent.clone(), fill.state.clone()));
    let before = kept.state.clone();
    let commit = kept.commit(StepKind::Model, Next::Model, vec![frame("n", big(1))]);
    assert!(matches!(kept.send(&home.store, commit).await, Err(StoreError::DiskFull { .. })));
    kept.state = before;

    // Room returns.
    home.store.finish(&fence(&filler), outcome(RunStatus::Error), vec![]).await.unwrap();
    home.store.delete_thread(&UserId::local(), &fill.lineage.thread_id).await.unwrap();
    for n in 1..20 {
        kept.step(&home.store, StepKind::Model, Next::Model, big(n)).await;
    }
    assert_eq!(home.store.load(&kept.lineage, None).await.unwrap().unwrap().state, kept.state);
    home.store.close().await;
    assert_eq!(count(&home.path, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk_each_waiting_write_is_answered_for_itself() {
    let home = home_with(StoreOptions { max_bytes: Some(1 << 20), ..StoreOptions::default() }).await;
    let mut drivers: Vec<_> = (0..40).map(|n| Driver::bare(&format!("t{n}"))).collect();
    let commits: Vec<_> = drivers
        .iter_mut()
        .enumerate()
        .map(|(n, driver)| {
            let size = if n % 2 == 0 { 100_000 } else { 10 };
            let update = StateUpdate::messages([Message::ai("x".repeat(size)).with_id("m")]);
            driver.commit(StepKind::Input, Next::Model, vec![frame("n", update)])
        })
        .collect();
    let results = futures::future::join_all(commits.into_iter().map(|commit| home.store.commit(commit))).await;
    let refused = results.iter().filter(|r| matches!(r, Err(StoreError::DiskFull { .. }))).count();
    let written = results.iter().filter(|r| r.is_ok()).count();
    assert_eq!(refused + written, 40, "{results:?}");
    assert!(refused > 5 && written > 5, "{refused} refused, {written} written");
    assert_eq!(count(&home.path, "SELECT count(*) FROM steps").await, written as i64);
}
