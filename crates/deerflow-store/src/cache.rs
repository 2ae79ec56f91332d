//! States of recent heads, so that the next run of a thread starts without reading its history.
//!
//! An entry counts only while its checkpoint is the head the database names, so that other processes cannot make it wrong.

use deerflow_core::{CheckpointId, Lineage, ThreadState};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug)]
pub(crate) struct HeadCache {
    limit: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<Lineage, Entry>,
    bytes: usize,
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    id: CheckpointId,
    state: Arc<ThreadState>,
    bytes: usize,
    used: u64,
}

/// What an entry costs beyond its content, in bytes.
const OVERHEAD: usize = 1024;

impl HeadCache {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, inner: Mutex::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state at this head, and the bytes it was counted as.
    pub(crate) fn get(&self, lineage: &Lineage, id: &CheckpointId) -> Option<Arc<ThreadState>> {
        let mut inner = self.lock();
        inner.clock += 1;
        let clock = inner.clock;
        let entry = inner.entries.get_mut(lineage).filter(|entry| entry.id == *id)?;
        entry.used = clock;
        Some(entry.state.clone())
    }

    /// Puts a state whose content is `bytes` long.
    pub(crate) fn put(&self, lineage: &Lineage, id: CheckpointId, state: Arc<ThreadState>, bytes: usize) {
        let mut inner = self.lock();
        inner.remove(lineage);
        inner.insert(lineage, id, state, bytes + OVERHEAD, self.limit);
    }

    /// Puts the state that follows `parent` with `added` bytes of new content. Without the parent its size is unknown, and
    /// it is left out: the next load brings it in.
    pub(crate) fn advance(
        &self,
        lineage: &Lineage,
        parent: Option<&CheckpointId>,
        id: CheckpointId,
        state: Arc<ThreadState>,
        added: usize,
    ) {
        let mut inner = self.lock();
        let before = match (inner.remove(lineage), parent) {
            (_, None) => OVERHEAD,
            (Some(entry), Some(parent)) if entry.id == *parent => entry.bytes,
            _ => return,
        };
        inner.insert(lineage, id, state, before + added, self.limit);
    }

    /// Drops what belongs to a thread.
    pub(crate) fn forget(&self, thread_id: &deerflow_core::ThreadId) {
        let mut inner = self.lock();
        inner.entries.retain(|lineage, _| lineage.thread_id != *thread_id);
        inner.bytes = inner.entries.values().map(|entry| entry.bytes).sum();
    }
}

impl Inner {
    fn remove(&mut self, lineage: &Lineage) -> Option<Entry> {
        let entry = self.entries.remove(lineage)?;
        self.bytes -= entry.bytes;
        Some(entry)
    }

    fn insert(&mut self, lineage: &Lineage, id: CheckpointId, state: Arc<ThreadState>, bytes: usize, limit: usize) {
        if bytes > limit {
            return;
        }
        self.clock += 1;
        self.bytes += bytes;
        self.entries.insert(lineage.clone(), Entry { id, state, bytes, used: self.clock });
        while self.bytes > limit {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(lineage, _)| lineage.clone());
            let Some(oldest) = oldest else { break };
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_core::ThreadId;

    fn lineage(name: &str) -> Lineage {
        Lineage::root(ThreadId::parse(name).unwrap())
    }

    #[test]
    fn the_least_recently_used_state_goes_first_and_a_stale_one_never_counts() {
        let cache = HeadCache::new(10 * OVERHEAD);
        let state = Arc::new(ThreadState::default());
        let ids: Vec<_> = (0..4).map(|_| CheckpointId::random()).collect();
        cache.put(&lineage("a"), ids[0].clone(), state.clone(), 3 * OVERHEAD);
        cache.put(&lineage("b"), ids[1].clone(), state.clone(), 3 * OVERHEAD);
        assert!(cache.get(&lineage("a"), &ids[0]).is_some());
        cache.put(&lineage("c"), ids[2].clone(), state.clone(), 3 * OVERHEAD);
        assert!(cache.get(&lineage("b"), &ids[1]).is_none());
        assert!(cache.get(&lineage("a"), &ids[0]).is_some());
        assert!(cache.get(&lineage("a"), &ids[1]).is_none());
        cache.advance(&lineage("a"), Some(&ids[0]), ids[3].clone(), state.clone(), 10);
        assert!(cache.get(&lineage("a"), &ids[3]).is_some());
        cache.advance(&lineage("c"), Some(&ids[0]), ids[3].clone(), state, 10);
        assert!(cache.get(&lineage("c"), &ids[3]).is_none());
        cache.forget(&lineage("a").thread_id);
        assert_eq!(cache.lock().bytes, 0);
    }
}
