//! Shows or downloads a file.

use super::ArtifactPath;
use super::ranges::{self, Ranges};
use super::source::{Piece, body};
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
use deerflow_service::{Artifact, is_active};
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct How {
    /// Save it rather than show it.
    download: bool,
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
    answer(app.service.artifact(&caller.user_id, &thread_id, &path).await?, &how, &headers)
}

fn answer(found: Artifact, how: &How, asked: &HeaderMap) -> Result<Response, ApiError> {
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
            Ok((StatusCode::OK, headers, body(found.source.into(), pieces)).into_response())
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
            Ok((StatusCode::PARTIAL_CONTENT, headers, body(found.source.into(), pieces)).into_response())
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
            Ok((StatusCode::PARTIAL_CONTENT, headers, body(found.source.into(), pieces)).into_response())
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
