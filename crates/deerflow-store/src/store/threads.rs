//! Threads.

use super::SqliteStore;
use crate::config::ChannelMode;
use crate::read;
use crate::write::{Done, ForkOp, Op};
use async_trait::async_trait;
use deerflow_core::ports::{StepLog as _, ThreadFilter, ThreadFork, ThreadPatch, ThreadQuery, ThreadRepo, ThreadRow};
use deerflow_core::{JsonMap, Lineage, StoreError, ThreadId, UserId};

impl SqliteStore {
    /// Marks a thread for another storage mode. Every checkpoint stays readable: the format is the same.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::ThreadBusy`] when a run is live.
    pub async fn migrate_thread(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        mode: ChannelMode,
    ) -> Result<(), StoreError> {
        let op = Op::MigrateThread { user_id: user_id.clone(), thread_id: thread_id.clone(), mode };
        self.write(op).await.map(drop)
    }

    async fn own_thread(&self, user_id: &UserId, thread_id: &ThreadId) -> Result<ThreadRow, StoreError> {
        let row = self.thread(user_id, thread_id).await?;
        row.ok_or_else(|| StoreError::NotFound { what: "thread", id: thread_id.to_string() })
    }
}

#[async_trait]
impl ThreadRepo for SqliteStore {
    async fn thread(&self, user_id: &UserId, thread_id: &ThreadId) -> Result<Option<ThreadRow>, StoreError> {
        let mut view = self.view().await?;
        read::thread(&mut view, &self.place, user_id, thread_id).await
    }

    async fn is_foreign(&self, user_id: &UserId, thread_id: &ThreadId) -> Result<bool, StoreError> {
        let mut view = self.view().await?;
        read::is_foreign(&mut view, &self.place, user_id, thread_id).await
    }

    async fn threads(&self, user_id: &UserId, limit: u32, offset: u32) -> Result<Vec<ThreadRow>, StoreError> {
        let mut view = self.view().await?;
        read::threads(&mut view, &self.place, user_id, limit, offset).await
    }

    async fn create_thread(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        metadata: JsonMap,
    ) -> Result<(ThreadRow, bool), StoreError> {
        let (user, thread) = (user_id.clone(), thread_id.clone());
        let op = Op::CreateThread { user_id: user, thread_id: thread, metadata, mode: self.options.mode.as_str() };
        let done = self.write(op).await?;
        Ok((self.own_thread(user_id, thread_id).await?, matches!(done, Done::Created(true))))
    }

    async fn patch_thread(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        patch: ThreadPatch,
    ) -> Result<ThreadRow, StoreError> {
        self.write(Op::PatchThread { user_id: user_id.clone(), thread_id: thread_id.clone(), patch }).await?;
        self.own_thread(user_id, thread_id).await
    }

    async fn search_threads(&self, user_id: &UserId, query: ThreadQuery) -> Result<Vec<ThreadRow>, StoreError> {
        let mut view = self.view().await?;
        read::search(&mut view, &self.place, user_id, &query).await
    }

    async fn count_threads(&self, user_id: &UserId, filter: ThreadFilter) -> Result<u64, StoreError> {
        let mut view = self.view().await?;
        read::count(&mut view, &self.place, user_id, &filter).await
    }

    async fn fork_thread(&self, user_id: &UserId, fork: ThreadFork) -> Result<ThreadRow, StoreError> {
        let missing = || StoreError::NotFound { what: "thread", id: fork.from.to_string() };
        let lineage = Lineage::root(fork.from.clone());
        // Before anything is read of it: whose it is.
        self.own_thread(user_id, &fork.from).await?;
        let at = self.load(&lineage, fork.at.as_ref()).await?;
        let mut view = self.view().await?;
        let thread_key = read::thread_key(&mut view, &self.place, user_id, &fork.from).await?.ok_or_else(missing)?;
        let at = match at {
            None => None,
            Some(at) => {
                let row = read::step(&mut view, &self.place, &lineage, Some(&at.id)).await?.ok_or_else(missing)?;
                Some((row, at.state.title))
            }
        };
        let copied = read::copied(&mut view, &self.place, thread_key, at).await?;
        drop(view);
        let new_thread_id = fork.new_thread_id.clone();
        self.write(Op::Fork(Box::new(ForkOp::pack(user_id.clone(), fork, copied)?))).await?;
        self.own_thread(user_id, &new_thread_id).await
    }

    async fn delete_thread(&self, user_id: &UserId, thread_id: &ThreadId) -> Result<(), StoreError> {
        let op = Op::DeleteThread { user_id: user_id.clone(), thread_id: thread_id.clone(), unused_since: None };
        self.write(op).await?;
        self.heads.forget(thread_id);
        Ok(())
    }
}
