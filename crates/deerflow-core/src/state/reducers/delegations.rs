//! `merge_delegations`: the ledger of sub-agents.

use crate::state::DelegationEntry;

/// Entries kept, newest last.
pub const DELEGATION_LIMIT: usize = 50;

/// Folds entries by `(run_id, id)`, since provider call ids repeat between runs.
///
/// An entry without a run matches the most recent one of its id. A terminal status is never replaced by an open one. A
/// replacement keeps its place and inherits `created_at`, and `run_id` when it lacks one.
pub fn merge_delegations(old: &mut Option<Vec<DelegationEntry>>, new: Option<&[DelegationEntry]>) {
    let Some(new) = new.filter(|n| !n.is_empty()) else {
        if new.is_some() {
            old.get_or_insert_default();
        }
        return;
    };
    let mut list: Vec<DelegationEntry> = Vec::new();
    for entry in old.take().unwrap_or_default().into_iter().chain(new.iter().cloned()) {
        let known = list.iter().rposition(|held| {
            held.id == entry.id && (entry.run_id.is_none() || held.run_id.is_none() || held.run_id == entry.run_id)
        });
        match known {
            None => list.push(entry),
            Some(index) => {
                let held = &mut list[index];
                if held.is_terminal() && !entry.is_terminal() {
                    continue;
                }
                let created_at = held.created_at.take().or_else(|| entry.created_at.clone());
                let run_id = entry.run_id.clone().or_else(|| held.run_id.take());
                *held = DelegationEntry { created_at, run_id, ..entry };
            }
        }
    }
    let surplus = list.len().saturating_sub(DELEGATION_LIMIT);
    list.drain(..surplus);
    *old = Some(list);
}
