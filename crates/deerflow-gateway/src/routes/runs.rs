//! Runs: created, followed, joined, stopped.

mod admit;
mod body;
mod context;
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
use deerflow_core::ports::{RunRepo as _, RunRow, ThreadRepo as _};
use deerflow_core::{RunId, ThreadId};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

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
    if app.store.thread(&caller.user_id, thread_id).await?.is_none() {
        return Err(ApiError::no_thread(thread_id));
    }
    let row = app.store.run(run_id).await?;
    row.filter(|row| row.thread_id == *thread_id && row.user_id == caller.user_id)
        .ok_or_else(|| ApiError::not_found(format!("Run {run_id} not found")))
}
