//! Finds assistants.

use super::assistant::{Assistant, all};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Bounded, OptionalJson};
use crate::wire::Select;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue};
use deerflow_core::JsonMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

/// Header that says where the next page begins.
const NEXT: &str = "x-pagination-next";

/// Which assistants, and how many.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = AssistantSearch)]
pub(super) struct Search {
    /// Graph they run.
    graph_id: Option<String>,
    /// A part of the name, in any case.
    name: Option<String>,
    /// Metadata they must have.
    #[schema(value_type = Option<Object>)]
    metadata: Option<JsonMap>,
    /// At most this many.
    #[schema(value_type = u32, minimum = 1, maximum = 1000, default = 10)]
    limit: Bounded<1, 1000>,
    /// After this many.
    #[schema(value_type = u32, minimum = 0, default = 0)]
    offset: Bounded<0, { u32::MAX as i64 }>,
    /// The lead agent first, then by name, when absent.
    sort_by: Option<SortBy>,
    /// `asc` or `desc`.
    sort_order: Option<Order>,
    /// Fields to answer with; all when absent.
    #[schema(value_type = Option<Vec<String>>)]
    select: Select,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AssistantSortBy)]
enum SortBy {
    AssistantId,
    CreatedAt,
    UpdatedAt,
    Name,
    GraphId,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    Asc,
    Desc,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            graph_id: None,
            name: None,
            metadata: None,
            limit: Bounded::new(10),
            offset: Bounded::new(0),
            sort_by: None,
            sort_order: None,
            select: Select::default(),
        }
    }
}

impl Search {
    fn fits(&self, assistant: &Assistant) -> bool {
        let name = self.name.as_ref().map(|name| name.to_lowercase());
        self.graph_id.as_ref().is_none_or(|graph| graph == assistant.graph_id)
            && name.is_none_or(|name| assistant.name.to_lowercase().contains(&name))
            && self.metadata.iter().flatten().all(|(key, value)| assistant.metadata.get(key) == Some(value))
    }
}

/// Find assistants
///
/// The header `X-Pagination-Next` has the offset of the next page when there is one.
#[utoipa::path(post, path = "/assistants/search", tag = "assistants", request_body = Search,
    responses((status = 200, body = Vec<Assistant>)))]
pub(super) async fn search(
    caller: Caller,
    State(app): State<AppState>,
    OptionalJson(search): OptionalJson<Search>,
) -> Result<(HeaderMap, Json<Vec<Value>>), ApiError> {
    let mut found: Vec<Assistant> =
        all(&app, &caller).await?.into_iter().filter(|assistant| search.fits(assistant)).collect();
    if matches!(search.sort_by, Some(SortBy::AssistantId | SortBy::Name)) {
        found.sort_by(|a, b| a.assistant_id.cmp(&b.assistant_id));
    }
    if search.sort_by.is_some() && search.sort_order != Some(Order::Asc) {
        found.reverse();
    }
    let (offset, limit) = (search.offset.get() as usize, search.limit.get() as usize);
    let mut headers = HeaderMap::new();
    let end = offset.saturating_add(limit);
    if end < found.len() {
        headers.insert(NEXT, HeaderValue::from(end));
    }
    let page = found.into_iter().skip(offset).take(limit);
    Ok((headers, Json(page.map(|assistant| search.select.of(json!(assistant))).collect())))
}

/// Count assistants
#[utoipa::path(post, path = "/assistants/count", tag = "assistants", request_body = Search,
    responses((status = 200, body = u64)))]
pub(super) async fn count(
    caller: Caller,
    State(app): State<AppState>,
    OptionalJson(search): OptionalJson<Search>,
) -> Result<Json<usize>, ApiError> {
    Ok(Json(all(&app, &caller).await?.iter().filter(|assistant| search.fits(assistant)).count()))
}
