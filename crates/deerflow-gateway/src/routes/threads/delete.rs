//! Deletes threads.

use super::ThreadPath;
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Path;
use axum::Json;
use axum::extract::State;
use deerflow_service::Deleted;

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
    Ok(Json(app.service.delete_thread(&caller.user_id, &thread_id).await?))
}
