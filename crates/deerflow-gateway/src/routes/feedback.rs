//! What users think of answers.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Json, Path};
use crate::wire::iso;
use axum::Json as Answer;
use axum::extract::State;
use deerflow_core::ports::{FeedbackRepo as _, FeedbackRow, NewFeedback, Rating, RunRepo as _, ThreadRepo as _};
use deerflow_core::{RunId, StoreError, ThreadId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(put, take_back, add, list))
        .routes(routes!(stats))
        .routes(routes!(delete))
        .routes(routes!(of_run))
}

#[derive(Debug, Deserialize, IntoParams)]
struct OfThread {
    /// The thread.
    #[param(value_type = String)]
    thread_id: ThreadId,
    /// The run.
    #[param(value_type = String)]
    run_id: RunId,
}

#[derive(Debug, Deserialize, IntoParams)]
struct OneOf {
    /// The thread.
    #[param(value_type = String)]
    thread_id: ThreadId,
    /// The run.
    #[param(value_type = String)]
    run_id: RunId,
    /// The feedback.
    feedback_id: String,
}

/// A judgement.
#[derive(Debug, Deserialize, ToSchema)]
struct Given {
    /// 1 or -1.
    #[schema(example = 1)]
    rating: i64,
    /// Words to it.
    #[serde(default)]
    comment: Option<String>,
    /// The message it is about; the run as a whole when absent.
    #[serde(default)]
    message_id: Option<String>,
}

/// Feedback.
#[derive(Debug, Serialize, ToSchema)]
struct Feedback {
    feedback_id: String,
    run_id: String,
    thread_id: String,
    user_id: String,
    message_id: Option<String>,
    /// 1 or -1.
    rating: i8,
    comment: Option<String>,
    /// ISO 8601.
    created_at: String,
}

impl From<FeedbackRow> for Feedback {
    fn from(row: FeedbackRow) -> Self {
        Self {
            feedback_id: row.feedback_id,
            run_id: row.run_id.to_string(),
            thread_id: row.thread_id.to_string(),
            user_id: row.user_id.to_string(),
            message_id: row.message_id,
            rating: row.rating.as_number(),
            comment: row.comment,
            created_at: iso(row.created_at),
        }
    }
}

/// Judgements of a run, counted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FeedbackStats)]
struct Stats {
    run_id: String,
    total: u64,
    positive: u64,
    negative: u64,
}

async fn store(app: &AppState, caller: &Caller, of: OfThread, given: Given) -> Result<Answer<Feedback>, ApiError> {
    let rating = Rating::from_number(given.rating).ok_or_else(|| ApiError::bad_request("rating must be +1 or -1"))?;
    require(app, caller, &of.thread_id).await?;
    let feedback = NewFeedback { message_id: given.message_id, rating, comment: given.comment };
    match app.store.put_feedback(&caller.user_id, &of.thread_id, &of.run_id, feedback).await {
        Ok(row) => Ok(Answer(row.into())),
        Err(StoreError::BadInput { field, reason }) => {
            Err(ApiError::invalid("value_error", json!(["body", field]), reason, Value::Null))
        }
        Err(error) => Err(error.into()),
    }
}

/// Judge a run
///
/// In place of what the user thought of it before.
#[utoipa::path(put, path = "/threads/{thread_id}/runs/{run_id}/feedback", tag = "feedback", params(OfThread), request_body = Given,
    responses((status = 200, body = Feedback), (status = 400, description = "No rating"), (status = 404, description = "No such run")))]
async fn put(
    caller: Caller,
    State(app): State<AppState>,
    Path(of): Path<OfThread>,
    Json(given): Json<Given>,
) -> Result<Answer<Feedback>, ApiError> {
    store(&app, &caller, of, Given { message_id: None, ..given }).await
}

/// Judge a run, or a message of it
#[utoipa::path(post, path = "/threads/{thread_id}/runs/{run_id}/feedback", tag = "feedback", params(OfThread), request_body = Given,
    responses((status = 200, body = Feedback), (status = 400, description = "No rating"), (status = 404, description = "No such run")))]
async fn add(
    caller: Caller,
    State(app): State<AppState>,
    Path(of): Path<OfThread>,
    Json(given): Json<Given>,
) -> Result<Answer<Feedback>, ApiError> {
    store(&app, &caller, of, given).await
}

/// Take a judgement of a run back
#[utoipa::path(delete, path = "/threads/{thread_id}/runs/{run_id}/feedback", tag = "feedback", params(OfThread),
    responses((status = 200), (status = 404, description = "There is none")))]
async fn take_back(
    caller: Caller,
    State(app): State<AppState>,
    Path(of): Path<OfThread>,
) -> Result<Answer<Value>, ApiError> {
    require(&app, &caller, &of.thread_id).await?;
    removed(app.store.delete_feedback(&caller.user_id, &of.thread_id, &of.run_id, None).await, || {
        "No feedback found for this run".to_owned()
    })
}

/// Take one judgement back
#[utoipa::path(delete, path = "/threads/{thread_id}/runs/{run_id}/feedback/{feedback_id}", tag = "feedback", params(OneOf),
    responses((status = 200), (status = 404, description = "There is none")))]
async fn delete(
    caller: Caller,
    State(app): State<AppState>,
    Path(OneOf { thread_id, run_id, feedback_id }): Path<OneOf>,
) -> Result<Answer<Value>, ApiError> {
    require(&app, &caller, &thread_id).await?;
    removed(app.store.delete_feedback(&caller.user_id, &thread_id, &run_id, Some(&feedback_id)).await, || {
        format!("Feedback {feedback_id} not found")
    })
}

fn removed(result: Result<(), StoreError>, missing: impl FnOnce() -> String) -> Result<Answer<Value>, ApiError> {
    match result {
        Ok(()) => Ok(Answer(json!({"success": true}))),
        Err(StoreError::NotFound { .. }) => Err(ApiError::not_found(missing())),
        Err(error) => Err(error.into()),
    }
}

/// Show the judgements of a run
#[utoipa::path(get, path = "/threads/{thread_id}/runs/{run_id}/feedback", tag = "feedback", params(OfThread),
    responses((status = 200, body = Vec<Feedback>), (status = 404, description = "No such thread")))]
async fn list(
    caller: Caller,
    State(app): State<AppState>,
    Path(of): Path<OfThread>,
) -> Result<Answer<Vec<Feedback>>, ApiError> {
    require(&app, &caller, &of.thread_id).await?;
    let rows = app.store.feedback(&caller.user_id, &of.thread_id, Some(&of.run_id)).await?;
    Ok(Answer(rows.into_iter().map(Feedback::from).collect()))
}

/// Count the judgements of a run
#[utoipa::path(get, path = "/threads/{thread_id}/runs/{run_id}/feedback/stats", tag = "feedback", params(OfThread),
    responses((status = 200, body = Stats), (status = 404, description = "No such thread")))]
async fn stats(
    caller: Caller,
    State(app): State<AppState>,
    Path(of): Path<OfThread>,
) -> Result<Answer<Stats>, ApiError> {
    require(&app, &caller, &of.thread_id).await?;
    let stats = app.store.feedback_stats(&caller.user_id, &of.thread_id, &of.run_id).await?;
    Ok(Answer(Stats {
        run_id: of.run_id.to_string(),
        total: stats.positive + stats.negative,
        positive: stats.positive,
        negative: stats.negative,
    }))
}

async fn require(app: &AppState, caller: &Caller, thread_id: &ThreadId) -> Result<(), ApiError> {
    let known = app.store.thread(&caller.user_id, thread_id).await?.is_some();
    if known { Ok(()) } else { Err(ApiError::no_thread(thread_id)) }
}

#[derive(Debug, Deserialize, IntoParams)]
struct One {
    /// The run.
    #[param(value_type = String)]
    run_id: RunId,
}

/// Show the judgements of a run by its id alone
#[utoipa::path(get, path = "/runs/{run_id}/feedback", tag = "feedback", params(One),
    responses((status = 200, body = Vec<Feedback>), (status = 404, description = "No such run")))]
async fn of_run(
    caller: Caller,
    State(app): State<AppState>,
    Path(One { run_id }): Path<One>,
) -> Result<Answer<Vec<Feedback>>, ApiError> {
    let row = app.store.run(&run_id).await?.filter(|row| row.user_id == caller.user_id);
    let row = row.ok_or_else(|| ApiError::not_found(format!("Run {run_id} not found")))?;
    let rows = app.store.feedback(&caller.user_id, &row.thread_id, Some(&run_id)).await?;
    Ok(Answer(rows.into_iter().map(Feedback::from).collect()))
}
