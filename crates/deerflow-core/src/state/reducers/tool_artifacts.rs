//! `merge_tool_artifacts`: handles that later calls may name.

use crate::state::{ArtifactEntry, ArtifactWrite};

/// Entries kept whatever a directive says.
pub const TOOL_ARTIFACT_CEILING: usize = 1000;

/// Folds entries by handle: the newest facts at the first place. A trim directive keeps the newest after the merge; the
/// oldest go first over the ceiling.
pub fn merge_tool_artifacts(old: &mut Option<Vec<ArtifactEntry>>, new: Option<&[ArtifactWrite]>) {
    let Some(new) = new else { return };
    let list = old.get_or_insert_default();
    let mut keep = TOOL_ARTIFACT_CEILING;
    for write in new {
        match write {
            ArtifactWrite::Trim { keep: wanted, .. } => keep = keep.min(*wanted),
            ArtifactWrite::Entry(entry) => match list.iter_mut().find(|held| held.handle == entry.handle) {
                Some(held) => *held = entry.clone(),
                None => list.push(entry.clone()),
            },
        }
    }
    let surplus = list.len().saturating_sub(keep);
    list.drain(..surplus);
}
