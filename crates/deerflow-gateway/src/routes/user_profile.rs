//! What a user says of themselves.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Json;
use crate::routes::agents::enabled;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Write as _};
use std::path::PathBuf;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

/// Longest profile, in bytes.
const MOST: usize = 64 * 1024;

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(get, put))
}

/// The text of `users/<user>/USER.md`.
#[derive(Debug, Serialize, ToSchema)]
struct Profile {
    /// Null when there is none.
    content: Option<String>,
}

/// A new text.
#[derive(Debug, Deserialize, ToSchema)]
struct NewProfile {
    /// At most 64 KiB; an empty one takes the profile away.
    #[serde(default)]
    content: String,
}

fn file(app: &AppState, caller: &Caller) -> PathBuf {
    app.config.home().join("users").join(caller.user_id.as_str()).join("USER.md")
}

/// Show the user's profile
#[utoipa::path(get, path = "/user-profile", tag = "agents",
    responses((status = 200, body = Profile), (status = 403, description = "`agents_api` is off")))]
async fn get(caller: Caller, State(app): State<AppState>) -> Result<axum::Json<Profile>, ApiError> {
    enabled(&app)?;
    match tokio::fs::read_to_string(file(&app, &caller)).await {
        Ok(text) => Ok(axum::Json(Profile { content: Some(text).filter(|text| !text.is_empty()) })),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(axum::Json(Profile { content: None })),
        Err(error) => Err(ApiError::internal(&error)),
    }
}

/// Change the user's profile
#[utoipa::path(put, path = "/user-profile", tag = "agents", request_body = NewProfile,
    responses((status = 200, body = Profile), (status = 403, description = "`agents_api` is off"),
        (status = 413, description = "It is too long")))]
async fn put(
    caller: Caller,
    State(app): State<AppState>,
    Json(NewProfile { content }): Json<NewProfile>,
) -> Result<axum::Json<Profile>, ApiError> {
    enabled(&app)?;
    if content.len() > MOST {
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "The profile is longer than 64 KiB"));
    }
    let path = file(&app, &caller);
    let text = content.clone();
    let written = tokio::task::spawn_blocking(move || write(path, &text)).await;
    written.map_err(|error| ApiError::internal(&error))?.map_err(|error| ApiError::internal(&error))?;
    Ok(axum::Json(Profile { content: Some(content).filter(|text| !text.is_empty()) }))
}

/// Writes the file so that a reader sees the old one or the new one.
fn write(path: PathBuf, text: &str) -> io::Result<()> {
    let folder = path.parent().ok_or(ErrorKind::InvalidInput)?;
    std::fs::create_dir_all(folder)?;
    let mut part = tempfile::NamedTempFile::new_in(folder)?;
    part.write_all(text.as_bytes())?;
    part.as_file().sync_all()?;
    part.persist(path)?;
    Ok(())
}
