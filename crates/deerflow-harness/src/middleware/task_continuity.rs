//! Keeps the originals of what compaction takes out, and lets the model find them and keep notes with sources.
//!
//! The archive takes what was visible: texts of the user, of the assistant and of tools. The state has an index over it, so that
//! the model is told that there is something to find.

mod hook;
mod index;
mod tools;

use deerflow_config::Section;
use deerflow_core::Tool;
use deerflow_core::ports::{ArchiveLimits, HistoryArchive};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::summarization::SummarizationHook;

/// Whether the originals of compacted conversations are kept to be searched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TaskContinuityConfig {
    /// Whether they are.
    pub enabled: bool,
    /// Batches kept of a thread; the oldest goes when there are more.
    #[schemars(range(min = 1, max = 64))]
    pub max_batches: u32,
    /// Records kept of a batch; the oldest are left out.
    #[schemars(range(min = 1, max = 1024))]
    pub max_records_per_batch: u32,
    /// Characters kept of a record.
    #[schemars(range(min = 1000, max = 64_000))]
    pub max_record_chars: u32,
}

impl Default for TaskContinuityConfig {
    fn default() -> Self {
        let ArchiveLimits { max_batches, max_records_per_batch, max_record_chars } = ArchiveLimits::default();
        Self { enabled: false, max_batches, max_records_per_batch, max_record_chars }
    }
}

impl Section for TaskContinuityConfig {
    const KEY: &'static str = "task_continuity";
}

/// The archive of a process, for its agents.
#[derive(Clone)]
pub struct TaskContinuity {
    archive: Arc<dyn HistoryArchive>,
    limits: ArchiveLimits,
}

impl TaskContinuity {
    /// Over this archive; `None` unless the configuration switches it on.
    #[must_use]
    pub fn new(config: &TaskContinuityConfig, archive: Arc<dyn HistoryArchive>) -> Option<Self> {
        let limits = ArchiveLimits {
            max_batches: config.max_batches,
            max_records_per_batch: config.max_records_per_batch,
            max_record_chars: config.max_record_chars,
        };
        config.enabled.then_some(Self { archive, limits })
    }
    /// The hook for [`DeerFlowSummarizationMiddleware`](super::DeerFlowSummarizationMiddleware) that archives what goes.
    #[must_use]
    pub fn hook(&self) -> Arc<dyn SummarizationHook> {
        Arc::new(hook::TaskArchiveHook { archive: self.archive.clone(), limits: self.limits })
    }
    /// `history_search`, `history_read` and `task_note`, in this order.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        tools::all(&self.archive)
    }
}

#[cfg(test)]
mod tests;
