//! Takes an uploaded file away.

use super::file::companion;
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Path;
use crate::routes::threads::{no_file, not_foreign};
use axum::Json;
use axum::extract::State;
use deerflow_core::ThreadId;
use deerflow_documents::{remove_upload, safe_filename};
use deerflow_sandbox::ThreadPaths;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct UploadPath {
    /// Id of a thread.
    #[param(value_type = String)]
    thread_id: ThreadId,
    /// Name of an uploaded file.
    filename: String,
}

/// That a file is gone.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Gone {
    /// Always true.
    success: bool,
    /// What was done.
    message: String,
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
    not_foreign(&app, &caller, &thread_id).await?;
    if safe_filename(&filename).as_deref() != Some(filename.as_str()) {
        return Err(ApiError::bad_request("Invalid path"));
    }
    let paths = ThreadPaths::new(app.config.home(), caller.user_id.as_str(), thread_id.as_str())
        .map_err(|error| ApiError::internal(&error))?;
    let name = filename.clone();
    let removed = tokio::task::spawn_blocking(move || {
        let removed = remove_upload(&paths.uploads(), &name)?;
        if removed && let Some(markdown) = companion(&name) {
            remove_upload(&paths.uploads(), &markdown)?;
        }
        Ok::<_, deerflow_documents::UploadError>(removed)
    });
    let removed = removed.await.map_err(|error| ApiError::internal(&error))?;
    if !removed.map_err(|error| ApiError::internal(&error))? {
        return Err(no_file(&app, &caller, &thread_id, format!("File not found: {filename}")).await);
    }
    Ok(Json(Gone { success: true, message: format!("Deleted {filename}") }))
}
