//! Files of a thread, for people to look at, to take and to change.

mod edit;
mod kind;
mod member;
mod ranges;
mod show;
mod source;

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::routes::threads::{no_file, not_foreign};
use axum::http::StatusCode;
use deerflow_core::ThreadId;
use deerflow_sandbox::{Sandbox, SandboxError, ThreadPaths, USER_DATA, VirtualPath};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(show::show, edit::edit))
}

/// Largest file that clients can change, in bytes.
const EDITABLE: u64 = 2 << 20;

#[derive(Debug, Deserialize, IntoParams)]
struct ArtifactPath {
    /// Id of a thread.
    #[param(value_type = String)]
    thread_id: ThreadId,
    /// Path of the file as the agent sees it, without the first slash.
    #[param(example = "mnt/user-data/outputs/report.md")]
    path: String,
}

/// A file of a thread that is asked for.
struct Place {
    sandbox: Arc<dyn Sandbox>,
    path: VirtualPath,
}

/// Finds the place that a client means. Makes nothing.
async fn place(app: &AppState, caller: &Caller, id: &ThreadId, path: &str) -> Result<Place, ApiError> {
    not_foreign(app, caller, id).await?;
    let wanted = format!("/{}", path.trim_start_matches('/'));
    if wanted.split(['/', '\\']).any(|name| name == "..") {
        return Err(ApiError::forbidden("Access denied: path traversal detected"));
    }
    if !wanted.strip_prefix(USER_DATA).is_some_and(|rest| rest.starts_with('/')) {
        return Err(ApiError::bad_request(format!("Invalid path: it must begin with {}/", &USER_DATA[1..])));
    }
    let (user, thread) = (caller.user_id.as_str(), id.as_str());
    let paths = ThreadPaths::new(app.config.home(), user, thread).map_err(|error| ApiError::internal(&error))?;
    if !paths.user_data().exists() {
        return Err(no_file(app, caller, id, format!("Artifact not found: {path}")).await);
    }
    let sandbox = app.harness.sandbox().acquire(user, thread).await.map_err(|error| ApiError::internal(&error))?;
    let path = sandbox.parse_path(&wanted).map_err(|error| told(error, path))?;
    Ok(Place { sandbox, path })
}

/// What a client is told of a path that cannot be opened.
fn told(error: SandboxError, path: &str) -> ApiError {
    match error {
        SandboxError::NotFound { .. } | SandboxError::NotDirectory { .. } => {
            ApiError::not_found(format!("Artifact not found: {path}"))
        }
        SandboxError::IsDirectory { .. } | SandboxError::NotRegular { .. } => {
            ApiError::bad_request(format!("Path is not a file: {path}"))
        }
        SandboxError::OutsideRoot { .. }
        | SandboxError::LinkLoop { .. }
        | SandboxError::PermissionDenied { .. }
        | SandboxError::ReadOnly { .. } => ApiError::forbidden(format!("Access denied: {path}")),
        SandboxError::InvalidPath { reason, .. } => ApiError::bad_request(format!("Invalid path: {reason}")),
        SandboxError::TooLarge { .. } => ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "The file is too large"),
        SandboxError::DiskFull { .. } => ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "The server's disk is full"),
        error => ApiError::internal(&error),
    }
}
