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
