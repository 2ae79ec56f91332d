//! Lists threads.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Bounded, OptionalJson};
use crate::wire::{ExtractPath, PINNED, Select, Thread};
use axum::Json;
use axum::extract::State;
use deerflow_core::ports::{StepLog as _, ThreadFilter, ThreadQuery, ThreadRepo as _, ThreadRow, ThreadSort};
use deerflow_core::{JsonMap, Lineage, ThreadId};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::by_values::matching;
use super::filter::{checked, stored_status};

/// Most paths of one request.
const MOST_PATHS: usize = 10;

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

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ThreadSortBy)]
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
    let paths = search.extract.unwrap_or_default();
    if paths.len() > MOST_PATHS {
        let message = format!("Dictionary should have at most {MOST_PATHS} items");
        return Err(ApiError::invalid("too_long", json!(["body", "extract"]), message, Value::Null));
    }
    let sort = match search.sort_by {
        Some(SortBy::ThreadId) => ThreadSort::ThreadId,
        Some(SortBy::CreatedAt) => ThreadSort::CreatedAt,
        // Among threads of one status, the last use decides.
        Some(SortBy::UpdatedAt | SortBy::StateUpdatedAt | SortBy::Status) | None => ThreadSort::UpdatedAt,
    };
    let query = ThreadQuery {
        filter: ThreadFilter {
            metadata: checked(search.metadata)?,
            status: stored_status(search.status),
            ids: search.ids,
        },
        pinned_by: Some(PINNED.to_owned()),
        sort,
        ascending: search.sort_order == Some(SortOrder::Asc),
        limit: search.limit.get(),
        offset: search.offset.get(),
    };
    let rows = match search.values.filter(|values| !values.is_empty()) {
        None => app.store.search_threads(&caller.user_id, query).await?,
        Some(values) => {
            let all = matching(&app, &caller, &query, &values).await?;
            all.into_iter().skip(query.offset as usize).take(query.limit as usize).collect()
        }
    };
    let mut threads = Vec::with_capacity(rows.len());
    for row in rows {
        let extracted = if paths.is_empty() { None } else { Some(extract(&app, &row, &paths).await?) };
        let thread = json!(Thread { extracted, ..Thread::listed(row) });
        // What was extracted was asked for.
        let extracted = thread.get("extracted").cloned();
        let mut thread = search.select.of(thread);
        if let Some(extracted) = extracted {
            thread["extracted"] = extracted;
        }
        threads.push(thread);
    }
    Ok(Json(threads))
}

async fn extract(app: &AppState, row: &ThreadRow, paths: &IndexMap<String, ExtractPath>) -> Result<JsonMap, ApiError> {
    let head = if paths.values().any(|path| path.is_in("values") || path.is_in("interrupts")) {
        app.store.load(&Lineage::root(row.thread_id.clone()), None).await?
    } else {
        None
    };
    let whole = json!(Thread::with_state(row.clone(), head.as_ref()));
    Ok(paths.iter().map(|(alias, path)| (alias.clone(), path.find(&whole))).collect())
}
