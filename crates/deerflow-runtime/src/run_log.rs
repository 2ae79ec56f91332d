//! The step log of one run: adds proof of ownership to every write, and journal rows for what it writes.

use crate::journal_rows::JournalRows;
use async_trait::async_trait;
use deerflow_core::ports::{Checkpoint, Committed, Fence, HistoryEntry, NewJournalRow, StepCommit, StepKind, StepLog};
use deerflow_core::{CheckpointId, Lineage, Message, StoreError, ThreadState};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Metadata of a message row that a later row of the same step says anew: not shown to people.
pub const SUPERSEDED: &str = "superseded";

/// Wraps the store for one owned run.
pub(crate) struct RunLog<S> {
    pub(crate) store: Arc<S>,
    pub(crate) fence: Fence,
    /// State after the step before; tells which messages a rewritten conversation has only kept.
    known: Mutex<Arc<ThreadState>>,
    journal: JournalRows,
}

impl<S> RunLog<S> {
    pub(crate) fn new(store: Arc<S>, fence: Fence) -> Self {
        Self { store, fence, known: Mutex::default(), journal: JournalRows::new() }
    }

    fn know(&self, state: Arc<ThreadState>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Rows for what the step says: the messages that the kernel tells, in the order in which it tells them.
    fn rows(&self, commit: &StepCommit) -> Vec<NewJournalRow> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut known: HashSet<*const Message> = known.messages.iter().map(Arc::as_ptr).collect();
        let mut told: Vec<(&str, &Arc<Message>)> = Vec::new();
        for update in &commit.updates {
            let messages = &update.update.messages;
            let rewritten = messages.iter().any(|message| message.is_remove_all());
            let news =
                messages.iter().filter(|m| m.role() != "remove" && !(rewritten && known.contains(&Arc::as_ptr(m))));
            told.extend(news.map(|message| (update.node.as_str(), message)));
            known.extend(messages.iter().map(Arc::as_ptr));
        }
        let namespace = &commit.lineage.namespace;
        let row = |(at, (node, message)): (usize, &(&str, &Arc<Message>))| {
            let row = self.journal.message(namespace, node, message);
            // A later node of the step has put another version in its place.
            let superseded = told[at + 1..].iter().any(|(_, later)| later.id.is_some() && later.id == message.id);
            if superseded { row.with(SUPERSEDED, true) } else { row }
        };
        let mut rows: Vec<NewJournalRow> = told.iter().enumerate().map(row).collect();
        // Behind the messages of the first step, which are told by their position.
        rows.extend(self.journal.begun());
        rows
    }
}

#[async_trait]
impl<S: StepLog> StepLog for RunLog<S> {
    async fn commit(&self, mut commit: StepCommit) -> Result<Committed, StoreError> {
        commit.fence = Some(self.fence.clone());
        if commit.kind != StepKind::Effects {
            let rows = self.rows(&commit);
            commit.events.splice(0..0, rows);
        }
        if let Some(outcome) = &commit.outcome {
            commit.events.extend(JournalRows::ended(outcome, None));
        }
        let state = (commit.kind != StepKind::Effects).then(|| commit.state.clone());
        let committed = self.store.commit(commit).await?;
        if let Some(state) = state {
            self.know(state);
        }
        self.journal.stepped();
        Ok(committed)
    }

    async fn load(&self, lineage: &Lineage, at: Option<&CheckpointId>) -> Result<Option<Checkpoint>, StoreError> {
        let found = self.store.load(lineage, at).await?;
        if let Some(found) = found.as_ref().filter(|_| at.is_none()) {
            self.know(Arc::new(found.state.clone()));
        }
        Ok(found)
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
