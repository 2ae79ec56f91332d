//! `merge_artifacts`: a growing list without duplicates, first occurrence keeps its place.

use std::collections::HashSet;

/// Appends what is new. With no old value even an empty write initialises the channel.
pub fn merge_artifacts(old: &mut Option<Vec<String>>, new: Option<&[String]>) {
    let Some(new) = new else { return };
    let list = old.get_or_insert_default();
    let mut seen: HashSet<String> = list.iter().cloned().collect();
    list.extend(new.iter().filter(|item| seen.insert((*item).clone())).cloned());
}
