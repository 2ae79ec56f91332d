//! `merge_task_notes`: a few notes that survive compaction.

use crate::state::TaskNote;
use indexmap::IndexMap;

/// Notes kept; the oldest key goes first.
pub const TASK_NOTE_LIMIT: usize = 8;
const NOTE_CHARS: usize = 750;
const SOURCE_LIMIT: usize = 4;

/// Folds notes by key; a null note deletes. Invalid notes are dropped, on both sides.
pub fn merge_task_notes(
    old: &mut Option<IndexMap<String, TaskNote>>,
    new: Option<&IndexMap<String, Option<TaskNote>>>,
) {
    let Some(new) = new else { return };
    let mut notes: IndexMap<String, TaskNote> = old
        .take()
        .unwrap_or_default()
        .into_iter()
        .filter_map(|(key, note)| Some((valid_key(&key)?.to_owned(), normalise(&note)?)))
        .collect();
    for (key, note) in new {
        match note {
            None => {
                notes.shift_remove(key);
            }
            Some(note) => {
                if let (Some(key), Some(note)) = (valid_key(key), normalise(note)) {
                    notes.insert(key.to_owned(), note);
                }
            }
        }
    }
    while notes.len() > TASK_NOTE_LIMIT {
        notes.shift_remove_index(0);
    }
    *old = Some(notes);
}

fn valid_key(key: &str) -> Option<&str> {
    let ok = (1..=40).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    ok.then_some(key)
}

fn normalise(note: &TaskNote) -> Option<TaskNote> {
    let length = note.content.chars().count();
    if note.content.trim().is_empty() || length > NOTE_CHARS {
        return None;
    }
    let is_source = |id: &&String| {
        id.len() == 33
            && id.starts_with('r')
            && id[1..].bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let source_ids: Vec<String> = note.source_ids.iter().filter(is_source).take(SOURCE_LIMIT).cloned().collect();
    Some(TaskNote { content: note.content.clone(), source_ids, authority: "model_report".to_owned() })
}
