//! Writes to the state of a thread from outside a run.

use super::state::load;
use super::{ThreadPath, own_thread, settable};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Json, Path};
use crate::wire::{CheckpointChoice, State as ThreadState, Thread, state_update};
use axum::extract::State;
use axum::http::StatusCode;
use deerflow_core::ports::{Committed, ThreadPatch, ThreadRepo as _};
use deerflow_core::{CheckpointId, JsonMap, StateUpdate, StoreError, ThreadId};
use deerflow_runtime::{EditError, StateEdit, update_state};
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
    own_thread(&app, &caller, &thread_id).await?;
    let choice = match (write.checkpoint_id, write.checkpoint) {
        (Some(id), _) => CheckpointChoice::of(id),
        (None, choice) => choice.unwrap_or_default(),
    };
    if !choice.namespace.is_empty() {
        let place = json!(["body", "checkpoint", "checkpoint_ns"]);
        let message = "Only the state of the thread itself can be written, not a sub-agent's";
        return Err(ApiError::invalid("value_error", place, message, json!(choice.namespace)));
    }
    let mut writes = match write.values {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Object(values)) => vec![state_update(values, &["values"])?],
        Some(Value::Array(list)) => {
            let read = |value: Value| match value {
                Value::Object(values) => state_update(values, &["values"]),
                other => Err(no_object("values", other)),
            };
            list.into_iter().map(read).collect::<Result<_, _>>()?
        }
        Some(other) => return Err(no_object("values", other)),
    };
    if writes.is_empty() {
        writes.push(StateUpdate::none());
    }
    // What stands before the first step is where an empty thread is anyway.
    let mut at = choice.id.clone().filter(|_| !choice.is_before_first());
    let mut made = None;
    for update in writes {
        let edit = StateEdit { at: at.take(), as_node: write.as_node.clone(), update, ..StateEdit::default() };
        made = commit(&app, &caller, &thread_id, edit).await?.checkpoint_id;
    }
    let choice = made.map(CheckpointChoice::of).unwrap_or_default();
    let checkpoint = load(&app, &thread_id, &choice).await?;
    Ok(axum::Json(ThreadState::new(&thread_id, "", checkpoint.as_ref())))
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

fn no_object(name: &str, input: Value) -> ApiError {
    ApiError::invalid("dict_type", json!(["body", name]), "Input should be a valid dictionary", input)
}

/// Edits the state of the caller's thread.
pub(super) async fn commit(
    app: &AppState,
    caller: &Caller,
    id: &ThreadId,
    edit: StateEdit,
) -> Result<Committed, ApiError> {
    let as_node = edit.as_node.clone();
    update_state(app.store.as_ref(), &caller.user_id, id, edit).await.map_err(|error| match error {
        EditError::Store(StoreError::ThreadBusy { .. }) => {
            ApiError::conflict("Thread has a run in flight. Update state after the run finishes.")
        }
        EditError::Store(StoreError::StaleParent { .. }) => {
            ApiError::conflict("The thread was changed meanwhile. Read it again.")
        }
        EditError::Store(error) => error.into(),
        EditError::State(error) => ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()),
        error @ EditError::UnknownNode(_) => {
            ApiError::invalid("value_error", json!(["body", "as_node"]), error.to_string(), json!(as_node))
        }
        error @ EditError::NotLast { .. } => ApiError::conflict(error.to_string()),
    })
}
