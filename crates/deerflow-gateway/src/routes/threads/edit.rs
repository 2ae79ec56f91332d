//! Writes to the state of a thread from outside a run.

use super::{ThreadPath, settable};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Json, Path};
use crate::wire::{CheckpointChoice, State as ThreadState, Thread};
use axum::extract::State;
use deerflow_core::ports::{ThreadPatch, ThreadRepo as _};
use deerflow_core::{CheckpointId, JsonMap};
use deerflow_service::StateWrite;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// A write.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Write {
    /// By channel. Reducers apply: messages are added or replaced by id. Lists of such objects are folded in order.
    #[schema(value_type = Option<Object>, example = json!({"title": "Sales in spring"}))]
    values: Option<Value>,
    /// The checkpoint to write on; the head when absent.
    #[schema(value_type = Option<String>)]
    checkpoint_id: Option<CheckpointId>,
    /// The same as an object.
    #[schema(value_type = Option<Object>)]
    checkpoint: Option<CheckpointChoice>,
    /// In whose name: `model`, `tools`, `__input__`, `__end__` or a hook. The thread goes on with what follows that node.
    as_node: Option<String>,
}

/// A change of metadata.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Metadata {
    /// Merged into the thread's metadata key by key; `null` deletes a key.
    #[schema(value_type = Object)]
    metadata: JsonMap,
}

/// Write to the state of a thread
///
/// Makes a checkpoint. On an older checkpoint it begins a branch, whose end is the head then; nothing is lost.
#[utoipa::path(post, path = "/threads/{thread_id}/state", tag = "threads", params(ThreadPath), request_body = Write,
    responses((status = 200, body = ThreadState), (status = 404, description = "There is no such thread or checkpoint"),
        (status = 409, description = "A run is live on it"),
        (status = 422, description = "An unknown channel, or a value that does not fit")))]
pub(super) async fn update(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
    Json(write): Json<Write>,
) -> Result<axum::Json<ThreadState>, ApiError> {
    let checkpoint = match (write.checkpoint_id, write.checkpoint) {
        (Some(id), _) => CheckpointChoice::of(id),
        (None, choice) => choice.unwrap_or_default(),
    };
    let write = StateWrite { values: write.values, checkpoint, as_node: write.as_node };
    Ok(axum::Json(app.service.write_state(&caller.user_id, &thread_id, write).await?))
}

/// Change the metadata of a thread, through its state
#[utoipa::path(patch, path = "/threads/{thread_id}/state", tag = "threads", params(ThreadPath), request_body = Metadata,
    responses((status = 200, body = Thread), (status = 404, description = "There is no such thread")))]
pub(super) async fn patch(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
    Json(Metadata { metadata }): Json<Metadata>,
) -> Result<axum::Json<Thread>, ApiError> {
    let patch = ThreadPatch { metadata: settable(Some(metadata)), ..ThreadPatch::default() };
    let row = app.store.patch_thread(&caller.user_id, &thread_id, patch).await?;
    Ok(axum::Json(Thread::with_values(row, json!({}))))
}
