//! `deerflow threads migrate` and `deerflow threads prune`.

use super::super::say;
use super::{confirm, date, idle, remove_files};
use crate::failure::Failure;
use crate::render::printable_line;
use deerflow_core::ports::{RunFilter, RunRepo, ThreadFilter, ThreadQuery, ThreadRepo, ThreadRow};
use deerflow_core::{StoreError, ThreadId, UserId, text};
use deerflow_runtime::WorkerLock;
use deerflow_sandbox::ThreadPaths;
use deerflow_store::{ChannelMode, SqliteStore};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Threads with a run that is live, or seems to be, looked at in one pruning.
const MOST_BUSY: u32 = 1000;

pub(super) async fn migrate(
    store: &SqliteStore,
    user: &UserId,
    home: &Path,
    id: &ThreadId,
    to: &str,
) -> Result<(), Failure> {
    let mode = if to == "delta" { ChannelMode::Delta } else { ChannelMode::Full };
    idle(store, user, home, id, "migrate it").await?;
    store.migrate_thread(user, id, mode).await.map_err(Failure::run)?;
    say(&format!("{id} is marked {to}; every checkpoint stays readable"));
    Ok(())
}

/// Deletes the threads that were last used before then, with their files.
pub(super) async fn prune(
    store: &SqliteStore,
    user: &UserId,
    home: &Path,
    older_than: Duration,
    dry_run: bool,
    yes: bool,
) -> Result<(), Failure> {
    let since = SystemTime::now().checked_sub(older_than).and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    // Longer than there is time: nothing is that old.
    let since = since.and_then(|at| i64::try_from(at.as_micros()).ok()).unwrap_or(0);
    let cut_off = cut_off(store, user, home, since).await?;
    let mut found = store.prune(Some(user), since, true).await.map_err(Failure::run)?.threads;
    found.extend(cut_off.iter().cloned());
    for row in &found {
        let title = text::ellipsis(&printable_line(row.title.as_deref().unwrap_or("(no title)")), 60);
        say(&format!("{}  {}  {title}", row.thread_id, date(row.updated_at)));
    }
    if found.is_empty() {
        say("no conversation is that old");
        return Ok(());
    }
    if dry_run {
        say(&format!("{} would be deleted with their history and files", found.len()));
        return Ok(());
    }
    if !yes {
        let count = found.len();
        confirm(
            &format!("Delete these {count} with their history and files?"),
            &format!("deleting {count} conversations"),
        )?;
    }
    let size = || std::fs::metadata(store.path()).map_or(0, |file| file.len());
    let before = size();
    let mut deleted = Vec::new();
    for row in cut_off {
        idle(store, user, home, &row.thread_id, "delete it").await?;
        match store.delete_thread(user, &row.thread_id).await {
            Ok(()) => deleted.push(row),
            // Taken up, or deleted, by another process meanwhile.
            Err(StoreError::ThreadBusy { .. } | StoreError::NotFound { .. }) => {}
            Err(error) => return Err(Failure::run(error)),
        }
    }
    let pruned = store.prune(Some(user), since, false).await.map_err(Failure::run)?;
    if pruned.threads.is_empty() {
        // Otherwise it has returned the space of all of them.
        store.compact().await.map_err(Failure::run)?;
    }
    deleted.extend(pruned.threads);
    let mut left = Vec::new();
    for row in &deleted {
        let paths = ThreadPaths::new(home, user.as_str(), row.thread_id.as_str()).map_err(Failure::run)?;
        if let Err(error) = remove_files(&paths).await {
            left.push(format!("{}: {}", paths.thread_dir().display(), error.message));
        }
    }
    say(&format!("deleted {}, {} KiB of the database freed", deleted.len(), before.saturating_sub(size()) / 1024));
    if left.is_empty() {
        return Ok(());
    }
    Err(Failure::run(format!("some files cannot be removed; hint: remove them by hand\n  {}", left.join("\n  "))))
}

/// Threads that were last used before then by a run whose process is dead: to the store that run is live.
async fn cut_off(store: &SqliteStore, user: &UserId, home: &Path, since: i64) -> Result<Vec<ThreadRow>, Failure> {
    let filter = ThreadFilter { status: vec!["busy".to_owned()], ..ThreadFilter::default() };
    let query = ThreadQuery { filter, limit: MOST_BUSY, ascending: true, ..ThreadQuery::default() };
    let rows = store.search_threads(user, query).await.map_err(Failure::run)?;
    let mut found = Vec::new();
    for row in rows.into_iter().filter(|row| row.updated_at < since) {
        let last = RunFilter { thread_id: Some(row.thread_id.clone()), limit: 1, ..RunFilter::default() };
        let last = store.runs(user, last).await.map_err(Failure::run)?.into_iter().next();
        if last.is_some_and(|run| !WorkerLock::is_held(home, &run.worker)) {
            found.push(row);
        }
    }
    Ok(found)
}
