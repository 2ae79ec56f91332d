//! Takes files in.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Path;
use crate::routes::threads::{ThreadPath, not_foreign};
use axum::Json;
use axum::extract::State;
use axum::extract::multipart::{Field, Multipart, MultipartRejection};
use axum::http::StatusCode;
use deerflow_documents::{Incoming, UploadLimits};
use deerflow_service::Uploaded;
use std::io::{Seek as _, SeekFrom};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;
use utoipa::ToSchema;

/// Fields of a form that are no files, before it is refused.
const OTHER_FIELDS: usize = 100;

/// Files to be taken in.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the form")]
pub(super) struct Form {
    /// The files; the field is repeated.
    #[schema(value_type = Vec<String>, format = Binary)]
    files: Vec<Vec<u8>>,
}

/// Upload files
///
/// All of them, or none when a limit is passed. A file of the same name is replaced; two of one name in one request are told
/// apart by a number. Documents get a Markdown beside them. The thread may be made afterwards.
#[utoipa::path(post, path = "/threads/{thread_id}/uploads", tag = "uploads", params(ThreadPath),
    request_body(content = Form, content_type = "multipart/form-data"),
    responses((status = 200, body = Uploaded), (status = 400, description = "There are no files in it"),
        (status = 413, description = "Too many or too large")))]
pub(super) async fn receive(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
    form: Result<Multipart, MultipartRejection>,
) -> Result<Json<Uploaded>, ApiError> {
    not_foreign(&app, &caller, &thread_id).await?;
    let form = form.map_err(|_| ApiError::bad_request("No files provided"))?;
    let limits = (*app.config.section::<UploadLimits>()).clone();
    let files = collect(&app, form, &limits).await?;
    Ok(Json(app.service.upload(&caller.user_id, &thread_id, files).await?))
}

/// Reads the form into files without a name, which the system removes when they are closed, whatever happens.
async fn collect(app: &AppState, mut form: Multipart, limits: &UploadLimits) -> Result<Vec<Incoming>, ApiError> {
    let wait = Duration::from_secs(app.server().body_timeout_seconds);
    let (mut files, mut others, mut total) = (Vec::new(), 0, 0_u64);
    loop {
        let next = timeout(wait, form.next_field()).await.map_err(|_| too_slow())?;
        let Some(mut field) = next.map_err(|error| ApiError::bad_request(error.body_text()))? else { break };
        let name = field.file_name().map(str::to_owned).filter(|_| field.name() == Some("files"));
        match name {
            Some(name) if !name.is_empty() => {
                if files.len() >= limits.max_files {
                    return Err(too_many(limits.max_files));
                }
                let file = receive_file(app, &mut field, &name, limits, &mut total, wait).await?;
                files.push(Incoming { name, file });
            }
            _ => {
                others += 1;
                if others > OTHER_FIELDS {
                    return Err(ApiError::bad_request("The form has too many fields"));
                }
                while let Some(chunk) = chunk(&mut field, wait).await? {
                    total = count(total, chunk.len(), limits)?;
                }
            }
        }
    }
    Ok(files)
}

async fn receive_file(
    app: &AppState,
    field: &mut Field<'_>,
    name: &str,
    limits: &UploadLimits,
    total: &mut u64,
    wait: Duration,
) -> Result<std::fs::File, ApiError> {
    let home = app.config.home().to_owned();
    let made = tokio::task::spawn_blocking(move || tempfile::tempfile_in(home)).await;
    let made = made.map_err(|error| ApiError::internal(&error))?.map_err(|error| on_disk(&error))?;
    let mut file = tokio::fs::File::from_std(made);
    let mut size = 0_u64;
    while let Some(chunk) = chunk(field, wait).await? {
        size = size.saturating_add(chunk.len() as u64);
        if size > limits.max_file_size {
            return Err(too_large(&name));
        }
        *total = count(*total, chunk.len(), limits)?;
        file.write_all(&chunk).await.map_err(|error| on_disk(&error))?;
    }
    file.flush().await.map_err(|error| on_disk(&error))?;
    let mut file = file.into_std().await;
    file.seek(SeekFrom::Start(0)).map_err(|error| on_disk(&error))?;
    Ok(file)
}

/// The next bytes of a field. A sender may be slow, not silent.
async fn chunk(field: &mut Field<'_>, wait: Duration) -> Result<Option<bytes::Bytes>, ApiError> {
    let chunk = timeout(wait, field.chunk()).await.map_err(|_| too_slow())?;
    chunk.map_err(|error| ApiError::bad_request(error.body_text()))
}

fn count(total: u64, more: usize, limits: &UploadLimits) -> Result<u64, ApiError> {
    let total = total.saturating_add(more as u64);
    if total > limits.max_total_size { Err(total_too_large()) } else { Ok(total) }
}

fn on_disk(error: &std::io::Error) -> ApiError {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "The server's disk is full")
        }
        _ => ApiError::internal(error),
    }
}

fn too_slow() -> ApiError {
    ApiError::new(StatusCode::REQUEST_TIMEOUT, "The body took too long")
}

fn too_many(limit: usize) -> ApiError {
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("Too many files: maximum is {limit}"))
}

fn too_large(name: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("File too large: {name}"))
}

fn total_too_large() -> ApiError {
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "Total upload size too large")
}
