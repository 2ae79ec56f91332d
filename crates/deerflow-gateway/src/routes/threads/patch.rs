//! Changes what clients keep with a thread.

use super::{ThreadPath, settable};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Json, Path};
use crate::wire::{PINNED, Thread};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use deerflow_core::JsonMap;
use deerflow_core::ports::{ThreadPatch, ThreadRepo as _};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

/// A change of a thread.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ThreadChange)]
pub(super) struct Change {
    /// Merged into the metadata key by key; `null` deletes a key.
    #[schema(value_type = Option<Object>)]
    metadata: Option<JsonMap>,
}

/// Change a thread
///
/// With `Prefer: return=minimal` the answer is empty. Pinning or unpinning alone does not count as a use.
#[utoipa::path(patch, path = "/threads/{thread_id}", tag = "threads", params(ThreadPath), request_body = Change,
    responses((status = 200, body = Thread), (status = 204, description = "Changed, as `Prefer` asked"),
        (status = 404, description = "There is no such thread")))]
pub(super) async fn patch(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
    headers: HeaderMap,
    Json(change): Json<Change>,
) -> Result<Response, ApiError> {
    let metadata = settable(change.metadata);
    let quiet = metadata.len() == 1 && metadata.get(PINNED).is_some_and(serde_json::Value::is_boolean);
    let patch = ThreadPatch { metadata, quiet, ..ThreadPatch::default() };
    let row = app.store.patch_thread(&caller.user_id, &thread_id, patch).await?;
    let minimal = headers.get_all("prefer").iter().any(|value| value.as_bytes() == b"return=minimal");
    if minimal {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(axum::Json(Thread::with_values(row, json!({}))).into_response())
}
