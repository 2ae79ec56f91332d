//! The step log of one run: adds proof of ownership to every write, and journal rows for what it writes.

use async_trait::async_trait;
use deerflow_core::ports::{Checkpoint, Committed, Fence, HistoryEntry, NewJournalRow, StepCommit, StepKind, StepLog};
use deerflow_core::{CheckpointId, Lineage, Message, NodeUpdate, StoreError, ThreadState};
use serde_json::json;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Wraps the store for one owned run.
pub(crate) struct RunLog<S> {
    pub(crate) store: Arc<S>,
    pub(crate) fence: Fence,
    /// State after the step before; tells which messages a rewritten conversation has only kept.
    known: Mutex<Arc<ThreadState>>,
}

impl<S> RunLog<S> {
    pub(crate) fn new(store: Arc<S>, fence: Fence) -> Self {
        Self { store, fence, known: Mutex::default() }
    }

    fn know(&self, state: Arc<ThreadState>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Rows for what the step says: the messages that the kernel tells, in the order in which it tells them.
    fn rows(&self, updates: &[NodeUpdate]) -> Vec<NewJournalRow> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut known: HashSet<*const Message> = known.messages.iter().map(Arc::as_ptr).collect();
        let mut rows = Vec::new();
        for update in updates {
            let messages = &update.update.messages;
            let rewritten = messages.iter().any(|message| message.is_remove_all());
            let told =
                messages.iter().filter(|m| m.role() != "remove" && !(rewritten && known.contains(&Arc::as_ptr(m))));
            rows.extend(told.map(|message| NewJournalRow {
                category: "message".into(),
                event: format!("{}.message", message.role()),
                content: json!({"node": update.node, "message": message}),
            }));
            known.extend(messages.iter().map(Arc::as_ptr));
        }
        rows
    }
}

#[async_trait]
impl<S: StepLog> StepLog for RunLog<S> {
    async fn commit(&self, mut commit: StepCommit) -> Result<Committed, StoreError> {
        commit.fence = Some(self.fence.clone());
        if commit.kind != StepKind::Effects {
            let rows = self.rows(&commit.updates);
            commit.events.splice(0..0, rows);
        }
        if let Some(outcome) = &commit.outcome {
            let content = json!({"status": outcome.status, "error": outcome.error, "stop_reason": outcome.stop_reason, "usage": outcome.usage});
            commit.events.push(NewJournalRow { category: "lifecycle".into(), event: "run.end".into(), content });
        }
        let state = (commit.kind != StepKind::Effects).then(|| commit.state.clone());
        let committed = self.store.commit(commit).await?;
        if let Some(state) = state {
            self.know(state);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_core::{RunId, StateUpdate};

    /// BR-067: what a compaction keeps is in the journal already.
    #[test]
    fn a_rewritten_conversation_journals_only_what_is_new() {
        let log = RunLog::new(Arc::new(()), Fence { run_id: RunId::random(), epoch: 1 });
        let kept = Arc::new(Message::human("kept").with_id("kept"));
        let old = Arc::new(Message::human("old").with_id("old"));
        log.know(Arc::new(ThreadState { messages: vec![old, kept.clone()], ..ThreadState::default() }));
        let fresh = Arc::new(Message::human("fresh").with_id("fresh"));
        let update =
            |messages| NodeUpdate { node: "n".into(), update: StateUpdate { messages, ..StateUpdate::none() } };
        let summary = Arc::new(Message::human("summary").with_id("summary"));
        let rewritten = vec![Arc::new(Message::remove_all()), summary, kept.clone(), fresh.clone()];
        let rows = log.rows(&[update(vec![fresh]), update(rewritten), update(vec![Arc::new(Message::remove("kept"))])]);
        let ids: Vec<_> = rows.iter().map(|row| row.content["message"]["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["fresh", "summary"]);
    }
}
