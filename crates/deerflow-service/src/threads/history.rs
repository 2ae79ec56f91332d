//! The checkpoints of a thread.

use crate::refusal::Refusal;
use crate::service::Service;
use crate::shapes::{CheckpointChoice, Select, State, checkpoint_metadata};
use deerflow_core::ports::{RunFilter, RunRepo as _, StepLog as _, ThreadRepo as _};
use deerflow_core::{CheckpointId, JsonMap, Lineage, ThreadId, UserId};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Checkpoints looked at in one request when a filter passes over most of them.
const LOOKED_AT: usize = 5000;
/// The same at a time.
const PAGE: u32 = 200;
/// Runs whose durations are known to a history.
const RUNS: u32 = 1000;

/// Which checkpoints, and how many.
#[derive(Debug, Clone)]
pub struct HistoryQuery {
    /// At most this many.
    pub limit: u32,
    /// Those before this one.
    pub before: Option<CheckpointChoice>,
    /// Metadata a checkpoint must have.
    pub metadata: Option<JsonMap>,
    /// Namespace of a sub-agent; empty for the thread itself.
    pub namespace: String,
    /// Fields to answer with.
    pub select: Select,
}

impl Default for HistoryQuery {
    fn default() -> Self {
        Self { limit: 10, before: None, metadata: None, namespace: String::new(), select: Select::default() }
    }
}

impl Service {
    /// The checkpoints of a thread, newest first, on all branches. Entries of a list of one have no `checkpoint` and no `tasks`:
    /// a client that finds the checkpoint of the head sends it back with its next run, as if a branch had been chosen. A thread
    /// that is not there has no history.
    ///
    /// # Errors
    /// Not found, when `before` is no checkpoint of it.
    pub async fn history(&self, user: &UserId, id: &ThreadId, query: HistoryQuery) -> Result<Vec<Value>, Refusal> {
        if self.store.thread(user, id).await?.is_none() {
            return Ok(Vec::new());
        }
        let before = query.before.unwrap_or_default();
        if before.is_before_first() {
            return Ok(Vec::new());
        }
        let namespace = query.namespace;
        let lineage = Lineage { thread_id: id.clone(), namespace: namespace.clone() };
        let ids = matching(self, &lineage, before.id, query.metadata.as_ref(), query.limit as usize).await?;
        let mut entries = Vec::with_capacity(ids.len());
        for (index, checkpoint) in ids.iter().enumerate() {
            let Some(checkpoint) = self.store.load(&lineage, Some(checkpoint)).await? else { continue };
            let mut entry = json!(State::new(id, &namespace, Some(&checkpoint)));
            if index == 0 {
                attribute(self, user, id, &mut entry).await?;
            }
            if query.limit == 1
                && let Some(entry) = entry.as_object_mut()
            {
                for key in ["checkpoint", "parent_checkpoint", "tasks", "interrupts"] {
                    entry.shift_remove(key);
                }
                if let Some(metadata) = entry.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.retain(|key, _| !matches!(key.as_str(), "source" | "parents"));
                }
            }
            entries.push(query.select.of(entry));
        }
        Ok(entries)
    }
}

/// Ids of the checkpoints before `before` that have this metadata, newest first.
async fn matching(
    service: &Service,
    lineage: &Lineage,
    mut before: Option<CheckpointId>,
    wanted: Option<&JsonMap>,
    limit: usize,
) -> Result<Vec<CheckpointId>, Refusal> {
    let (mut found, mut seen) = (Vec::new(), 0);
    let page =
        if wanted.is_some_and(|wanted| !wanted.is_empty()) { PAGE } else { u32::try_from(limit).unwrap_or(PAGE) };
    loop {
        let entries = service.store.history(lineage, before.as_ref(), page).await?;
        seen += entries.len();
        let is_last = entries.len() < page as usize || seen >= LOOKED_AT;
        before = entries.last().map(|entry| entry.id.clone());
        let fits = |metadata: JsonMap| {
            wanted.is_none_or(|wanted| {
                wanted.iter().all(|(key, value)| metadata.get(key).unwrap_or(&Value::Null) == value)
            })
        };
        let fitting = entries
            .into_iter()
            .filter(|entry| fits(checkpoint_metadata(entry.kind, entry.step, entry.run_id.as_ref())));
        found.extend(fitting.map(|entry| entry.id));
        if is_last || found.len() >= limit {
            found.truncate(limit);
            return Ok(found);
        }
    }
}

/// Says of each message of the assistant and of tools which run it is of, and of each run's last one how long that took.
async fn attribute(service: &Service, user: &UserId, id: &ThreadId, entry: &mut Value) -> Result<(), Refusal> {
    let filter = RunFilter { thread_id: Some(id.clone()), limit: RUNS, ..RunFilter::default() };
    let runs = service.store.runs(user, filter).await?;
    let over = runs.into_iter().filter(|run| run.status.is_terminal());
    let mut seconds: HashMap<String, i64> =
        over.map(|run| (run.run_id.to_string(), (run.updated_at - run.created_at).max(0) / 1_000_000)).collect();
    let Some(messages) = entry.pointer_mut("/values/messages").and_then(Value::as_array_mut) else { return Ok(()) };
    let mut run_of = Vec::with_capacity(messages.len());
    let mut current: Option<String> = None;
    for message in messages.iter() {
        if message["type"] == "human"
            && let Some(run) = message["additional_kwargs"]["run_id"].as_str()
        {
            current = Some(run.to_owned());
        }
        run_of.push(current.clone());
    }
    for (message, run) in messages.iter_mut().zip(run_of).rev() {
        let Some(run) = run else { continue };
        let is_ai = message["type"] == "ai";
        if !is_ai && message["type"] != "tool" {
            continue;
        }
        if is_ai && let Some(seconds) = seconds.remove(&run) {
            message["additional_kwargs"]["turn_duration"] = json!(seconds);
        }
        message["run_id"] = json!(run);
    }
    Ok(())
}
