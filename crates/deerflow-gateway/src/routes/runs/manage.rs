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
use deerflow_core::RunStatus;
use deerflow_core::ports::{CancelAction, RunFilter, RunRepo as _, RunRow, ThreadRepo as _, UsageRepo as _};
use deerflow_runtime::CancelError;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
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
    if app.store.thread(&caller.user_id, &thread_id).await?.is_none() {
        return Err(ApiError::no_thread(&thread_id));
    }
    let status = match listing.status.as_deref().map(statuses) {
        // A status that no run can have.
        Some(status) if status.is_empty() => return Ok(Json(Vec::new())),
        status => status.unwrap_or_default(),
    };
    let filter =
        RunFilter { thread_id: Some(thread_id), status, limit: listing.limit.get(), offset: listing.offset.get() };
    let rows = app.store.runs(&caller.user_id, filter).await?;
    let ids: Vec<_> = rows.iter().map(|row| row.run_id.clone()).collect();
    let mut used = app.store.run_usage(&caller.user_id, &ids).await?;
    let runs = rows.into_iter().map(|row| {
        let used = used.remove(&row.run_id);
        listing.select.of(json!(Run::of(row, used.as_ref())))
    });
    Ok(Json(runs.collect()))
}

/// The statuses that are shown under this name.
fn statuses(name: &str) -> Vec<RunStatus> {
    let all = [
        RunStatus::Queued,
        RunStatus::Pending,
        RunStatus::Running,
        RunStatus::Success,
        RunStatus::Error,
        RunStatus::Timeout,
        RunStatus::Interrupted,
        RunStatus::RolledBack,
    ];
    all.into_iter().filter(|status| status.wire() == name).collect()
}

/// Show a run
#[utoipa::path(get, path = "/threads/{thread_id}/runs/{run_id}", tag = "runs", params(OfThread),
    responses((status = 200, body = Run), (status = 404, description = "No such run")))]
pub(super) async fn get(
    caller: Caller,
    State(app): State<AppState>,
    Path(OfThread { thread_id, run_id }): Path<OfThread>,
) -> Result<Json<Run>, ApiError> {
    let row = find(&app, &caller, &thread_id, &run_id).await?;
    let used: BTreeMap<_, _> = app.store.run_usage(&caller.user_id, std::slice::from_ref(&run_id)).await?;
    Ok(Json(Run::of(row, used.get(&run_id))))
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
    find(&app, &caller, &thread_id, &run_id).await?;
    app.store.delete_run(&caller.user_id, &run_id).await?;
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
    match app.runs.cancel(&row.run_id, action, wait).await {
        Ok(_) => Ok(()),
        Err(CancelError::Store(error)) => Err(error.into()),
        Err(CancelError::NotFound(id)) => Err(ApiError::not_found(format!("Run {id} not found"))),
        Err(CancelError::Over { run_id, status }) => {
            Err(ApiError::conflict(format!("Run {run_id} is not cancellable (status: {})", status.wire())))
        }
    }
}
