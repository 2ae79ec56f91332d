//! Runs that bring their own thread, and several runs at once.

use super::admit;
use super::follow::{Reader, locate, response};
use super::join::Following;
use super::manage::{Action, stop};
use super::settle;
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Json, JsonList, OptionalJson, Path, Query};
use crate::wire::Run;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use deerflow_core::ports::{RunFilter, RunRepo as _, RunRow, ThreadRepo as _};
use deerflow_core::{RunId, RunStatus, ThreadId};
use deerflow_service::{BatchBody, OnCompletionBody, RunBody};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

/// Runs of one batch.
const BATCH: usize = 100;
/// Runs that one request stops.
const STOPPED: u32 = 1000;

/// Create a run on a thread of its own
///
/// On the thread of `config.configurable.thread_id` when it names one.
#[utoipa::path(post, path = "/runs", tag = "stateless runs", request_body = RunBody,
    responses((status = 200, body = Run), (status = 404, description = "The thread is somebody else's"),
    (status = 409, description = "The thread has a live run"), (status = 422, description = "The body does not fit")))]
pub(super) async fn create(
    caller: Caller,
    State(app): State<AppState>,
    headers: HeaderMap,
    Json(body): Json<RunBody>,
) -> Result<Answer<Run>, ApiError> {
    let row = admit_anywhere(&app, &caller, body, &headers).await?;
    Ok(Answer(Run::of(row, None)))
}

/// Create a run on a thread of its own, and follow it
#[utoipa::path(post, path = "/runs/stream", tag = "stateless runs", request_body = RunBody,
    responses((status = 200, description = "Frames", content_type = "text/event-stream", body = String),
    (status = 404, description = "The thread is somebody else's"), (status = 409, description = "The thread has a live run"),
    (status = 422, description = "The body does not fit")))]
pub(super) async fn stream(
    caller: Caller,
    State(app): State<AppState>,
    headers: HeaderMap,
    Json(body): Json<RunBody>,
) -> Result<Response, ApiError> {
    let row = admit_anywhere(&app, &caller, body, &headers).await?;
    let mut response = response(&app, &row, Reader::creator(&row));
    locate(&mut response, &row, "stream")?;
    Ok(response)
}

/// Create a run on a thread of its own, and wait for its end
#[utoipa::path(post, path = "/runs/wait", tag = "stateless runs", request_body = RunBody,
    responses((status = 200, description = "Values of the state", body = Object),
    (status = 404, description = "The thread is somebody else's"), (status = 409, description = "The thread has a live run"),
    (status = 422, description = "The body does not fit")))]
pub(super) async fn wait(
    caller: Caller,
    State(app): State<AppState>,
    headers: HeaderMap,
    Json(body): Json<RunBody>,
) -> Result<Response, ApiError> {
    let row = admit_anywhere(&app, &caller, body, &headers).await?;
    let cancels = Reader::creator(&row).cancels;
    settle::response(&app, &row, cancels)
}

/// Create several runs, each on a thread of its own
///
/// They are created in order; an error ends the batch, and names the place of the body that it is about.
#[utoipa::path(post, path = "/runs/batch", tag = "stateless runs", request_body = Vec<RunBody>,
    responses((status = 200, body = Vec<Run>), (status = 422, description = "A body does not fit")))]
pub(super) async fn batch(
    caller: Caller,
    State(app): State<AppState>,
    headers: HeaderMap,
    JsonList(bodies): JsonList<BatchBody>,
) -> Result<Answer<Vec<Run>>, ApiError> {
    if bodies.len() > BATCH {
        let message = format!("List should have at most {BATCH} items");
        return Err(ApiError::invalid("too_long", json!(["body"]), message, Value::Null));
    }
    let mut runs = Vec::with_capacity(bodies.len());
    for BatchBody(body) in bodies {
        runs.push(Run::of(admit_anywhere(&app, &caller, body, &headers).await?, None));
    }
    Ok(Answer(runs))
}

async fn admit_anywhere(
    app: &AppState,
    caller: &Caller,
    body: RunBody,
    headers: &HeaderMap,
) -> Result<RunRow, ApiError> {
    let named = body.configured_thread().transpose().map_err(|error| {
        ApiError::invalid("value_error", json!(["body", "config", "configurable", "thread_id"]), error, Value::Null)
    })?;
    let disposable = named.is_none() && body.on_completion == Some(OnCompletionBody::Delete);
    let thread_id = named.unwrap_or_else(ThreadId::random);
    let row = admit(app, caller, &thread_id, body, headers, true).await?;
    if disposable {
        let (app, run_id, user_id) = (app.clone(), row.run_id.clone(), caller.user_id.clone());
        app.background.clone().spawn(async move {
            let ended = app.runs.wait(&run_id).await;
            if let (Ok(_), Err(error)) = (ended, app.store.delete_thread(&user_id, &thread_id).await) {
                tracing::warn!(%thread_id, %error, "a thread that was to go stays");
            }
        });
    }
    Ok(row)
}

/// Which runs to stop.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = WhichRuns)]
pub(super) struct Which {
    /// Runs of this thread.
    #[schema(value_type = Option<String>)]
    thread_id: Option<ThreadId>,
    /// These runs.
    #[schema(value_type = Option<Vec<String>>)]
    run_ids: Option<Vec<RunId>>,
    /// All runs that are `pending`, `running`, or either (`all`).
    status: Option<BulkStatus>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum BulkStatus {
    Pending,
    Running,
    All,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
pub(super) struct How {
    /// `interrupt` or `rollback`.
    action: Action,
}

/// Stop several runs
#[utoipa::path(post, path = "/runs/cancel", tag = "stateless runs", request_body = Which, params(How),
    responses((status = 204), (status = 404, description = "A run that was named does not exist"),
    (status = 422, description = "Nothing says which runs")))]
pub(super) async fn cancel(
    caller: Caller,
    State(app): State<AppState>,
    Query(How { action }): Query<How>,
    OptionalJson(which): OptionalJson<Which>,
) -> Result<StatusCode, ApiError> {
    if which.run_ids.is_none() && which.status.is_none() && which.thread_id.is_none() {
        let message = "Say which runs: `run_ids`, `thread_id` or `status`";
        return Err(ApiError::invalid("missing", json!(["body"]), message, json!({})));
    }
    let status = match which.status {
        Some(BulkStatus::Pending) => vec![RunStatus::Queued, RunStatus::Pending],
        Some(BulkStatus::Running) => vec![RunStatus::Running],
        Some(BulkStatus::All) | None => vec![RunStatus::Queued, RunStatus::Pending, RunStatus::Running],
    };
    let filter = RunFilter { thread_id: which.thread_id.clone(), status, limit: STOPPED, ..RunFilter::default() };
    let mut rows = app.store.runs(&caller.user_id, filter).await?;
    if let Some(ids) = &which.run_ids {
        for id in ids {
            let known = app.store.run(id).await?.filter(|row| row.user_id == caller.user_id);
            if known.is_none_or(|row| which.thread_id.as_ref().is_some_and(|thread| *thread != row.thread_id)) {
                return Err(ApiError::not_found(format!("Run {id} not found")));
            }
        }
        rows.retain(|row| ids.contains(&row.run_id));
    }
    for row in rows {
        match stop(&app, &row, action, false).await {
            // It ended meanwhile, which is what was wanted.
            Err(error) if error.status == StatusCode::CONFLICT => {}
            stopped => stopped?,
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// A run in the path.
#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct One {
    /// The run.
    #[param(value_type = String)]
    run_id: RunId,
}

/// Follow a run by its id alone
#[utoipa::path(get, path = "/runs/{run_id}/stream", tag = "stateless runs", params(One, Following),
    responses((status = 200, description = "Frames", content_type = "text/event-stream", body = String),
    (status = 404, description = "No such run")))]
pub(super) async fn join(
    caller: Caller,
    State(app): State<AppState>,
    Path(One { run_id }): Path<One>,
    Query(following): Query<Following>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let row = app.store.run(&run_id).await?.filter(|row| row.user_id == caller.user_id);
    let row = row.ok_or_else(|| ApiError::not_found(format!("Run {run_id} not found")))?;
    Ok(response(&app, &row, following.reader(&headers)?))
}
