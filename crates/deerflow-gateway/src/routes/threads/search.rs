//! Lists threads.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Bounded, OptionalJson};
use crate::wire::{PINNED, Thread};
use axum::Json;
use axum::extract::State;
use deerflow_core::ports::{ThreadFilter, ThreadQuery, ThreadRepo as _, ThreadSort};
use deerflow_core::{JsonMap, ThreadId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which threads, and how many.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct Search {
    /// Metadata a thread must have.
    #[schema(value_type = Object)]
    metadata: Option<JsonMap>,
    /// One of these.
    #[schema(value_type = Option<Vec<String>>)]
    ids: Option<Vec<ThreadId>>,
    /// `idle`, `busy`, `interrupted` or `error`.
    status: Option<String>,
    /// At most this many.
    #[schema(value_type = u32, minimum = 1, maximum = 1000, default = 100)]
    limit: Bounded<1, 1000>,
    /// After this many.
    #[schema(value_type = u32, minimum = 0, default = 0)]
    offset: Bounded<0, { u32::MAX as i64 }>,
    /// `thread_id`, `status`, `created_at` or `updated_at`.
    sort_by: Option<SortBy>,
    /// `asc` or `desc`.
    sort_order: Option<SortOrder>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SortBy {
    ThreadId,
    Status,
    CreatedAt,
    UpdatedAt,
    StateUpdatedAt,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SortOrder {
    Asc,
    Desc,
}

impl Default for Search {
    fn default() -> Self {
        let (limit, offset) = (Bounded::new(100), Bounded::new(0));
        Self { metadata: None, ids: None, status: None, limit, offset, sort_by: None, sort_order: None }
    }
}

/// Find threads
///
/// Pinned ones first, then the most recently used.
#[utoipa::path(post, path = "/threads/search", tag = "threads", request_body = Search,
    responses((status = 200, body = Vec<Thread>)))]
pub(super) async fn search(
    caller: Caller,
    State(app): State<AppState>,
    OptionalJson(search): OptionalJson<Search>,
) -> Result<Json<Vec<Thread>>, ApiError> {
    let sort = match search.sort_by {
        Some(SortBy::ThreadId) => ThreadSort::ThreadId,
        Some(SortBy::CreatedAt) => ThreadSort::CreatedAt,
        // Among threads of one status, the last use decides.
        Some(SortBy::UpdatedAt | SortBy::StateUpdatedAt | SortBy::Status) | None => ThreadSort::UpdatedAt,
    };
    let query = ThreadQuery {
        filter: ThreadFilter {
            metadata: search.metadata.unwrap_or_default(),
            status: search.status.into_iter().collect(),
            ids: search.ids,
        },
        pinned_by: Some(PINNED.to_owned()),
        sort,
        ascending: search.sort_order == Some(SortOrder::Asc),
        limit: search.limit.get(),
        offset: search.offset.get(),
    };
    let rows = app.store.search_threads(&caller.user_id, query).await?;
    Ok(Json(rows.into_iter().map(Thread::listed).collect()))
}
