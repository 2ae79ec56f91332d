//! `merge_skill_context`: the skills read most recently.

use crate::state::SkillEntry;

/// Entries kept, most recent last.
pub const SKILL_LIMIT: usize = 8;
/// Characters of a description kept.
pub const SKILL_DESCRIPTION_CHARS: usize = 500;

/// Folds entries by path; one read again moves to the end. Both sides are normalised.
pub fn merge_skill_context(old: &mut Option<Vec<SkillEntry>>, new: Option<&[SkillEntry]>) {
    let Some(new) = new else { return };
    let mut list: Vec<SkillEntry> = Vec::new();
    for entry in old.take().unwrap_or_default().iter().chain(new) {
        list.retain(|held| held.path != entry.path);
        list.push(normalise(entry));
    }
    let surplus = list.len().saturating_sub(SKILL_LIMIT);
    list.drain(..surplus);
    *old = Some(list);
}

fn normalise(entry: &SkillEntry) -> SkillEntry {
    let collapsed = entry.description.split_whitespace().collect::<Vec<_>>().join(" ");
    SkillEntry { description: collapsed.chars().take(SKILL_DESCRIPTION_CHARS).collect(), ..entry.clone() }
}
