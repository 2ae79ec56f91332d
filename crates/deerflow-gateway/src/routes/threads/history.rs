//! The checkpoints of a thread.

use super::ThreadPath;
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Bounded, OptionalJson, Path};
use crate::wire::{CheckpointChoice, Select, State as ThreadState};
use axum::Json;
use axum::extract::State;
use deerflow_core::JsonMap;
use deerflow_service::HistoryQuery;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Which checkpoints, and how many.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = WhichCheckpoints)]
pub(super) struct Which {
    /// At most this many.
    #[schema(value_type = u32, minimum = 1, maximum = 100, default = 10)]
    limit: Bounded<1, 100>,
    /// Those before this one: an id, or the object that states carry.
    #[schema(value_type = Option<Object>)]
    before: Option<CheckpointChoice>,
    /// Metadata a checkpoint must have.
    #[schema(value_type = Option<Object>)]
    metadata: Option<JsonMap>,
    /// Whose checkpoints: `checkpoint_ns` names a sub-agent.
    #[schema(value_type = Option<Object>)]
    checkpoint: Option<CheckpointChoice>,
    /// Fields to answer with, `values.<channel>` for one channel; all when absent.
    #[schema(value_type = Option<Vec<String>>)]
    select: Select,
}

impl Default for Which {
    fn default() -> Self {
        let select = Select::default();
        Self { limit: Bounded::new(10), before: None, metadata: None, checkpoint: None, select }
    }
}

/// List the checkpoints of a thread
///
/// Newest first, on all branches. Entries of a list of one have no `checkpoint` and no `tasks`: a client that finds the
/// checkpoint of the head sends it back with its next run, as if a branch had been chosen. A thread that is not there has no
/// history.
#[utoipa::path(post, path = "/threads/{thread_id}/history", tag = "threads", params(ThreadPath), request_body = Which,
    responses((status = 200, body = Vec<ThreadState>), (status = 404, description = "`before` is no checkpoint of it")))]
pub(super) async fn history(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
    OptionalJson(which): OptionalJson<Which>,
) -> Result<Json<Vec<Value>>, ApiError> {
    let query = HistoryQuery {
        limit: which.limit.get(),
        before: which.before,
        metadata: which.metadata,
        namespace: which.checkpoint.map(|choice| choice.namespace).unwrap_or_default(),
        select: which.select,
    };
    Ok(Json(app.service.history(&caller.user_id, &thread_id, query).await?))
}
