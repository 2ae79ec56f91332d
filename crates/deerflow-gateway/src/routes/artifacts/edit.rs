//! Changes a delivered file.

use super::ArtifactPath;
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Json, Path};
use crate::routes::threads::{is_busy, own_thread};
use axum::extract::State;
use axum::http::StatusCode;
use deerflow_sandbox::{EntryKind, Expect, OUTPUTS, SandboxError};
use deerflow_service::{EDITABLE, Place, told};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

/// A new version of a file.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ArtifactEdit)]
pub(super) struct Edit {
    /// The whole text.
    content: String,
    /// SHA-256 of the version that it was made from.
    #[schema(pattern = "^[0-9a-f]{64}$", example = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")]
    expected_sha256: String,
}

/// The version that is there now.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Edited {
    /// Path of the file.
    path: String,
    /// SHA-256 of the file.
    sha256: String,
    /// Bytes.
    size: u64,
}

/// Change a file of a thread
///
/// Text files in `mnt/user-data/outputs/` of up to 2 MiB, while no run is live.
#[utoipa::path(put, path = "/threads/{thread_id}/artifacts/{*path}", tag = "artifacts", params(ArtifactPath),
    request_body = Edit,
    responses((status = 200, body = Edited), (status = 404, description = "There is no such file"),
        (status = 409, description = "A run is live"), (status = 412, description = "It was changed meanwhile"),
        (status = 413, description = "It is too large"), (status = 415, description = "It is no text file")))]
pub(super) async fn edit(
    caller: Caller,
    State(app): State<AppState>,
    Path(ArtifactPath { thread_id, path }): Path<ArtifactPath>,
    Json(edit): Json<Edit>,
) -> Result<axum::Json<Edited>, ApiError> {
    let is_digest = edit.expected_sha256.len() == 64
        && edit.expected_sha256.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if !is_digest {
        let message = "String should match pattern '^[0-9a-f]{64}$'";
        let shown: String = edit.expected_sha256.chars().take(80).collect();
        let place = json!(["body", "expected_sha256"]);
        return Err(ApiError::invalid("string_pattern_mismatch", place, message, json!(shown)));
    }
    own_thread(&app, &caller, &thread_id).await?;
    if edit.content.len() as u64 > EDITABLE {
        return Err(too_large());
    }
    let Place { sandbox, path: virtual_path } = app.service.place(&caller.user_id, &thread_id, &path).await?;
    let inside = virtual_path.as_str().strip_prefix(OUTPUTS).and_then(|rest| rest.strip_prefix('/'));
    let Some(inside) = inside.filter(|rest| !rest.is_empty()) else {
        return Err(ApiError::bad_request("Only files in mnt/user-data/outputs/ can be changed"));
    };
    if inside.split('/').any(|name| name.ends_with(".skill")) {
        return Err(no_text());
    }
    if is_busy(&app, &caller, &thread_id).await? {
        return Err(ApiError::conflict("Thread has a run in flight. Change files after the run finishes."));
    }
    // Not through a link: what it leads to is another file than the one shown.
    let (folder, name) = virtual_path.as_str().rsplit_once('/').unwrap_or((OUTPUTS, inside));
    let folder = sandbox.parse_path(folder).map_err(|error| told(error, &path))?;
    let entries = sandbox.read_dir(&folder).await.map_err(|error| told(error, &path))?;
    match entries.iter().find(|entry| entry.name == name).map(|entry| entry.kind) {
        Some(EntryKind::File) => {}
        Some(EntryKind::Link) => return Err(no_text()),
        Some(_) => return Err(ApiError::bad_request(format!("Path is not a file: {path}"))),
        None => return Err(ApiError::not_found(format!("Artifact not found: {path}"))),
    }
    let old = sandbox.read_bytes(&virtual_path, EDITABLE).await.map_err(|error| match error {
        SandboxError::TooLarge { .. } => too_large(),
        error => told(error, &path).into(),
    })?;
    if old.contains(&0) || edit.content.contains('\0') || std::str::from_utf8(&old).is_err() {
        return Err(no_text());
    }
    let expect = Expect::Sha256(edit.expected_sha256);
    let written = sandbox.write_bytes(&virtual_path, edit.content.into_bytes(), expect).await;
    let written = written.map_err(|error| match error {
        SandboxError::Changed { .. } => {
            ApiError::new(StatusCode::PRECONDITION_FAILED, "Artifact changed since it was opened")
        }
        error => told(error, &path).into(),
    })?;
    Ok(axum::Json(Edited { path: virtual_path.to_string(), sha256: written.sha256, size: written.size }))
}

fn too_large() -> ApiError {
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "Files of more than 2 MiB cannot be changed here")
}

fn no_text() -> ApiError {
    ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Only plain text files can be changed")
}
