//! `deerflow threads history`.

use super::super::{say, say_json};
use super::{date, missing, rfc3339};
use crate::failure::Failure;
use deerflow_core::ports::{HistoryEntry, StepLog, ThreadRepo};
use deerflow_core::{Lineage, ThreadId, UserId};
use serde::Serialize;
use serde_json::{Value, json};

pub(super) async fn history(
    store: &(impl ThreadRepo + StepLog),
    user: &UserId,
    id: &ThreadId,
    limit: u32,
    json: bool,
) -> Result<(), Failure> {
    store.thread(user, id).await.map_err(Failure::run)?.ok_or_else(|| missing(id))?;
    let entries = store.history(&Lineage::root(id.clone()), None, limit).await.map_err(Failure::run)?;
    if json {
        return say_json(&entries.iter().map(row).collect::<Vec<_>>());
    }
    if entries.is_empty() {
        say("no checkpoints yet");
    }
    for entry in &entries {
        let run = entry.run_id.as_ref().map_or("no run", |run| run.as_str());
        say(&format!(
            "{}  {}  {:6}  then {:6}  run {run}",
            entry.id,
            date(entry.created_at),
            word(&entry.kind),
            word(&entry.next)
        ));
    }
    Ok(())
}

fn row(entry: &HistoryEntry) -> Value {
    json!({
        "checkpoint_id": entry.id, "parent_checkpoint_id": entry.parent, "run_id": entry.run_id, "step": entry.step,
        "kind": word(&entry.kind), "next": word(&entry.next), "created_at": rfc3339(entry.created_at),
    })
}

/// The stable name of a kind or a next.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}
