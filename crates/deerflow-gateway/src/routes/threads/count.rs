//! Counts threads.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::OptionalJson;
use axum::Json;
use axum::extract::State;
use deerflow_core::JsonMap;
use serde::Deserialize;
use utoipa::ToSchema;

/// Which threads.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct Count {
    /// Metadata a thread must have.
    #[schema(value_type = Option<Object>)]
    metadata: Option<JsonMap>,
    /// Values the state must have; of the most recently used 1000 threads.
    #[schema(value_type = Option<Object>)]
    values: Option<JsonMap>,
    /// `idle`, `busy`, `interrupted` or `error`.
    status: Option<String>,
}

/// Count threads
#[utoipa::path(post, path = "/threads/count", tag = "threads", request_body = Count,
    responses((status = 200, body = u64), (status = 422, description = "A filter that cannot be used")))]
pub(super) async fn count(
    caller: Caller,
    State(app): State<AppState>,
    OptionalJson(count): OptionalJson<Count>,
) -> Result<Json<u64>, ApiError> {
    let counted = app.service.count_threads(&caller.user_id, count.metadata, count.status, count.values).await?;
    Ok(Json(counted))
}
