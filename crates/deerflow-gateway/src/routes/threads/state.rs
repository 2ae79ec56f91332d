//! The state of a thread.

use super::ThreadPath;
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Json, Path, Query};
use crate::wire::{CheckpointChoice, Select, State as ThreadState};
use axum::extract::State;
use deerflow_core::{CheckpointId, ThreadId};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

/// What is to be shown of a state.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct Show {
    /// Fields to answer with, `values.<channel>` for one channel; all when absent.
    #[param(value_type = Vec<String>)]
    select: Select,
}

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct AtPath {
    /// Id of a thread.
    #[param(value_type = String)]
    thread_id: ThreadId,
    /// Id of a checkpoint.
    #[param(value_type = String)]
    checkpoint_id: CheckpointId,
}

/// A checkpoint to be shown.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct At {
    /// The object that states carry.
    #[schema(value_type = Object)]
    checkpoint: CheckpointChoice,
    /// Fields to answer with; all when absent.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>)]
    select: Select,
}

/// Show the state of a thread
///
/// A thread that has run nothing yet has an empty state. Questions of a run that waits for a person are in `tasks` and in
/// `interrupts`.
#[utoipa::path(get, path = "/threads/{thread_id}/state", tag = "threads", params(ThreadPath, Show),
    responses((status = 200, body = ThreadState), (status = 404, description = "There is no such thread")))]
pub(super) async fn get(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
    Query(show): Query<Show>,
) -> Result<axum::Json<Value>, ApiError> {
    show_state(&app, &caller, &thread_id, &CheckpointChoice::default(), &show.select).await
}

/// Show the state of a thread at a checkpoint
#[utoipa::path(get, path = "/threads/{thread_id}/state/{checkpoint_id}", tag = "threads", params(AtPath, Show),
    responses((status = 200, body = ThreadState), (status = 404, description = "There is no such thread or checkpoint")))]
pub(super) async fn at_id(
    caller: Caller,
    State(app): State<AppState>,
    Path(AtPath { thread_id, checkpoint_id }): Path<AtPath>,
    Query(show): Query<Show>,
) -> Result<axum::Json<Value>, ApiError> {
    show_state(&app, &caller, &thread_id, &CheckpointChoice::of(checkpoint_id), &show.select).await
}

/// Show the state of a thread at a checkpoint, by its object
#[utoipa::path(post, path = "/threads/{thread_id}/state/checkpoint", tag = "threads", params(ThreadPath),
    request_body = At,
    responses((status = 200, body = ThreadState), (status = 404, description = "There is no such thread or checkpoint")))]
pub(super) async fn at_checkpoint(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
    Json(At { checkpoint, select }): Json<At>,
) -> Result<axum::Json<Value>, ApiError> {
    show_state(&app, &caller, &thread_id, &checkpoint, &select).await
}

async fn show_state(
    app: &AppState,
    caller: &Caller,
    id: &ThreadId,
    choice: &CheckpointChoice,
    select: &Select,
) -> Result<axum::Json<Value>, ApiError> {
    Ok(axum::Json(select.of(json!(app.service.state(&caller.user_id, id, choice).await?))))
}
