//! Shows or downloads a file.

use super::kind::{is_active, media_type};
use super::ranges::{self, Ranges};
use super::source::{Piece, Source, body};
use super::{ArtifactPath, EDITABLE, Place, member, place, told};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Path, Query};
use crate::wire::disposition;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use deerflow_sandbox::{SandboxError, ThreadFiles, VirtualPath};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::sync::Arc;
use utoipa::IntoParams;

/// Bytes looked at to tell text from other files.
const START: u64 = 8192;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct How {
    /// Save it rather than show it.
    download: bool,
}

/// A file that can be sent.
struct Found {
    name: String,
    source: Source,
    size: u64,
    media_type: String,
    etag: String,
    /// Seconds since 1970; none for what is in an archive.
    modified: Option<i64>,
}

/// Show a file of a thread
///
/// With ranges. What a browser would run (HTML, SVG, XML) is sent for saving only. A path that goes on after `….skill/` names
/// a file in that archive. The `ETag` of a file of up to 2 MiB is its SHA-256, which a change has to name.
#[utoipa::path(get, path = "/threads/{thread_id}/artifacts/{*path}", tag = "artifacts", params(ArtifactPath, How),
    responses((status = 200, description = "The file", content_type = "application/octet-stream"),
        (status = 206, description = "The ranges asked for"), (status = 304, description = "It has not changed"),
        (status = 400, description = "That is no path of a file"), (status = 403, description = "It leads elsewhere"),
        (status = 404, description = "There is no such file"), (status = 416, description = "It is shorter than that")))]
pub(super) async fn show(
    caller: Caller,
    State(app): State<AppState>,
    Path(ArtifactPath { thread_id, path }): Path<ArtifactPath>,
    Query(how): Query<How>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let Place { sandbox, path: virtual_path } = place(&app, &caller, &thread_id, &path).await?;
    let no_files = || ApiError::new(StatusCode::NOT_IMPLEMENTED, "Files of this sandbox are not on this machine");
    let files = sandbox.files().ok_or_else(no_files)?;
    let found = tokio::task::spawn_blocking(move || open(&files, &virtual_path, &path)).await;
    answer(found.map_err(|error| ApiError::internal(&error))??, &how, &headers)
}

fn open(files: &Arc<ThreadFiles>, virtual_path: &VirtualPath, path: &str) -> Result<Found, ApiError> {
    let unreadable = |error: std::io::Error| ApiError::internal(&error);
    match files.open(virtual_path) {
        Ok((mut file, stat)) => {
            let mut start = Vec::new();
            (&file).take(START).read_to_end(&mut start).map_err(unreadable)?;
            let name = virtual_path.as_str().rsplit('/').next().unwrap_or_default().to_owned();
            file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
            let etag = if stat.size <= EDITABLE {
                let mut bytes = Vec::new();
                (&file).take(EDITABLE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
                hex(&Sha256::digest(&bytes))
            } else {
                // Reading all of a large file for each of its ranges would cost more than it tells.
                hex(&Sha256::digest(format!("{}-{}", stat.modified_ms, stat.size)))[..32].to_owned()
            };
            Ok(Found {
                media_type: media_type(&name, &start),
                name,
                source: Source::File(tokio::fs::File::from_std(file)),
                size: stat.size,
                etag,
                modified: Some(stat.modified_ms.div_euclid(1000)),
            })
        }
        Err(error @ (SandboxError::NotFound { .. } | SandboxError::NotDirectory { .. })) => {
            let Some((archive, inner)) = member::split(virtual_path.as_str()) else { return Err(told(error, path)) };
            let archive = files.parse(archive).map_err(|error| told(error, path))?;
            let (file, stat) = files.open(&archive).map_err(|error| told(error, path))?;
            let bytes = member::read(file, stat.size, inner, path)?;
            let name = inner.rsplit('/').next().unwrap_or(inner).to_owned();
            Ok(Found {
                media_type: media_type(&name, &bytes[..bytes.len().min(8192)]),
                name,
                size: bytes.len() as u64,
                etag: hex(&Sha256::digest(&bytes)),
                source: Source::Memory(bytes.into()),
                modified: None,
            })
        }
        Err(error) => Err(told(error, path)),
    }
}

fn answer(found: Found, how: &How, asked: &HeaderMap) -> Result<Response, ApiError> {
    let etag = format!("\"{}\"", found.etag);
    let text = |name: header::HeaderName| asked.get(name).and_then(|value| value.to_str().ok());
    let active = is_active(&found.media_type);
    let kind = if active || how.download { "attachment" } else { "inline" };
    let mut headers = HeaderMap::new();
    let mut set = |name: header::HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    set(header::ETAG, &etag);
    set(header::ACCEPT_RANGES, "bytes");
    set(header::CONTENT_DISPOSITION, &disposition(kind, &found.name));
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // PDF viewers of browsers do not work in a sandbox.
    if found.media_type != "application/pdf" {
        set(header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox");
    }
    match found.modified {
        Some(modified) => {
            if let Some(date) = http_date(modified) {
                set(header::LAST_MODIFIED, &date);
            }
            set(header::CACHE_CONTROL, "private, no-cache");
        }
        None => set(header::CACHE_CONTROL, "private, max-age=300"),
    }
    let same =
        |list: &str| list.split(',').map(str::trim).any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag);
    if text(header::IF_NONE_MATCH).is_some_and(same) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    let size = found.size;
    // A part is of use only to who has the rest of this very version.
    let current = text(header::IF_RANGE).is_none_or(|tag| tag == etag);
    let ranges = if current { ranges::read(text(header::RANGE), size) } else { Ranges::Whole };
    match ranges {
        Ranges::Whole => {
            set_type(&mut headers, &found.media_type);
            headers.insert(header::CONTENT_LENGTH, size.into());
            let pieces = vec![Piece::Range { first: 0, count: size }];
            Ok((StatusCode::OK, headers, body(found.source, pieces)).into_response())
        }
        Ranges::Unsatisfiable => {
            set_range(&mut headers, &format!("bytes */{size}"));
            Ok((StatusCode::RANGE_NOT_SATISFIABLE, headers, Body::empty()).into_response())
        }
        Ranges::Parts(parts) if parts.len() == 1 => {
            let (first, count) = parts[0];
            set_type(&mut headers, &found.media_type);
            set_range(&mut headers, &format!("bytes {first}-{}/{size}", first + count - 1));
            headers.insert(header::CONTENT_LENGTH, count.into());
            let pieces = vec![Piece::Range { first, count }];
            Ok((StatusCode::PARTIAL_CONTENT, headers, body(found.source, pieces)).into_response())
        }
        Ranges::Parts(parts) => {
            let boundary = uuid::Uuid::new_v4().simple().to_string();
            let mut pieces = Vec::with_capacity(2 * parts.len() + 1);
            let mut length = 0;
            for (first, count) in parts {
                let head = format!(
                    "--{boundary}\r\nContent-Type: {}\r\nContent-Range: bytes {first}-{}/{size}\r\n\r\n",
                    found.media_type,
                    first + count - 1
                );
                let head = if pieces.is_empty() { head } else { format!("\r\n{head}") };
                length += head.len() as u64 + count;
                pieces.push(Piece::Text(Bytes::from(head)));
                pieces.push(Piece::Range { first, count });
            }
            let end = format!("\r\n--{boundary}--\r\n");
            length += end.len() as u64;
            pieces.push(Piece::Text(Bytes::from(end)));
            set_type(&mut headers, &format!("multipart/byteranges; boundary={boundary}"));
            headers.insert(header::CONTENT_LENGTH, length.into());
            Ok((StatusCode::PARTIAL_CONTENT, headers, body(found.source, pieces)).into_response())
        }
    }
}

fn set_type(headers: &mut HeaderMap, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(header::CONTENT_TYPE, value);
    }
}

fn set_range(headers: &mut HeaderMap, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(header::CONTENT_RANGE, value);
    }
}

/// Seconds since 1970 as headers have them.
fn http_date(seconds: i64) -> Option<String> {
    let time = jiff::Timestamp::from_second(seconds).ok()?;
    Some(time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string())
}

fn hex(digest: &[u8]) -> String {
    use std::fmt::Write as _;
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
