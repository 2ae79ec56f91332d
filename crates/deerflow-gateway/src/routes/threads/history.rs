//! The checkpoints of a thread.

use super::ThreadPath;
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Bounded, OptionalJson, Path};
use crate::wire::{CheckpointChoice, Select, State as ThreadState, checkpoint_metadata};
use axum::Json;
use axum::extract::State;
use deerflow_core::ports::{RunFilter, RunRepo as _, StepLog as _, ThreadRepo as _};
use deerflow_core::{CheckpointId, JsonMap, Lineage, ThreadId};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use utoipa::ToSchema;

/// Checkpoints looked at in one request when a filter passes over most of them.
const LOOKED_AT: usize = 5000;
/// The same at a time.
const PAGE: u32 = 200;
/// Runs whose durations are known to a history.
const RUNS: u32 = 1000;

/// Which checkpoints, and how many.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = WhichCheckpoints)]
pub(super) struct Which {
    /// At most this many.
    #[schema(value_type = u32, minimum = 1, maximum = 100, default = 10)]
    limit: Bounded<1, 100>,
    /// Those before this one: an id, or the object that states carry.
    #[schema(value_type = Option<Object>)]
    before: Option<CheckpointChoice>,
    /// Metadata a checkpoint must have.
    #[schema(value_type = Option<Object>)]
    metadata: Option<JsonMap>,
    /// Whose checkpoints: `checkpoint_ns` names a sub-agent.
    #[schema(value_type = Option<Object>)]
    checkpoint: Option<CheckpointChoice>,
    /// Fields to answer with, `values.<channel>` for one channel; all when absent.
    #[schema(value_type = Option<Vec<String>>)]
    select: Select,
}

impl Default for Which {
    fn default() -> Self {
        let select = Select::default();
        Self { limit: Bounded::new(10), before: None, metadata: None, checkpoint: None, select }
    }
}

/// List the checkpoints of a thread
///
/// Newest first, on all branches. Entries of a list of one have no `checkpoint` and no `tasks`: a client that finds the
/// checkpoint of the head sends it back with its next run, as if a branch had been chosen. A thread that is not there has no
/// history.
#[utoipa::path(post, path = "/threads/{thread_id}/history", tag = "threads", params(ThreadPath), request_body = Which,
    responses((status = 200, body = Vec<ThreadState>), (status = 404, description = "`before` is no checkpoint of it")))]
pub(super) async fn history(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
    OptionalJson(which): OptionalJson<Which>,
) -> Result<Json<Vec<Value>>, ApiError> {
    if app.store.thread(&caller.user_id, &thread_id).await?.is_none() {
        return Ok(Json(Vec::new()));
    }
    let before = which.before.unwrap_or_default();
    if before.is_before_first() {
        return Ok(Json(Vec::new()));
    }
    let namespace = which.checkpoint.map(|choice| choice.namespace).unwrap_or_default();
    let lineage = Lineage { thread_id: thread_id.clone(), namespace: namespace.clone() };
    let limit = which.limit.get();
    let ids = matching(&app, &lineage, before.id, which.metadata.as_ref(), limit as usize).await?;
    let mut entries = Vec::with_capacity(ids.len());
    for (index, id) in ids.iter().enumerate() {
        let Some(checkpoint) = app.store.load(&lineage, Some(id)).await? else { continue };
        let mut entry = json!(ThreadState::new(&thread_id, &namespace, Some(&checkpoint)));
        if index == 0 {
            attribute(&app, &caller, &thread_id, &mut entry).await?;
        }
        if limit == 1
            && let Some(entry) = entry.as_object_mut()
        {
            for key in ["checkpoint", "parent_checkpoint", "tasks", "interrupts"] {
                entry.shift_remove(key);
            }
            if let Some(metadata) = entry.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.retain(|key, _| !matches!(key.as_str(), "source" | "parents"));
            }
        }
        entries.push(which.select.of(entry));
    }
    Ok(Json(entries))
}

/// Ids of the checkpoints before `before` that have this metadata, newest first.
async fn matching(
    app: &AppState,
    lineage: &Lineage,
    mut before: Option<CheckpointId>,
    wanted: Option<&JsonMap>,
    limit: usize,
) -> Result<Vec<CheckpointId>, ApiError> {
    let (mut found, mut seen) = (Vec::new(), 0);
    let page =
        if wanted.is_some_and(|wanted| !wanted.is_empty()) { PAGE } else { u32::try_from(limit).unwrap_or(PAGE) };
    loop {
        let entries = app.store.history(lineage, before.as_ref(), page).await?;
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
async fn attribute(app: &AppState, caller: &Caller, id: &ThreadId, entry: &mut Value) -> Result<(), ApiError> {
    let filter = RunFilter { thread_id: Some(id.clone()), limit: RUNS, ..RunFilter::default() };
    let runs = app.store.runs(&caller.user_id, filter).await?;
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
