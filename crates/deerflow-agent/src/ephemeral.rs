//! A step log that forgets everything with the process.

use async_trait::async_trait;
use deerflow_core::ports::{
    Checkpoint, Committed, EffectRecord, HistoryEntry, OpenEffect, StepCommit, StepKind, StepLog,
};
use deerflow_core::run::Next;
use deerflow_core::{CheckpointId, Lineage, StoreError};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Keeps every checkpoint in memory. For agents without a database, and for tests.
#[derive(Default)]
pub struct EphemeralLog {
    lineages: Mutex<HashMap<Lineage, Vec<Checkpoint>>>,
}

#[async_trait]
impl StepLog for EphemeralLog {
    async fn commit(&self, commit: StepCommit) -> Result<Committed, StoreError> {
        let mut lineages = self.lineages.lock().unwrap_or_else(PoisonError::into_inner);
        let list = lineages.entry(commit.lineage.clone()).or_default();
        let head = list.last().map(|c| &c.id);
        if commit.branch {
            if let Some(parent) = commit.parent.as_ref().filter(|parent| !list.iter().any(|c| c.id == **parent)) {
                return Err(StoreError::NotFound { what: "checkpoint", id: parent.to_string() });
            }
        } else if head != commit.parent.as_ref() {
            return Err(StoreError::StaleParent {
                thread_id: commit.lineage.thread_id.to_string(),
                parent: commit.parent.map(|p| p.to_string()).unwrap_or_default(),
            });
        }
        if commit.kind == StepKind::Effects {
            if let Some(head) = list.last_mut() {
                commit.effects.into_iter().for_each(|effect| note(&mut head.open_effects, effect));
            }
            return Ok(Committed { checkpoint_id: commit.parent, seqs: vec![], last_seq: 0 });
        }
        let id = CheckpointId::next();
        // An edit beside an open batch leaves it open.
        let keeps = commit.kind == StepKind::Edit && commit.next == Next::Tools && head == commit.parent.as_ref();
        let open = list.last_mut().map(|head| std::mem::take(&mut head.open_effects)).unwrap_or_default();
        list.push(Checkpoint {
            id: id.clone(),
            parent: commit.parent,
            run_id: commit.run_id,
            kind: commit.kind,
            step: commit.step,
            next: commit.next,
            created_at: 0,
            state: (*commit.state).clone(),
            open_effects: if keeps { open } else { Vec::new() },
        });
        Ok(Committed { checkpoint_id: Some(id), seqs: vec![], last_seq: 0 })
    }

    async fn load(&self, lineage: &Lineage, at: Option<&CheckpointId>) -> Result<Option<Checkpoint>, StoreError> {
        let lineages = self.lineages.lock().unwrap_or_else(PoisonError::into_inner);
        let list = lineages.get(lineage).map(Vec::as_slice).unwrap_or_default();
        match at {
            None => Ok(list.last().cloned()),
            Some(id) => match list.iter().find(|c| c.id == *id) {
                Some(found) => Ok(Some(found.clone())),
                None => Err(StoreError::NotFound { what: "checkpoint", id: id.to_string() }),
            },
        }
    }

    async fn history(
        &self,
        lineage: &Lineage,
        before: Option<&CheckpointId>,
        limit: u32,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        let lineages = self.lineages.lock().unwrap_or_else(PoisonError::into_inner);
        let list = lineages.get(lineage).map(Vec::as_slice).unwrap_or_default();
        let end = before.and_then(|id| list.iter().position(|c| c.id == *id)).unwrap_or(list.len());
        let entry = |c: &Checkpoint| HistoryEntry {
            id: c.id.clone(),
            parent: c.parent.clone(),
            run_id: c.run_id.clone(),
            kind: c.kind,
            step: c.step,
            next: c.next,
            created_at: c.created_at,
        };
        Ok(list[..end].iter().rev().take(limit as usize).map(entry).collect())
    }
}

fn note(open: &mut Vec<OpenEffect>, record: EffectRecord) {
    match record {
        EffectRecord::Started { index, call_id, tool, fingerprint, .. } => {
            open.retain(|e| e.index != index);
            open.push(OpenEffect { index, call_id, tool, fingerprint, finished: None });
        }
        EffectRecord::Finished { index, update, end_run, .. } => {
            match open.iter_mut().find(|e| e.index == index) {
                Some(effect) => effect.finished = Some((*update, end_run)),
                // A read-only call leaves no start behind, only its result.
                None => open.push(OpenEffect {
                    index,
                    call_id: String::new(),
                    tool: String::new(),
                    fingerprint: None,
                    finished: Some((*update, end_run)),
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_core::{StateUpdate, ThreadId};
    use std::sync::Arc;

    fn commit(parent: Option<CheckpointId>, branch: bool) -> StepCommit {
        StepCommit {
            lineage: Lineage::root(ThreadId::parse("t").unwrap()),
            run_id: None,
            parent,
            branch,
            fence: None,
            kind: StepKind::Model,
            step: 0,
            next: Next::Model,
            updates: vec![],
            state: Arc::default(),
            effects: vec![EffectRecord::Finished {
                step: 0,
                index: 0,
                update: Box::<StateUpdate>::default(),
                end_run: false,
            }],
            events: vec![],
            outcome: None,
        }
    }

    #[tokio::test]
    async fn a_branch_stands_on_any_checkpoint_and_a_step_on_the_head_only() {
        let log = EphemeralLog::default();
        let lineage = Lineage::root(ThreadId::parse("t").unwrap());
        let a = log.commit(commit(None, false)).await.unwrap().checkpoint_id;
        let b = log.commit(commit(a.clone(), false)).await.unwrap().checkpoint_id;
        assert!(matches!(log.commit(commit(a.clone(), false)).await, Err(StoreError::StaleParent { .. })));
        let c = log.commit(commit(a.clone(), true)).await.unwrap().checkpoint_id;
        let stranger = commit(Some(CheckpointId::next()), true);
        assert!(matches!(log.commit(stranger).await, Err(StoreError::NotFound { what: "checkpoint", .. })));
        let history = log.history(&lineage, None, 9).await.unwrap();
        let shown: Vec<_> = history.into_iter().map(|entry| (Some(entry.id), entry.parent)).collect();
        assert_eq!(shown, [(c, a.clone()), (b, a.clone()), (a, None)]);
    }

    #[tokio::test]
    async fn an_edit_beside_an_open_batch_leaves_it_open() {
        let log = EphemeralLog::default();
        let lineage = Lineage::root(ThreadId::parse("t").unwrap());
        let tools = |parent, kind| StepCommit { kind, next: Next::Tools, ..commit(parent, false) };
        let a = log.commit(tools(None, StepKind::Model)).await.unwrap().checkpoint_id;
        log.commit(tools(a.clone(), StepKind::Effects)).await.unwrap();
        log.commit(tools(a, StepKind::Edit)).await.unwrap();
        assert_eq!(log.load(&lineage, None).await.unwrap().unwrap().open_effects.len(), 1);
    }
}
