//! The goal of a thread.

use super::edit::commit;
use super::{ThreadPath, not_foreign};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Bounded, Json, Path};
use axum::extract::State;
use axum::http::StatusCode;
use deerflow_core::ports::{StepLog as _, ThreadRepo as _};
use deerflow_core::{JsonMap, Lineage, ThreadId};
use deerflow_harness::goal::{GoalError, MAX_CONTINUATIONS, MAX_OBJECTIVE_CHARS, clear, new_goal, set};
use deerflow_runtime::StateEdit;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

/// The goal that is worked on.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Goal {
    /// `objective, status, created_at, updated_at, continuation_count, max_continuations, no_progress_count,
    /// max_no_progress_continuations, last_evaluation?`; null when there is none.
    #[schema(value_type = Option<Object>)]
    goal: Value,
}

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
    not_foreign(&app, &caller, &thread_id).await?;
    shown(&app, thread_id).await
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
    let goal = new_goal(&new.objective, Some(new.max_continuations.get())).map_err(|error| {
        let (kind, message) = match error {
            GoalError::Empty => ("string_too_short", "String should have at least 1 character".to_owned()),
            GoalError::TooLong(_) => {
                ("string_too_long", format!("String should have at most {MAX_OBJECTIVE_CHARS} characters"))
            }
        };
        let shown: String = new.objective.chars().take(200).collect();
        ApiError::invalid(kind, json!(["body", "objective"]), message, json!(shown))
    })?;
    app.store.create_thread(&caller.user_id, &thread_id, JsonMap::new()).await?;
    let edit = StateEdit { update: set(goal), ..StateEdit::default() };
    commit(&app, &caller, &thread_id, edit).await.map_err(|error| in_flight(error, "Set the goal"))?;
    shown(&app, thread_id).await
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
    not_foreign(&app, &caller, &thread_id).await?;
    let none = axum::Json(Goal { goal: Value::Null });
    if app.store.thread(&caller.user_id, &thread_id).await?.is_none() {
        return Ok(none);
    }
    let head = app.store.load(&Lineage::root(thread_id.clone()), None).await?;
    if head.is_none_or(|head| head.state.goal.is_none()) {
        return Ok(none);
    }
    let edit = StateEdit { update: clear(), ..StateEdit::default() };
    commit(&app, &caller, &thread_id, edit).await.map_err(|error| in_flight(error, "Clear the goal"))?;
    Ok(none)
}

async fn shown(app: &AppState, id: ThreadId) -> Result<axum::Json<Goal>, ApiError> {
    let head = app.store.load(&Lineage::root(id), None).await?;
    let goal = head.and_then(|head| head.state.goal);
    Ok(axum::Json(Goal { goal: json!(goal) }))
}

fn in_flight(error: ApiError, what: &str) -> ApiError {
    if error.status == StatusCode::CONFLICT {
        return ApiError::conflict(format!("Thread has a run in flight. {what} after the run finishes."));
    }
    error
}
