//! `merge_promoted`: promotions accumulate within one catalogue and one turn.

use crate::state::PromotedTools;
use std::collections::HashSet;

/// Replaces when there was none, the catalogue changed, or a new turn began; otherwise unites the names.
pub fn merge_promoted(old: &mut Option<PromotedTools>, new: Option<&PromotedTools>) {
    let Some(new) = new else { return };
    let keep = match old.as_ref() {
        Some(old) => old.catalog_hash == new.catalog_hash && (new.turn_id.is_none() || new.turn_id == old.turn_id),
        None => false,
    };
    let mut seen = HashSet::new();
    let earlier = old.as_ref().filter(|_| keep).map(|o| o.names.as_slice()).unwrap_or_default();
    let names = earlier.iter().chain(&new.names).filter(|n| seen.insert((*n).clone())).cloned().collect();
    let inherited = old.as_ref().filter(|_| keep).and_then(|o| o.turn_id.clone());
    *old = Some(PromotedTools {
        catalog_hash: new.catalog_hash.clone(),
        names,
        turn_id: new.turn_id.clone().or(inherited),
    });
}
