//! What the database knows of a run: for readers whom the ring cannot serve.

use super::subscription::StoredMessage;
use deerflow_core::ports::{Checkpoint, EventRepo, JournalRow, RunRepo, StepLog};
use deerflow_core::{Lineage, Message, RunId, StoreError, ThreadId};
use std::sync::Arc;

/// What replaying a run needs of a database.
pub trait ReplayStore: StepLog + RunRepo + EventRepo {}
impl<T: StepLog + RunRepo + EventRepo + ?Sized> ReplayStore for T {}

/// Rows read at a time.
pub(super) const PAGE: u32 = 200;

/// Checkpoints looked through for the last one of a run.
const HISTORY_PAGE: u32 = 50;

/// What a journal row tells a reader.
pub(super) enum Replayed {
    Message(StoredMessage),
    Failed { name: String, message: String },
    Nothing,
}

/// Reads a row leniently: rows of other versions say less, never something wrong.
pub(super) fn replay(row: JournalRow) -> Replayed {
    let JournalRow { seq, row, .. } = row;
    let content = row.content;
    match row.category.as_str() {
        "message" => {
            let node = content.get("node").and_then(|node| node.as_str()).unwrap_or("model").to_owned();
            let message = content.get("message").cloned().unwrap_or(content);
            match serde_json::from_value::<Message>(message) {
                Ok(message) => Replayed::Message(StoredMessage { seq, node, message: Arc::new(message) }),
                Err(error) => {
                    tracing::warn!(seq, %error, "a journal row holds no message");
                    Replayed::Nothing
                }
            }
        }
        _ if row.event == "run.error" => {
            let text = |keys: &[&str]| keys.iter().find_map(|key| content.get(*key)?.as_str()).map(str::to_owned);
            Replayed::Failed {
                name: text(&["name"]).unwrap_or_else(|| "RunError".to_owned()),
                message: text(&["message", "error"]).unwrap_or_else(|| "the run failed".to_owned()),
            }
        }
        _ => Replayed::Nothing,
    }
}

/// Whether a row of the run has this number.
pub(super) async fn is_row_of<S: ReplayStore + ?Sized>(
    store: &S,
    thread_id: &ThreadId,
    run_id: &RunId,
    seq: u64,
) -> Result<bool, StoreError> {
    let Some(before) = seq.checked_sub(1) else { return Ok(true) };
    Ok(store.journal(thread_id, Some(run_id), before, 1).await?.first().is_some_and(|row| row.seq == seq))
}

/// The last checkpoint that a run made: the head of its thread, unless later runs came.
pub(super) async fn last_checkpoint<S: ReplayStore + ?Sized>(
    store: &S,
    thread_id: &ThreadId,
    run_id: &RunId,
) -> Result<Option<Checkpoint>, StoreError> {
    let lineage = Lineage::root(thread_id.clone());
    let Some(head) = store.load(&lineage, None).await? else { return Ok(None) };
    if head.run_id.as_ref() == Some(run_id) {
        return Ok(Some(head));
    }
    let mut before = None;
    loop {
        let page = store.history(&lineage, before.as_ref(), HISTORY_PAGE).await?;
        if let Some(found) = page.iter().find(|entry| entry.run_id.as_ref() == Some(run_id)) {
            return store.load(&lineage, Some(&found.id)).await;
        }
        let Some(oldest) = page.last() else { return Ok(None) };
        before = Some(oldest.id.clone());
    }
}
