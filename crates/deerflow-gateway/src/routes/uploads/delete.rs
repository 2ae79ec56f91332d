//! Takes an uploaded file away.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Path;
use axum::Json;
use axum::extract::State;
use deerflow_core::ThreadId;
use deerflow_service::Gone;
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct UploadPath {
    /// Id of a thread.
    #[param(value_type = String)]
    thread_id: ThreadId,
    /// Name of an uploaded file.
    filename: String,
}

/// Delete an uploaded file
///
/// The Markdown that was made of it goes too.
#[utoipa::path(delete, path = "/threads/{thread_id}/uploads/{filename}", tag = "uploads", params(UploadPath),
    responses((status = 200, body = Gone), (status = 400, description = "That is no name of a file"),
        (status = 404, description = "There is no such file")))]
pub(super) async fn delete(
    caller: Caller,
    State(app): State<AppState>,
    Path(UploadPath { thread_id, filename }): Path<UploadPath>,
) -> Result<Json<Gone>, ApiError> {
    Ok(Json(app.service.delete_upload(&caller.user_id, &thread_id, &filename).await?))
}
