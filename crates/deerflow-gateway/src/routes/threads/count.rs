//! Counts threads.

use super::by_values::matching;
use super::filter::{checked, stored_status};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::OptionalJson;
use axum::Json;
use axum::extract::State;
use deerflow_core::JsonMap;
use deerflow_core::ports::{ThreadFilter, ThreadQuery, ThreadRepo as _};
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
    let filter = ThreadFilter { metadata: checked(count.metadata)?, status: stored_status(count.status), ids: None };
    match count.values.filter(|values| !values.is_empty()) {
        None => Ok(Json(app.store.count_threads(&caller.user_id, filter).await?)),
        Some(values) => {
            let query = ThreadQuery { filter, ..ThreadQuery::default() };
            Ok(Json(matching(&app, &caller, &query, &values).await?.len() as u64))
        }
    }
}
