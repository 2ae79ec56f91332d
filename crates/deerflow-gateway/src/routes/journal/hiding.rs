//! Which turns are not shown, because they were answered again.

use deerflow_core::ports::{JournalRow, RunRow};
use deerflow_core::{RunId, RunStatus};
use deerflow_runtime::RunFacts;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Runs whose rows are not shown.
#[derive(Debug, Default)]
pub(super) struct Hidden(HashSet<RunId>);

impl Hidden {
    /// Of a thread's runs, newest first.
    ///
    /// A run that was answered again is hidden once the new answer is a success. An edited one is hidden as long as its
    /// newest edit lives or is a success; edits that failed are hidden themselves.
    pub(super) fn among(runs: &HashMap<RunId, RunRow>) -> Self {
        let mut newest_first: Vec<&RunRow> = runs.values().collect();
        newest_first.sort_by_key(|run| std::cmp::Reverse((run.created_at, run.run_id.clone())));
        let mut hidden = HashSet::new();
        let mut edited = HashSet::new();
        for run in newest_first {
            let facts = RunFacts::of(&run.options).unwrap_or_default();
            let text = |key: &str| facts.metadata.get(key).and_then(Value::as_str);
            let Some(source) = text("regenerate_from_run_id").and_then(|id| RunId::parse(id).ok()) else { continue };
            let good = run.status == RunStatus::Success;
            if text("replay_kind") != Some("edit") {
                if good {
                    hidden.insert(source);
                }
                continue;
            }
            let standing = good || !run.status.is_terminal();
            if !standing {
                hidden.insert(run.run_id.clone());
            }
            // The newest edit decides.
            if edited.insert(source.clone()) && standing {
                hidden.insert(source);
            }
        }
        Self(hidden)
    }

    pub(super) fn hides(&self, row: &JournalRow) -> bool {
        self.0.contains(&row.run_id)
    }
}

/// Whether a row belongs to the machinery: what middlewares asked of models, and answers within sub-agents.
pub(super) fn is_machinery(row: &JournalRow) -> bool {
    let caller = row.row.metadata.get("caller").and_then(Value::as_str).unwrap_or_default();
    let answer = row.row.content.get("type").and_then(Value::as_str) == Some("ai");
    caller.starts_with("middleware:") || (answer && caller.starts_with("subagent:"))
}

/// Whether a later row of the same step says the message anew.
pub(super) fn is_superseded(row: &JournalRow) -> bool {
    row.row.metadata.get(deerflow_runtime::SUPERSEDED) == Some(&Value::Bool(true))
}
