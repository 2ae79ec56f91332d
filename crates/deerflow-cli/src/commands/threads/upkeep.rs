//! `deerflow threads migrate` and `deerflow threads prune`.

use super::super::say;
use super::{confirm, date, idle, remove_files};
use crate::failure::Failure;
use crate::render::printable_line;
use deerflow_core::{ThreadId, UserId, text};
use deerflow_sandbox::ThreadPaths;
use deerflow_store::{ChannelMode, SqliteStore};
use std::path::Path;
use std::time::{Duration, SystemTime};

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
    let found = store.prune(Some(user), since, true).await.map_err(Failure::run)?.threads;
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
    let pruned = store.prune(Some(user), since, false).await.map_err(Failure::run)?;
    let mut left = Vec::new();
    for row in &pruned.threads {
        let paths = ThreadPaths::new(home, user.as_str(), row.thread_id.as_str()).map_err(Failure::run)?;
        if let Err(error) = remove_files(&paths).await {
            left.push(format!("{}: {}", paths.thread_dir().display(), error.message));
        }
    }
    say(&format!("deleted {}, {} KiB of the database freed", pruned.threads.len(), pruned.freed_bytes / 1024));
    if left.is_empty() {
        return Ok(());
    }
    Err(Failure::run(format!("some files cannot be removed; hint: remove them by hand\n  {}", left.join("\n  "))))
}
