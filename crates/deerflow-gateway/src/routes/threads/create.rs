//! Makes threads.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::OptionalJson;
use crate::wire::Thread;
use axum::Json;
use axum::extract::State;
use deerflow_core::ports::ThreadRepo as _;
use deerflow_core::{JsonMap, ThreadId};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

/// Metadata that clients cannot set.
const RESERVED: [&str; 2] = ["owner_id", "user_id"];

/// A thread to be made.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct NewThread {
    /// Its id; a new one when absent.
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9_-]{1,64}$", example = "my-thread")]
    thread_id: Option<ThreadId>,
    /// What clients keep with it.
    #[schema(value_type = Object)]
    metadata: Option<JsonMap>,
}

/// Make a thread
///
/// A thread of yours that exists already is answered unchanged.
#[utoipa::path(post, path = "/threads", tag = "threads", request_body = NewThread,
    responses((status = 200, body = Thread), (status = 404, description = "The id belongs to somebody else")))]
pub(super) async fn create(
    caller: Caller,
    State(app): State<AppState>,
    OptionalJson(new): OptionalJson<NewThread>,
) -> Result<Json<Thread>, ApiError> {
    let id = new.thread_id.unwrap_or_else(ThreadId::random);
    let mut metadata = new.metadata.unwrap_or_default();
    metadata.retain(|key, _| !RESERVED.contains(&key.as_str()));
    let (row, _) = app.store.create_thread(&caller.user_id, &id, metadata).await?;
    Ok(Json(Thread::with_values(row, json!({}))))
}
