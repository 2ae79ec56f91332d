//! What was uploaded, and what may be.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Path;
use crate::routes::threads::ThreadPath;
use axum::Json;
use axum::extract::State;
use deerflow_service::{Files, Limits};

/// Show the limits of uploads
#[utoipa::path(get, path = "/threads/{thread_id}/uploads/limits", tag = "uploads", params(ThreadPath),
    responses((status = 200, body = Limits), (status = 404, description = "The thread is somebody else's")))]
pub(super) async fn limits(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
) -> Result<Json<Limits>, ApiError> {
    Ok(Json(app.service.upload_limits(&caller.user_id, &thread_id).await?))
}

/// List the uploaded files of a thread
#[utoipa::path(get, path = "/threads/{thread_id}/uploads/list", tag = "uploads", params(ThreadPath),
    responses((status = 200, body = Files), (status = 404, description = "The thread is somebody else's")))]
pub(super) async fn list(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
) -> Result<Json<Files>, ApiError> {
    Ok(Json(app.service.uploads(&caller.user_id, &thread_id).await?))
}
