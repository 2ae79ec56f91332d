//! What was uploaded, and what may be.

use super::file::{File, companion};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Path;
use crate::routes::threads::{ThreadPath, not_foreign};
use axum::Json;
use axum::extract::State;
use deerflow_documents::UploadLimits;
use deerflow_sandbox::{EntryKind, ThreadPaths, UPLOADS};
use serde::Serialize;
use std::collections::HashSet;
use utoipa::ToSchema;

/// Limits of one request.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Limits {
    /// Files.
    max_files: usize,
    /// Bytes of one file.
    max_file_size: u64,
    /// Bytes of all of them.
    max_total_size: u64,
}

/// Uploaded files.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Files {
    /// By name.
    files: Vec<File>,
    /// How many.
    count: usize,
}

/// Show the limits of uploads
#[utoipa::path(get, path = "/threads/{thread_id}/uploads/limits", tag = "uploads", params(ThreadPath),
    responses((status = 200, body = Limits), (status = 404, description = "The thread is somebody else's")))]
pub(super) async fn limits(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
) -> Result<Json<Limits>, ApiError> {
    not_foreign(&app, &caller, &thread_id).await?;
    let limits = app.config.section::<UploadLimits>();
    Ok(Json(Limits {
        max_files: limits.max_files,
        max_file_size: limits.max_file_size,
        max_total_size: limits.max_total_size,
    }))
}

/// List the uploaded files of a thread
#[utoipa::path(get, path = "/threads/{thread_id}/uploads/list", tag = "uploads", params(ThreadPath),
    responses((status = 200, body = Files), (status = 404, description = "The thread is somebody else's")))]
pub(super) async fn list(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
) -> Result<Json<Files>, ApiError> {
    not_foreign(&app, &caller, &thread_id).await?;
    let (user, thread) = (caller.user_id.as_str(), thread_id.as_str());
    let paths = ThreadPaths::new(app.config.home(), user, thread).map_err(|error| ApiError::internal(&error))?;
    // Looking at a thread makes no folders.
    if !paths.uploads().exists() {
        return Ok(Json(Files { files: Vec::new(), count: 0 }));
    }
    let sandbox = app.harness.sandbox().acquire(user, thread).await.map_err(|error| ApiError::internal(&error))?;
    let folder = sandbox.parse_path(UPLOADS).map_err(|error| ApiError::internal(&error))?;
    let entries = sandbox.read_dir(&folder).await.map_err(|error| ApiError::internal(&error))?;
    // What is being written.
    let is_part = |name: &str| {
        (name.starts_with(".upload-") && name.ends_with(".part"))
            || (name.starts_with(".deerflow-") && name.ends_with(".tmp"))
    };
    let entries: Vec<_> =
        entries.into_iter().filter(|entry| entry.kind == EntryKind::File && !is_part(&entry.name)).collect();
    let names: HashSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let file = |entry: &deerflow_sandbox::DirEntry| {
        let markdown = companion(&entry.name).filter(|name| names.contains(name.as_str()));
        File::new(&thread_id, entry.name.clone(), entry.size)
            .modified(entry.modified_ms)
            .with_markdown(&thread_id, markdown)
    };
    let files: Vec<File> = entries.iter().map(file).collect();
    Ok(Json(Files { count: files.len(), files }))
}
