//! `task_history`: which batches are in the archive.

use deerflow_core::ports::ArchivedBatch;
use serde_json::{Value, json};

/// The index. It is unavailable as a whole when a part of it makes no sense or a batch was lost; what is valid is kept.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Index {
    pub(super) batches: Vec<ArchivedBatch>,
    /// Batches that were not archived.
    pub(super) lost: u64,
    pub(super) damaged: bool,
}

impl Index {
    pub(super) fn read(value: Option<&Value>) -> Self {
        let Some(value) = value else { return Self::default() };
        let listed = value.get("batches").and_then(Value::as_array);
        let batches: Vec<ArchivedBatch> = listed.into_iter().flatten().filter_map(batch).collect();
        let status = value.get("status").and_then(Value::as_str);
        let lost = value.get("lost_batches").map_or(Some(0), Value::as_u64);
        let whole = listed.is_some_and(|list| list.len() == batches.len())
            && lost.is_some()
            && (status == Some("available") || (status == Some("unavailable") && lost > Some(0)));
        Self { batches, lost: lost.unwrap_or(0), damaged: !whole }
    }

    /// Adds a batch, once however often it is archived; the oldest go as they do in the archive.
    pub(super) fn add(&mut self, batch: ArchivedBatch, max: u32) {
        self.batches.retain(|held| held.batch_id != batch.batch_id);
        self.batches.push(batch);
        let surplus = self.batches.len().saturating_sub(usize::try_from(max).unwrap_or(usize::MAX));
        self.batches.drain(..surplus);
    }

    pub(super) fn write(&self) -> Value {
        let available = self.lost == 0 && !self.damaged;
        let mut value = json!({
            "version": 1, "status": if available { "available" } else { "unavailable" }, "batches": self.batches,
        });
        if self.lost > 0 {
            value["lost_batches"] = json!(self.lost);
        }
        value
    }
}

fn batch(value: &Value) -> Option<ArchivedBatch> {
    let batch: ArchivedBatch = serde_json::from_value(value.clone()).ok()?;
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let id = batch.batch_id.strip_prefix('b').filter(|rest| rest.len() == 32)?;
    (hex(id) && batch.digest.len() == 64 && hex(&batch.digest)).then_some(batch)
}
