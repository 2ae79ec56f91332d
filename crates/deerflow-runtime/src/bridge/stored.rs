//! What the database knows of a run: for readers whom the ring cannot serve.

use super::subscription::StoredMessage;
use async_trait::async_trait;
use deerflow_core::ports::{Checkpoint, EventRepo, JournalRow, RunRepo, StepLog};
use deerflow_core::{Lineage, Message, RunId, RunStatus, StoreError, ThreadId};
use serde_json::Value;
use std::sync::Arc;

/// What replaying a run needs of a database. Everything with the storage ports has it.
#[async_trait]
pub trait ReplayStore: Send + Sync {
    /// Journal rows of a run after `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// When the database fails.
    async fn rows(
        &self,
        thread_id: &ThreadId,
        run_id: &RunId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<JournalRow>, StoreError>;

    /// Where a run is in its life; `None` when there is no such run.
    ///
    /// # Errors
    /// When the database fails.
    async fn status(&self, run_id: &RunId) -> Result<Option<RunStatus>, StoreError>;

    /// The last checkpoint that a run made: the head of its thread, unless later runs came.
    ///
    /// # Errors
    /// When the database fails.
    async fn last_checkpoint(&self, thread_id: &ThreadId, run_id: &RunId) -> Result<Option<Checkpoint>, StoreError>;
}

#[async_trait]
impl<T: StepLog + RunRepo + EventRepo + ?Sized> ReplayStore for T {
    async fn rows(
        &self,
        thread_id: &ThreadId,
        run_id: &RunId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<JournalRow>, StoreError> {
        self.journal(thread_id, Some(run_id), after, limit).await
    }

    async fn status(&self, run_id: &RunId) -> Result<Option<RunStatus>, StoreError> {
        Ok(self.run(run_id).await?.map(|run| run.status))
    }

    async fn last_checkpoint(&self, thread_id: &ThreadId, run_id: &RunId) -> Result<Option<Checkpoint>, StoreError> {
        let lineage = Lineage::root(thread_id.clone());
        let Some(head) = self.load(&lineage, None).await? else { return Ok(None) };
        if head.run_id.as_ref() == Some(run_id) {
            return Ok(Some(head));
        }
        let Some(run) = self.run(run_id).await? else { return Ok(None) };
        let mut before = None;
        loop {
            let page = self.history(&lineage, before.as_ref(), HISTORY_PAGE).await?;
            if let Some(found) = page.iter().find(|entry| entry.run_id.as_ref() == Some(run_id)) {
                return self.load(&lineage, Some(&found.id)).await;
            }
            match page.last() {
                // Older steps than the run are not its own.
                Some(oldest) if oldest.created_at >= run.created_at => before = Some(oldest.id.clone()),
                _ => return Ok(None),
            }
        }
    }
}

/// Rows read at a time.
pub(super) const PAGE: u32 = 200;

/// Checkpoints looked through at a time for the last one of a run.
const HISTORY_PAGE: u32 = 50;

/// What a journal row tells a reader.
pub(super) enum Replayed {
    Message(StoredMessage),
    Failed { name: String, message: String },
    Nothing,
}

/// Reads a row leniently, by its JSON: rows of other versions say less, never something wrong. The message is the content
/// or a member of it; its node stands beside it or in the row's metadata.
pub(super) fn replay(row: JournalRow) -> Replayed {
    let seq = row.seq;
    let mut row = serde_json::to_value(row.row).unwrap_or_default();
    let text =
        |row: &Value, paths: &[&str]| paths.iter().find_map(|path| row.pointer(path)?.as_str()).map(str::to_owned);
    if row["category"] == "message" {
        let node = text(&row, &["/metadata/node", "/content/node"]).unwrap_or_else(|| "model".to_owned());
        let content = row["content"].take();
        let message = content.get("message").cloned().unwrap_or(content);
        return match serde_json::from_value::<Message>(message) {
            Ok(message) => Replayed::Message(StoredMessage { seq, node, message: Arc::new(message) }),
            Err(error) => {
                tracing::warn!(seq, %error, "a journal row holds no message");
                Replayed::Nothing
            }
        };
    }
    if row["event"] == "run.error" && row["metadata"][crate::journal_rows::RAISED] == true {
        return Replayed::Failed {
            name: text(&row, &["/content/name", "/metadata/error_type"]).unwrap_or_else(|| "RunError".to_owned()),
            message: text(&row, &["/content", "/content/message", "/content/error"])
                .unwrap_or_else(|| "the run failed".to_owned()),
        };
    }
    Replayed::Nothing
}

/// Whether a row of the run has this number.
pub(super) async fn is_row_of<S: ReplayStore + ?Sized>(
    store: &S,
    thread_id: &ThreadId,
    run_id: &RunId,
    seq: u64,
) -> Result<bool, StoreError> {
    let Some(before) = seq.checked_sub(1) else { return Ok(true) };
    Ok(store.rows(thread_id, run_id, before, 1).await?.first().is_some_and(|row| row.seq == seq))
}

/// The last row of a run so far; 0 when it has none.
pub(super) async fn last_row<S: ReplayStore + ?Sized>(
    store: &S,
    thread_id: &ThreadId,
    run_id: &RunId,
) -> Result<u64, StoreError> {
    let mut last = 0;
    loop {
        let rows = store.rows(thread_id, run_id, last, PAGE).await?;
        last = rows.last().map_or(last, |row| row.seq);
        if rows.len() < PAGE as usize {
            return Ok(last);
        }
    }
}
