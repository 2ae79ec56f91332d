//! Sums over runs.

use super::SqliteStore;
use crate::read;
use async_trait::async_trait;
use deerflow_core::ports::{ConsoleStats, DayUsage, RunUsage, ThreadUsage, UsageRepo};
use deerflow_core::{RunId, StoreError, ThreadId, UserId};
use std::collections::BTreeMap;

#[async_trait]
impl UsageRepo for SqliteStore {
    async fn run_usage(&self, user_id: &UserId, run_ids: &[RunId]) -> Result<BTreeMap<RunId, RunUsage>, StoreError> {
        let mut view = self.view().await?;
        read::run_usage(&mut view, &self.place, user_id, run_ids).await
    }

    async fn thread_usage(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        include_active: bool,
    ) -> Result<ThreadUsage, StoreError> {
        let mut view = self.view().await?;
        read::thread_usage(&mut view, &self.place, user_id, thread_id, include_active).await
    }

    async fn console_stats(&self, user_id: &UserId) -> Result<ConsoleStats, StoreError> {
        let mut view = self.view().await?;
        read::console_stats(&mut view, &self.place, user_id).await
    }

    async fn usage_by_day(
        &self,
        user_id: &UserId,
        since: i64,
        offset_minutes: i32,
    ) -> Result<Vec<DayUsage>, StoreError> {
        let mut view = self.view().await?;
        read::usage_by_day(&mut view, &self.place, user_id, since, offset_minutes).await
    }
}
