//! Lists threads.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Bounded, OptionalJson};
use crate::wire::{ExtractPath, Select, Thread};
use axum::Json;
use axum::extract::State;
use deerflow_core::{JsonMap, ThreadId};
use deerflow_service::{SortBy, ThreadSearch};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

/// Which threads, and how many.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = ThreadSearch)]
pub(super) struct Search {
    /// Metadata a thread must have.
    #[schema(value_type = Option<Object>)]
    metadata: Option<JsonMap>,
    /// Values the state must have; of the most recently used 1000 threads.
    #[schema(value_type = Option<Object>)]
    values: Option<JsonMap>,
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
    /// Fields to answer with; all when absent.
    #[schema(value_type = Option<Vec<String>>)]
    select: Select,
    /// Paths into the threads, by the alias under which `extracted` has what is there. At most 10.
    #[schema(value_type = Option<Object>, example = json!({"last": "values.messages[-1].content"}))]
    extract: Option<IndexMap<String, ExtractPath>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SortOrder {
    Asc,
    Desc,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            metadata: None,
            values: None,
            ids: None,
            status: None,
            limit: Bounded::new(100),
            offset: Bounded::new(0),
            sort_by: None,
            sort_order: None,
            select: Select::default(),
            extract: None,
        }
    }
}

/// Find threads
///
/// Pinned ones first, then the most recently used. Of the state, `values` has the title only: `extract` picks the rest.
#[utoipa::path(post, path = "/threads/search", tag = "threads", request_body = Search,
    responses((status = 200, body = Vec<Thread>), (status = 422, description = "A filter that cannot be used")))]
pub(super) async fn search(
    caller: Caller,
    State(app): State<AppState>,
    OptionalJson(search): OptionalJson<Search>,
) -> Result<Json<Vec<Value>>, ApiError> {
    let query = ThreadSearch {
        metadata: search.metadata,
        values: search.values,
        ids: search.ids,
        status: search.status,
        limit: search.limit.get(),
        offset: search.offset.get(),
        sort_by: search.sort_by,
        ascending: search.sort_order == Some(SortOrder::Asc),
        extract: search.extract.unwrap_or_default(),
    };
    let threads = app.service.search_threads(&caller.user_id, query).await?;
    Ok(Json(threads.into_iter().map(|thread| shown(&search.select, thread)).collect()))
}

fn shown(select: &Select, thread: Thread) -> Value {
    // What was extracted was asked for.
    let extracted = thread.extracted.clone();
    let mut shown = select.of(json!(thread));
    if let Some(extracted) = extracted {
        shown["extracted"] = Value::Object(extracted);
    }
    shown
}
