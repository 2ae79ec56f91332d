//! Values that clients keep beside threads: LangGraph's `store` client.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Bounded, Json, OptionalJson, Query};
use crate::wire::iso;
use axum::extract::State;
use axum::http::StatusCode;
use deerflow_core::JsonMap;
use deerflow_core::ports::{Item as Row, ItemQuery, ItemRepo as _, NamespaceQuery, NewItem};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(put, get, delete)).routes(routes!(search)).routes(routes!(namespaces))
}

/// A value.
#[derive(Debug, Serialize, ToSchema)]
struct Item {
    /// Labels.
    #[schema(example = json!(["users", "ada"]))]
    namespace: Vec<String>,
    /// Its name there.
    key: String,
    /// The value.
    #[schema(value_type = Object)]
    value: JsonMap,
    /// ISO 8601.
    created_at: String,
    /// ISO 8601.
    updated_at: String,
}

impl From<Row> for Item {
    fn from(row: Row) -> Self {
        let Row { namespace, key, value, created_at, updated_at } = row;
        Self { namespace, key, value, created_at: iso(created_at), updated_at: iso(updated_at) }
    }
}

/// A value to be kept.
#[derive(Debug, Deserialize, ToSchema)]
struct Put {
    /// Labels, at least one; no dots in them.
    namespace: Vec<String>,
    /// Its name there.
    key: String,
    /// The value, at most 1 MiB of JSON.
    #[schema(value_type = Object)]
    value: JsonMap,
    /// Minutes that it lives.
    #[serde(default)]
    ttl: Option<f64>,
}

/// Which value.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = WhichItems)]
struct Which {
    /// Labels.
    namespace: Vec<String>,
    /// Its name there.
    key: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct GetQuery {
    /// Labels, with dots between them.
    #[serde(default)]
    namespace: String,
    /// Its name there.
    key: String,
    /// Whether it lives on as if it were written now.
    #[serde(default = "yes")]
    refresh_ttl: bool,
}

fn yes() -> bool {
    true
}

/// Which values.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = ItemSearch)]
struct Search {
    /// Labels that their namespaces begin with.
    namespace_prefix: Option<Vec<String>>,
    /// Fields the value must have; `$eq`, `$ne`, `$gt`, `$gte`, `$lt` and `$lte` compare.
    #[schema(value_type = Option<Object>)]
    filter: Option<JsonMap>,
    /// At most this many.
    #[schema(value_type = u32, minimum = 1, maximum = 1000, default = 10)]
    limit: Bounded<1, 1000>,
    /// After this many.
    #[schema(value_type = u32, minimum = 0, default = 0)]
    offset: Bounded<0, { u32::MAX as i64 }>,
    /// Whether those found live on as if they were written now.
    refresh_ttl: Option<bool>,
}

impl Default for Search {
    fn default() -> Self {
        let (limit, offset) = (Bounded::new(10), Bounded::new(0));
        Self { namespace_prefix: None, filter: None, limit, offset, refresh_ttl: None }
    }
}

/// Values that were found.
#[derive(Debug, Serialize, ToSchema)]
struct Found {
    items: Vec<Item>,
}

/// Which namespaces.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(default)]
struct Namespaces {
    /// Labels they begin with; `*` is any.
    prefix: Option<Vec<String>>,
    /// Labels they end with; `*` is any.
    suffix: Option<Vec<String>>,
    /// Labels that longer ones are cut to.
    #[schema(value_type = Option<u32>, minimum = 1)]
    max_depth: Option<Bounded<1, { u32::MAX as i64 }>>,
    /// At most this many.
    #[schema(value_type = u32, minimum = 1, maximum = 1000, default = 100)]
    limit: Bounded<1, 1000>,
    /// After this many.
    #[schema(value_type = u32, minimum = 0, default = 0)]
    offset: Bounded<0, { u32::MAX as i64 }>,
}

impl Default for Namespaces {
    fn default() -> Self {
        let (limit, offset) = (Bounded::new(100), Bounded::new(0));
        Self { prefix: None, suffix: None, max_depth: None, limit, offset }
    }
}

/// Namespaces that hold something.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ListedNamespaces)]
struct Listed {
    namespaces: Vec<Vec<String>>,
}

/// Keep a value
#[utoipa::path(put, path = "/store/items", tag = "store", request_body = Put,
    responses((status = 204, description = "Kept"), (status = 422, description = "It cannot be kept")))]
async fn put(caller: Caller, State(app): State<AppState>, Json(put): Json<Put>) -> Result<StatusCode, ApiError> {
    let Put { namespace, key, value, ttl } = put;
    app.store.put_item(&caller.user_id, NewItem { namespace, key, value, ttl_minutes: ttl }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Show a value
#[utoipa::path(get, path = "/store/items", tag = "store", params(GetQuery),
    responses((status = 200, body = Item), (status = 404, description = "There is none")))]
async fn get(
    caller: Caller,
    State(app): State<AppState>,
    Query(query): Query<GetQuery>,
) -> Result<axum::Json<Item>, ApiError> {
    let namespace: Vec<String> = query.namespace.split('.').filter(|l| !l.is_empty()).map(str::to_owned).collect();
    let row = app.store.item(&caller.user_id, &namespace, &query.key, query.refresh_ttl).await?;
    row.map(|row| axum::Json(row.into())).ok_or_else(|| ApiError::not_found("Item not found"))
}

/// Delete a value
#[utoipa::path(delete, path = "/store/items", tag = "store", request_body = Which,
    responses((status = 204, description = "It is not there any more")))]
async fn delete(
    caller: Caller,
    State(app): State<AppState>,
    Json(Which { namespace, key }): Json<Which>,
) -> Result<StatusCode, ApiError> {
    app.store.delete_item(&caller.user_id, &namespace, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Find values
///
/// Last written first. There is no index of meanings: a `query` is accepted and ranks nothing.
#[utoipa::path(post, path = "/store/items/search", tag = "store", request_body = Search,
    responses((status = 200, body = Found), (status = 422, description = "An unknown operator")))]
async fn search(
    caller: Caller,
    State(app): State<AppState>,
    OptionalJson(search): OptionalJson<Search>,
) -> Result<axum::Json<Found>, ApiError> {
    let query = ItemQuery {
        namespace_prefix: search.namespace_prefix.unwrap_or_default(),
        filter: search.filter.unwrap_or_default(),
        limit: search.limit.get(),
        offset: search.offset.get(),
        refresh_ttl: search.refresh_ttl.unwrap_or(true),
    };
    let rows = app.store.search_items(&caller.user_id, query).await?;
    Ok(axum::Json(Found { items: rows.into_iter().map(Item::from).collect() }))
}

/// List namespaces
#[utoipa::path(post, path = "/store/namespaces", tag = "store", request_body = Namespaces,
    responses((status = 200, body = Listed)))]
async fn namespaces(
    caller: Caller,
    State(app): State<AppState>,
    OptionalJson(wanted): OptionalJson<Namespaces>,
) -> Result<axum::Json<Listed>, ApiError> {
    let query = NamespaceQuery {
        prefix: wanted.prefix.unwrap_or_default(),
        suffix: wanted.suffix.unwrap_or_default(),
        max_depth: wanted.max_depth.map(Bounded::get),
        limit: wanted.limit.get(),
        offset: wanted.offset.get(),
    };
    let namespaces = app.store.item_namespaces(&caller.user_id, query).await?;
    Ok(axum::Json(Listed { namespaces }))
}
