//! `deerflow threads fork`.

use super::super::{say, say_json};
use super::{missing, remove_files};
use crate::failure::Failure;
use deerflow_core::ports::{RunFilter, RunRepo, ThreadFork, ThreadRepo};
use deerflow_core::{CheckpointId, JsonMap, RunStatus, StoreError, ThreadId, UserId};
use deerflow_sandbox::ThreadPaths;
use serde_json::json;
use std::path::Path;

pub(super) async fn fork(
    store: &(impl ThreadRepo + RunRepo),
    user: &UserId,
    home: &Path,
    from: &ThreadId,
    at: Option<String>,
    new: ThreadId,
    json: bool,
) -> Result<(), Failure> {
    store.thread(user, from).await.map_err(Failure::run)?.ok_or_else(|| missing(from))?;
    let at = at.map(CheckpointId::parse).transpose().map_err(Failure::usage)?;
    let paths = |id: &ThreadId| ThreadPaths::new(home, user.as_str(), id.as_str()).map_err(Failure::usage);
    let (source, target) = (paths(from)?, paths(&new)?);
    if target.thread_dir().exists() || store.thread(user, &new).await.map_err(Failure::run)?.is_some() {
        return Err(Failure::usage(StoreError::Exists { what: "thread", id: new.to_string() }));
    }
    let live = RunFilter {
        thread_id: Some(from.clone()),
        status: vec![RunStatus::Pending, RunStatus::Running],
        limit: 1,
        ..RunFilter::default()
    };
    let is_live = !store.runs(user, live).await.map_err(Failure::run)?.is_empty();
    // The files come first: a thread that is listed must have them.
    let files = match copy(source, target.clone()).await {
        Ok(files) => files,
        Err(error) => {
            let _ = remove_files(&target).await;
            return Err(Failure::run(format!("the files of {from} cannot be copied: {error}; nothing was forked")));
        }
    };
    let fork = ThreadFork { from: from.clone(), at: at.clone(), new_thread_id: new.clone(), metadata: JsonMap::new() };
    if let Err(error) = store.fork_thread(user, fork).await {
        let _ = remove_files(&target).await;
        return Err(match error {
            StoreError::NotFound { what: "checkpoint", .. } => {
                Failure::usage(format!("{error}; hint: `deerflow threads history {from}` shows them"))
            }
            StoreError::NotFound { .. } | StoreError::Exists { .. } => Failure::usage(error),
            other => Failure::run(other),
        });
    }
    if json {
        return say_json(&json!({"thread_id": new, "forked_from": from, "at": at, "files": files}));
    }
    say(&format!("forked {from} to {new}, with {files} files"));
    if at.is_some() || is_live {
        say("the files are as they are now, not as they were at the checkpoint");
    }
    say(&format!("go on with: deerflow run \"…\" --thread {new}"));
    Ok(())
}

async fn copy(source: ThreadPaths, target: ThreadPaths) -> std::io::Result<u64> {
    tokio::task::spawn_blocking(move || source.copy_to(&target)).await.map_err(std::io::Error::other)?
}
