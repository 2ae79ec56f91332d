//! Runs: created, followed, joined, stopped.

mod create;
mod follow;
mod join;
mod manage;
mod replay;
mod settle;
mod stateless;
mod thread_stream;

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use axum::http::HeaderMap;
use deerflow_core::ports::RunRow;
use deerflow_core::{RunId, ThreadId};
use deerflow_service::RunBody;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

/// Header by which a client says that two requests are one.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(create::create, manage::list))
        .routes(routes!(create::stream))
        .routes(routes!(create::wait))
        .routes(routes!(manage::get, manage::delete))
        .routes(routes!(manage::cancel))
        .routes(routes!(join::join))
        .routes(routes!(join::stream, join::stop_and_stream))
        .routes(routes!(replay::regenerate))
        .routes(routes!(replay::edit))
        .routes(routes!(stateless::create))
        .routes(routes!(stateless::stream))
        .routes(routes!(stateless::wait))
        .routes(routes!(stateless::batch))
        .routes(routes!(stateless::cancel))
        .routes(routes!(stateless::join))
        .routes(routes!(thread_stream::follow))
}

/// A thread in the path.
#[derive(Debug, Deserialize, IntoParams)]
struct InThread {
    /// The thread.
    #[param(value_type = String, example = "my-thread")]
    thread_id: ThreadId,
}

/// A run in the path.
#[derive(Debug, Deserialize, IntoParams)]
struct OfThread {
    /// The thread.
    #[param(value_type = String, example = "my-thread")]
    thread_id: ThreadId,
    /// The run.
    #[param(value_type = String, example = "6f8a2a4e-0b7f-4c0e-9b5e-0f4d9a3c7b10")]
    run_id: RunId,
}

/// A run of this caller's thread. What is somebody else's is as if it were not there.
async fn find(app: &AppState, caller: &Caller, thread_id: &ThreadId, run_id: &RunId) -> Result<RunRow, ApiError> {
    Ok(app.service.own_run(&caller.user_id, thread_id, run_id).await?)
}

/// Admits the run that a body describes.
async fn admit(
    app: &AppState,
    caller: &Caller,
    thread_id: &ThreadId,
    body: RunBody,
    headers: &HeaderMap,
    create_thread: bool,
) -> Result<RunRow, ApiError> {
    let key = idempotency_key(headers)?;
    Ok(app.service.admit(&caller.asking(), thread_id, body, key, create_thread).await?)
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    match value.to_str() {
        Ok(key) => Ok(Some(key.to_owned())),
        Err(_) => Err(ApiError::bad_request("The Idempotency-Key is not plain text")),
    }
}
