//! Creates runs on a thread.

use super::admit;
use super::follow::{Reader, locate, response};
use super::{InThread, settle};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Json, Path};
use crate::wire::Run;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use deerflow_service::RunBody;

/// Create a run
///
/// It runs in the background; join or poll it.
#[utoipa::path(post, path = "/threads/{thread_id}/runs", tag = "runs", params(InThread), request_body = RunBody,
    responses((status = 200, body = Run), (status = 404, description = "No such thread or checkpoint"),
    (status = 409, description = "The thread has a live run"), (status = 422, description = "The body does not fit")))]
pub(super) async fn create(
    caller: Caller,
    State(app): State<AppState>,
    Path(InThread { thread_id }): Path<InThread>,
    headers: HeaderMap,
    Json(body): Json<RunBody>,
) -> Result<Response, ApiError> {
    let row = admit(&app, &caller, &thread_id, body, &headers, false).await?;
    let mut response = Answer(Run::of(row.clone(), None)).into_response();
    super::follow::locate(&mut response, &row, "stream")?;
    response.headers_mut().remove(axum::http::header::LOCATION);
    Ok(response)
}

/// Create a run and follow it
///
/// Server-sent events: `metadata`, frames of the modes asked for, `end`. A reader that was cut off goes on at `Location`
/// with `Last-Event-ID`.
#[utoipa::path(post, path = "/threads/{thread_id}/runs/stream", tag = "runs", params(InThread), request_body = RunBody,
    responses((status = 200, description = "Frames", content_type = "text/event-stream", body = String),
    (status = 404, description = "No such thread or checkpoint"), (status = 409, description = "The thread has a live run"),
    (status = 422, description = "The body does not fit")))]
pub(super) async fn stream(
    caller: Caller,
    State(app): State<AppState>,
    Path(InThread { thread_id }): Path<InThread>,
    headers: HeaderMap,
    Json(body): Json<RunBody>,
) -> Result<Response, ApiError> {
    let row = admit(&app, &caller, &thread_id, body, &headers, false).await?;
    let mut response = response(&app, &row, Reader::creator(&row));
    locate(&mut response, &row, "stream")?;
    Ok(response)
}

/// Create a run and wait for its end
///
/// The values of the state at the end, also of a run that failed.
#[utoipa::path(post, path = "/threads/{thread_id}/runs/wait", tag = "runs", params(InThread), request_body = RunBody,
    responses((status = 200, description = "Values of the state", body = Object),
    (status = 404, description = "No such thread or checkpoint"), (status = 409, description = "The thread has a live run"),
    (status = 422, description = "The body does not fit")))]
pub(super) async fn wait(
    caller: Caller,
    State(app): State<AppState>,
    Path(InThread { thread_id }): Path<InThread>,
    headers: HeaderMap,
    Json(body): Json<RunBody>,
) -> Result<Response, ApiError> {
    let row = admit(&app, &caller, &thread_id, body, &headers, false).await?;
    let cancels = Reader::creator(&row).cancels;
    settle::response(&app, &row, cancels)
}
