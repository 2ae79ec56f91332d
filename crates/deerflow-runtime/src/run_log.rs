//! The step log of one run: adds proof of ownership to every write, and journal rows for what it writes.

use async_trait::async_trait;
use deerflow_core::ports::{Checkpoint, Committed, Fence, HistoryEntry, NewJournalRow, StepCommit, StepKind, StepLog};
use deerflow_core::{CheckpointId, Lineage, StoreError};
use serde_json::json;
use std::sync::Arc;

/// Wraps the store for one owned run.
pub(crate) struct RunLog<S> {
    pub(crate) store: Arc<S>,
    pub(crate) fence: Fence,
}

impl<S> RunLog<S> {
    pub(crate) fn new(store: Arc<S>, fence: Fence) -> Self {
        Self { store, fence }
    }
}

#[async_trait]
impl<S: StepLog> StepLog for RunLog<S> {
    async fn commit(&self, mut commit: StepCommit) -> Result<Committed, StoreError> {
        commit.fence = Some(self.fence.clone());
        if commit.kind != StepKind::Effects {
            let messages = commit.updates.iter().flat_map(|u| u.update.messages.iter().map(move |m| (u, m)));
            let rows: Vec<NewJournalRow> = messages
                .filter(|(_, message)| message.role() != "remove")
                .map(|(update, message)| NewJournalRow {
                    category: "message".into(),
                    event: format!("{}.message", message.role()),
                    content: json!({"node": update.node, "message": message}),
                })
                .collect();
            commit.events.splice(0..0, rows);
        }
        if let Some(outcome) = &commit.outcome {
            let content = json!({"status": outcome.status, "error": outcome.error, "stop_reason": outcome.stop_reason, "usage": outcome.usage});
            commit.events.push(NewJournalRow { category: "lifecycle".into(), event: "run.end".into(), content });
        }
        self.store.commit(commit).await
    }

    async fn load(&self, lineage: &Lineage, at: Option<&CheckpointId>) -> Result<Option<Checkpoint>, StoreError> {
        self.store.load(lineage, at).await
    }

    async fn history(
        &self,
        lineage: &Lineage,
        before: Option<&CheckpointId>,
        limit: u32,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        self.store.history(lineage, before, limit).await
    }
}
