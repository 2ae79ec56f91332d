//! The goal of a thread.

use super::ThreadPath;
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Bounded, Json, Path};
use axum::extract::State;
use deerflow_harness::goal::MAX_CONTINUATIONS;
use deerflow_service::Goal;
use serde::Deserialize;
use utoipa::ToSchema;

/// A goal to be set.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct NewGoal {
    /// What must be true when it is reached, 1 to 4000 characters.
    #[schema(example = "The report in outputs/ names a source for every figure")]
    objective: String,
    /// Automatic turns allowed.
    #[serde(default = "most")]
    #[schema(value_type = u32, minimum = 0, maximum = 8, default = 8)]
    max_continuations: Bounded<0, { MAX_CONTINUATIONS as i64 }>,
}

fn most() -> Bounded<0, { MAX_CONTINUATIONS as i64 }> {
    Bounded::new(i64::from(MAX_CONTINUATIONS))
}

/// Show the goal of a thread
///
/// A thread that is not there has none.
#[utoipa::path(get, path = "/threads/{thread_id}/goal", tag = "threads", params(ThreadPath),
    responses((status = 200, body = Goal), (status = 404, description = "The thread is somebody else's")))]
pub(super) async fn get(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
) -> Result<axum::Json<Goal>, ApiError> {
    Ok(axum::Json(app.service.goal(&caller.user_id, &thread_id).await?))
}

/// Set the goal of a thread
///
/// Runs go on by themselves until it is reached. A thread that is not there is made.
#[utoipa::path(put, path = "/threads/{thread_id}/goal", tag = "threads", params(ThreadPath), request_body = NewGoal,
    responses((status = 200, body = Goal), (status = 409, description = "A run is live on it")))]
pub(super) async fn put(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
    Json(new): Json<NewGoal>,
) -> Result<axum::Json<Goal>, ApiError> {
    let most = new.max_continuations.get();
    Ok(axum::Json(app.service.set_goal(&caller.user_id, &thread_id, &new.objective, most).await?))
}

/// End the goal of a thread
///
/// A thread that is not there has none.
#[utoipa::path(delete, path = "/threads/{thread_id}/goal", tag = "threads", params(ThreadPath),
    responses((status = 200, body = Goal), (status = 409, description = "A run is live on it")))]
pub(super) async fn delete(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
) -> Result<axum::Json<Goal>, ApiError> {
    Ok(axum::Json(app.service.clear_goal(&caller.user_id, &thread_id).await?))
}
