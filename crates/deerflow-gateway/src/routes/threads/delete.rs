//! Deletes threads.

use super::ThreadPath;
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Path;
use axum::Json;
use axum::extract::State;
use deerflow_core::ports::ThreadRepo as _;
use deerflow_core::{StoreError, ThreadId};
use deerflow_sandbox::ThreadPaths;
use serde::Serialize;
use utoipa::ToSchema;

/// That something was done.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Deleted {
    /// Always true.
    success: bool,
    /// What was done.
    #[schema(example = "Deleted thread my-thread")]
    message: String,
}

/// Delete a thread
///
/// With its history, its runs and its files. Files that were uploaded for a thread which was never made are deleted too.
#[utoipa::path(delete, path = "/threads/{thread_id}", tag = "threads", params(ThreadPath),
    responses((status = 200, body = Deleted), (status = 404, description = "There is no such thread"),
        (status = 409, description = "A run is live on it")))]
pub(super) async fn delete(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
) -> Result<Json<Deleted>, ApiError> {
    remove(&app, &caller, &thread_id).await?;
    Ok(Json(Deleted { success: true, message: format!("Deleted thread {thread_id}") }))
}

/// Deletes a thread of the caller with its files.
///
/// The row goes first: that refuses, in one step, while a run is live, and no run can begin on the thread afterwards. Files
/// that could not be removed go when the deletion is asked for again.
pub(super) async fn remove(app: &AppState, caller: &Caller, id: &ThreadId) -> Result<(), ApiError> {
    let paths = ThreadPaths::new(app.config.home(), caller.user_id.as_str(), id.as_str())
        .map_err(|error| ApiError::internal(&error))?;
    match app.store.delete_thread(&caller.user_id, id).await {
        Ok(()) => {}
        Err(StoreError::NotFound { .. }) if paths.thread_dir().exists() => {}
        Err(StoreError::ThreadBusy { .. }) => {
            return Err(ApiError::conflict("Thread has work in flight. Delete it after the work finishes."));
        }
        Err(error) => return Err(error.into()),
    }
    let removed = tokio::task::spawn_blocking(move || paths.remove_all()).await;
    match removed {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(ApiError::internal(&error)),
        Err(error) => Err(ApiError::internal(&error)),
    }
}
