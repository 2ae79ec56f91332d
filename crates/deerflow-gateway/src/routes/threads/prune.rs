//! Deletes many threads.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Json;
use axum::extract::State;
use deerflow_core::ThreadId;
use deerflow_service::RefusalKind;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

/// Most threads of one request.
const MOST: usize = 1000;

/// Threads to be pruned.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Prune {
    /// Their ids, at most 1000.
    #[schema(value_type = Vec<String>)]
    thread_ids: Vec<ThreadId>,
    /// What is done with them.
    #[serde(default)]
    strategy: Strategy,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Strategy {
    #[default]
    Delete,
    KeepLatest,
}

/// What was pruned.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Pruned {
    /// How many threads.
    pruned_count: usize,
}

/// Delete many threads
///
/// Threads that are not there, are somebody else's or have a live run are passed over. The strategy `keep_latest` prunes
/// nothing and says so: a thread's checkpoints are kept as what changed, and its latest state is made of all of them.
#[utoipa::path(post, path = "/threads/prune", tag = "threads", request_body = Prune,
    responses((status = 200, body = Pruned), (status = 422, description = "Too many, or an unknown strategy")))]
pub(super) async fn prune(
    caller: Caller,
    State(app): State<AppState>,
    Json(prune): Json<Prune>,
) -> Result<axum::Json<Pruned>, ApiError> {
    if prune.thread_ids.len() > MOST {
        let message = format!("List should have at most {MOST} items");
        return Err(ApiError::invalid("too_long", json!(["body", "thread_ids"]), message, json!(null)));
    }
    if prune.strategy == Strategy::KeepLatest {
        return Ok(axum::Json(Pruned { pruned_count: 0 }));
    }
    let mut pruned_count = 0;
    for id in &prune.thread_ids {
        match app.service.delete_thread(&caller.user_id, id).await {
            Ok(_) => pruned_count += 1,
            Err(error) if matches!(error.kind, RefusalKind::NotFound | RefusalKind::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(axum::Json(Pruned { pruned_count }))
}
