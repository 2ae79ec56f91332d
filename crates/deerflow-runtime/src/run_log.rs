//! The step log of one run: adds proof of ownership to every write, and journal rows for what it writes.

use crate::journal_rows::JournalRows;
use async_trait::async_trait;
use deerflow_core::ports::{Checkpoint, Committed, Fence, HistoryEntry, NewJournalRow, StepCommit, StepKind, StepLog};
use deerflow_core::{CheckpointId, Lineage, StoreError};
use std::sync::Arc;

/// Wraps the store for one owned run.
pub(crate) struct RunLog<S> {
    pub(crate) store: Arc<S>,
    pub(crate) fence: Fence,
    journal: JournalRows,
}

impl<S> RunLog<S> {
    pub(crate) fn new(store: Arc<S>, fence: Fence) -> Self {
        Self { store, fence, journal: JournalRows::new() }
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
                .map(|(update, message)| self.journal.message(&commit.lineage.namespace, &update.node, message))
                // Behind the messages of the first step, which are told by their position.
                .chain(self.journal.begun())
                .collect();
            commit.events.splice(0..0, rows);
        }
        if let Some(outcome) = &commit.outcome {
            commit.events.extend(JournalRows::ended(outcome));
        }
        let committed = self.store.commit(commit).await?;
        self.journal.stepped();
        Ok(committed)
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
