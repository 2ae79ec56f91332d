//! Deleting what nobody has used for long. Nothing is deleted unless somebody asks.

use super::SqliteStore;
use crate::read;
use crate::write::Op;
use deerflow_core::ports::ThreadRow;
use deerflow_core::{StoreError, UserId};

/// What a pruning deleted, or would delete.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pruned {
    /// The threads, least recently used first. Their files are the caller's to delete.
    pub threads: Vec<ThreadRow>,
    /// How much smaller the database file is now, in bytes. 0 for a dry run.
    pub freed_bytes: u64,
}

impl SqliteStore {
    /// Deletes the threads of a user (of all users when absent) that were last used before `since` (microseconds since
    /// 1970, UTC), each in a transaction of its own, and returns their space to the file system. A thread with a live run is
    /// kept, and so is one that is used meanwhile. A dry run only says which ones it would be.
    ///
    /// # Errors
    /// When the database fails. What was deleted before stays deleted.
    pub async fn prune(&self, user_id: Option<&UserId>, since: i64, dry_run: bool) -> Result<Pruned, StoreError> {
        let mut view = self.view().await?;
        let mut threads = read::unused(&mut view, &self.place, user_id, since).await?;
        drop(view);
        if dry_run || threads.is_empty() {
            return Ok(Pruned { threads, freed_bytes: 0 });
        }
        let before = self.file_bytes().await;
        let mut deleted = Vec::with_capacity(threads.len());
        for thread in threads.drain(..) {
            let (user_id, thread_id) = (thread.user_id.clone(), thread.thread_id.clone());
            match self.write(Op::DeleteThread { user_id, thread_id, unused_since: Some(since) }).await {
                Ok(_) => {
                    self.heads.forget(&thread.thread_id);
                    deleted.push(thread);
                }
                // Used since it was looked up, or deleted by another process.
                Err(StoreError::ThreadBusy { .. } | StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.compact().await?;
        Ok(Pruned { threads: deleted, freed_bytes: before.saturating_sub(self.file_bytes().await) })
    }

    async fn file_bytes(&self) -> u64 {
        tokio::fs::metadata(self.path()).await.map_or(0, |file| file.len())
    }
}
