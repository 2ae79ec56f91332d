//! Archived history.

use super::{SqliteStore, blocking};
use crate::read;
use crate::write::{ArchiveOp, Done, Op};
use async_trait::async_trait;
use deerflow_core::ports::{
    ArchiveHit, ArchiveLimits, ArchivePage, ArchiveRecord, ArchiveRole, ArchivedBatch, HistoryArchive,
};
use deerflow_core::{StoreError, ThreadId, UserId};

#[async_trait]
impl HistoryArchive for SqliteStore {
    async fn archive(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        records: Vec<ArchiveRecord>,
        limits: ArchiveLimits,
    ) -> Result<ArchivedBatch, StoreError> {
        let (user_id, thread_id) = (user_id.clone(), thread_id.clone());
        let op = blocking(move || ArchiveOp::pack(user_id, thread_id, records, limits)).await?;
        match self.write(Op::Archive(Box::new(op))).await? {
            Done::Archived(batch) => Ok(batch),
            _ => Err(StoreError::Database("no batch was answered".to_owned())),
        }
    }

    async fn search_archive(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        query: &str,
        role: Option<ArchiveRole>,
        limit: u32,
    ) -> Result<Vec<ArchiveHit>, StoreError> {
        let mut view = self.view().await?;
        read::search_archive(&mut view, &self.place, (user_id, thread_id), query, role, limit).await
    }

    async fn read_archive(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        source_id: &str,
        offset: u64,
    ) -> Result<Option<ArchivePage>, StoreError> {
        let mut view = self.view().await?;
        read::page(&mut view, &self.place, (user_id, thread_id), source_id, offset).await
    }
}
