//! Follows runs that exist.

use super::follow::{Reader, last_seen, response};
use super::{OfThread, find, settle};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Flag, Path, Query};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use deerflow_runtime::StreamMode;
use deerflow_service::one_or_many;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

/// How to follow.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
pub(super) struct Following {
    /// What to stream; may be given several times. What the run was created for when absent.
    #[serde(deserialize_with = "one_or_many")]
    stream_mode: Vec<String>,
    /// Whether the run is cancelled when this reader goes away.
    #[param(value_type = Option<bool>)]
    cancel_on_disconnect: Flag,
    /// `interrupt` or `rollback`: stop the run first.
    action: Option<super::manage::Action>,
    /// With `action`: answer when it has stopped, without frames.
    #[param(value_type = Option<bool>)]
    wait: Flag,
}

impl Following {
    pub(super) fn modes(&self) -> Result<Vec<StreamMode>, ApiError> {
        // The Python client writes a list as one value.
        let names = self.stream_mode.iter().flat_map(|names| names.split(',')).filter(|name| !name.is_empty());
        let parse = |name: &str| {
            name.parse().map_err(|error: deerflow_runtime::UnknownStreamMode| {
                ApiError::invalid(
                    "unsupported_stream_mode",
                    json!(["query", "stream_mode"]),
                    error.to_string(),
                    json!(name),
                )
            })
        };
        names.map(parse).collect()
    }
    pub(super) fn reader(&self, headers: &HeaderMap) -> Result<Reader, ApiError> {
        Ok(Reader { modes: self.modes()?, after: last_seen(headers), cancels: self.cancel_on_disconnect.0 })
    }
}

/// Wait for the end of a run
///
/// The values of the state at the end; frames instead for a client that accepts only `text/event-stream`.
#[utoipa::path(get, path = "/threads/{thread_id}/runs/{run_id}/join", tag = "runs", params(OfThread, Following),
    responses((status = 200, description = "Values of the state", body = Object), (status = 404, description = "No such run")))]
pub(super) async fn join(
    caller: Caller,
    State(app): State<AppState>,
    Path(OfThread { thread_id, run_id }): Path<OfThread>,
    Query(following): Query<Following>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let row = find(&app, &caller, &thread_id, &run_id).await?;
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.trim() == "text/event-stream" {
        return Ok(response(&app, &row, following.reader(&headers)?));
    }
    settle::response(&app, &row, following.cancel_on_disconnect.0)
}

/// Follow a run
///
/// From the start, or after `Last-Event-ID`. Every reader reaches `end`, of a run that is long over too.
#[utoipa::path(get, path = "/threads/{thread_id}/runs/{run_id}/stream", tag = "runs", params(OfThread, Following),
    responses((status = 200, description = "Frames", content_type = "text/event-stream", body = String),
    (status = 404, description = "No such run")))]
pub(super) async fn stream(
    caller: Caller,
    State(app): State<AppState>,
    Path(of): Path<OfThread>,
    Query(following): Query<Following>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    act_and_follow(&app, &caller, of, following, &headers).await
}

/// Stop a run, and follow it to its end
#[utoipa::path(post, path = "/threads/{thread_id}/runs/{run_id}/stream", tag = "runs", params(OfThread, Following),
    responses((status = 200, description = "Frames", content_type = "text/event-stream", body = String),
    (status = 204, description = "It has stopped (`wait=1`)"), (status = 404, description = "No such run"),
    (status = 409, description = "It has ended by itself")))]
pub(super) async fn stop_and_stream(
    caller: Caller,
    State(app): State<AppState>,
    Path(of): Path<OfThread>,
    Query(following): Query<Following>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    act_and_follow(&app, &caller, of, following, &headers).await
}

async fn act_and_follow(
    app: &AppState,
    caller: &Caller,
    OfThread { thread_id, run_id }: OfThread,
    following: Following,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let row = find(app, caller, &thread_id, &run_id).await?;
    if let Some(action) = following.action {
        super::manage::stop(app, &row, action, following.wait.0).await?;
        if following.wait.0 {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    Ok(response(app, &row, following.reader(headers)?))
}
