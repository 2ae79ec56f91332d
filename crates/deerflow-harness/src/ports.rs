//! What of a store the harness's own tools and middlewares use.

use deerflow_core::ports::{HistoryArchive, InputQueue, StepLog, ThreadRepo};
use std::sync::Arc;

/// Views of one store. A harness without them (to look at a chain, say) has no steering, no archive and no
/// `read_conversation`.
#[derive(Clone)]
pub struct HarnessPorts {
    /// Thread rows.
    pub threads: Arc<dyn ThreadRepo>,
    /// Histories.
    pub steps: Arc<dyn StepLog>,
    /// What users say during a run.
    pub inputs: Arc<dyn InputQueue>,
    /// What compaction takes out.
    pub archive: Arc<dyn HistoryArchive>,
}

impl HarnessPorts {
    /// All views of this store.
    pub fn of<S: ThreadRepo + StepLog + InputQueue + HistoryArchive + 'static>(store: &Arc<S>) -> Self {
        Self { threads: store.clone(), steps: store.clone(), inputs: store.clone(), archive: store.clone() }
    }
}
