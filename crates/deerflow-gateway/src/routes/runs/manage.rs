//! Lists, shows, stops and deletes runs.

use super::{InThread, OfThread, find};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Bounded, Flag, Path, Query};
use crate::wire::{Run, Select};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use deerflow_core::ports::{CancelAction, RunRow};
use deerflow_service::RunQuery;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

/// Which runs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(default)]
pub(super) struct Listing {
    /// At most this many.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Bounded<1, 1000>,
    /// After this many.
    #[param(value_type = Option<u32>, minimum = 0)]
    offset: Bounded<0, { u32::MAX as i64 }>,
    /// `pending`, `running`, `success`, `error`, `timeout` or `interrupted`.
    status: Option<String>,
    /// Fields to answer with; all of them when absent.
    #[param(value_type = Option<Vec<String>>)]
    select: Select,
}

impl Default for Listing {
    fn default() -> Self {
        Self { limit: Bounded::new(100), offset: Bounded::new(0), status: None, select: Select::default() }
    }
}

/// List the runs of a thread
///
/// Newest first.
#[utoipa::path(get, path = "/threads/{thread_id}/runs", tag = "runs", params(InThread, Listing),
    responses((status = 200, body = Vec<Run>), (status = 404, description = "No such thread")))]
pub(super) async fn list(
    caller: Caller,
    State(app): State<AppState>,
    Path(InThread { thread_id }): Path<InThread>,
    Query(listing): Query<Listing>,
) -> Result<Json<Vec<Value>>, ApiError> {
    let query = RunQuery { limit: listing.limit.get(), offset: listing.offset.get(), status: listing.status };
    let runs = app.service.runs_of(&caller.user_id, &thread_id, query).await?;
    Ok(Json(runs.into_iter().map(|run| listing.select.of(json!(run))).collect()))
}

/// Show a run
#[utoipa::path(get, path = "/threads/{thread_id}/runs/{run_id}", tag = "runs", params(OfThread),
    responses((status = 200, body = Run), (status = 404, description = "No such run")))]
pub(super) async fn get(
    caller: Caller,
    State(app): State<AppState>,
    Path(OfThread { thread_id, run_id }): Path<OfThread>,
) -> Result<Json<Run>, ApiError> {
    Ok(Json(app.service.run(&caller.user_id, &thread_id, &run_id).await?))
}

/// Delete a run
///
/// Its row goes; what it said and did stays part of the conversation.
#[utoipa::path(delete, path = "/threads/{thread_id}/runs/{run_id}", tag = "runs", params(OfThread),
    responses((status = 204), (status = 404, description = "No such run"), (status = 409, description = "It has not ended")))]
pub(super) async fn delete(
    caller: Caller,
    State(app): State<AppState>,
    Path(OfThread { thread_id, run_id }): Path<OfThread>,
) -> Result<StatusCode, ApiError> {
    app.service.delete_run(&caller.user_id, &thread_id, &run_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What stopping means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    /// Keep what it did.
    #[default]
    Interrupt,
    /// Take back what it did.
    Rollback,
}

/// How to stop.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
pub(super) struct Stopping {
    /// Answer when it has stopped.
    #[param(value_type = Option<bool>)]
    wait: Flag,
    /// `interrupt` or `rollback`.
    action: Action,
}

/// Stop a run
#[utoipa::path(post, path = "/threads/{thread_id}/runs/{run_id}/cancel", tag = "runs", params(OfThread, Stopping),
    responses((status = 202, description = "It will stop"), (status = 204, description = "It has stopped (`wait=1`)"),
    (status = 404, description = "No such run"), (status = 409, description = "It has ended by itself")))]
pub(super) async fn cancel(
    caller: Caller,
    State(app): State<AppState>,
    Path(OfThread { thread_id, run_id }): Path<OfThread>,
    Query(stopping): Query<Stopping>,
) -> Result<StatusCode, ApiError> {
    let row = find(&app, &caller, &thread_id, &run_id).await?;
    stop(&app, &row, stopping.action, stopping.wait.0).await?;
    Ok(if stopping.wait.0 { StatusCode::NO_CONTENT } else { StatusCode::ACCEPTED })
}

/// Stops a run that is the caller's.
pub(super) async fn stop(app: &AppState, row: &RunRow, action: Action, wait: bool) -> Result<(), ApiError> {
    let action = match action {
        Action::Interrupt => CancelAction::Interrupt,
        Action::Rollback => CancelAction::Rollback,
    };
    Ok(app.service.stop(row, action, wait).await?)
}
