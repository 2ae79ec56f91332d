//! Describes an assistant.

use super::AssistantPath;
use super::assistant::{Assistant, LEAD_AGENT, one};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Bounded, Json, OptionalJson, Path};
use axum::extract::State;
use deerflow_core::JsonMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct NamespacePath {
    /// Id of an assistant.
    assistant_id: String,
    /// Namespace of a sub-graph.
    #[serde(rename = "namespace")]
    _namespace: String,
}

/// The graph as a drawing.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Graph {
    graph_id: &'static str,
    /// Always empty: the loop of an agent has no fixed drawing.
    #[schema(value_type = Vec<Object>)]
    nodes: Vec<Value>,
    #[schema(value_type = Vec<Object>)]
    edges: Vec<Value>,
}

/// Schemas of the graph, all of them open.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GraphSchemas)]
pub(super) struct Schemas {
    graph_id: &'static str,
    #[schema(value_type = Object)]
    input_schema: JsonMap,
    #[schema(value_type = Object)]
    output_schema: JsonMap,
    #[schema(value_type = Object)]
    state_schema: JsonMap,
    #[schema(value_type = Object)]
    config_schema: JsonMap,
    #[schema(value_type = Object)]
    context_schema: JsonMap,
}

/// Which versions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct Versions {
    /// Metadata they must have.
    #[schema(value_type = Option<Object>)]
    metadata: Option<JsonMap>,
    /// At most this many.
    #[schema(value_type = u32, minimum = 1, maximum = 1000, default = 10)]
    limit: Bounded<1, 1000>,
    /// After this many.
    #[schema(value_type = u32, minimum = 0, default = 0)]
    offset: Bounded<0, { u32::MAX as i64 }>,
}

impl Default for Versions {
    fn default() -> Self {
        Self { metadata: None, limit: Bounded::new(10), offset: Bounded::new(0) }
    }
}

/// The version to go back to.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Latest {
    version: u32,
}

/// Show an assistant
#[utoipa::path(get, path = "/assistants/{assistant_id}", tag = "assistants", params(AssistantPath),
    responses((status = 200, body = Assistant), (status = 404, description = "There is no such assistant")))]
pub(super) async fn get(
    caller: Caller,
    State(app): State<AppState>,
    Path(AssistantPath { assistant_id }): Path<AssistantPath>,
) -> Result<axum::Json<Assistant>, ApiError> {
    Ok(axum::Json(one(&app, &caller, &assistant_id).await?))
}

/// Show the graph of an assistant
#[utoipa::path(get, path = "/assistants/{assistant_id}/graph", tag = "assistants", params(AssistantPath),
    responses((status = 200, body = Graph), (status = 404, description = "There is no such assistant")))]
pub(super) async fn graph(
    caller: Caller,
    State(app): State<AppState>,
    Path(AssistantPath { assistant_id }): Path<AssistantPath>,
) -> Result<axum::Json<Graph>, ApiError> {
    one(&app, &caller, &assistant_id).await?;
    Ok(axum::Json(Graph { graph_id: LEAD_AGENT, nodes: Vec::new(), edges: Vec::new() }))
}

/// Show the schemas of an assistant
#[utoipa::path(get, path = "/assistants/{assistant_id}/schemas", tag = "assistants", params(AssistantPath),
    responses((status = 200, body = Schemas), (status = 404, description = "There is no such assistant")))]
pub(super) async fn schemas(
    caller: Caller,
    State(app): State<AppState>,
    Path(AssistantPath { assistant_id }): Path<AssistantPath>,
) -> Result<axum::Json<Schemas>, ApiError> {
    one(&app, &caller, &assistant_id).await?;
    let open = JsonMap::new;
    Ok(axum::Json(Schemas {
        graph_id: LEAD_AGENT,
        input_schema: open(),
        output_schema: open(),
        state_schema: open(),
        config_schema: open(),
        context_schema: open(),
    }))
}

/// List the sub-graphs of an assistant: there are none
#[utoipa::path(get, path = "/assistants/{assistant_id}/subgraphs", tag = "assistants", params(AssistantPath),
    responses((status = 200, body = Object), (status = 404, description = "There is no such assistant")))]
pub(super) async fn subgraphs(
    caller: Caller,
    State(app): State<AppState>,
    Path(AssistantPath { assistant_id }): Path<AssistantPath>,
) -> Result<axum::Json<Value>, ApiError> {
    one(&app, &caller, &assistant_id).await?;
    Ok(axum::Json(json!({})))
}

/// List the sub-graphs of an assistant in a namespace: there are none
#[utoipa::path(get, path = "/assistants/{assistant_id}/subgraphs/{namespace}", tag = "assistants",
    params(NamespacePath),
    responses((status = 200, body = Object), (status = 404, description = "There is no such assistant")))]
pub(super) async fn subgraphs_of(
    caller: Caller,
    State(app): State<AppState>,
    Path(NamespacePath { assistant_id, .. }): Path<NamespacePath>,
) -> Result<axum::Json<Value>, ApiError> {
    one(&app, &caller, &assistant_id).await?;
    Ok(axum::Json(json!({})))
}

/// List the versions of an assistant: there is one
#[utoipa::path(post, path = "/assistants/{assistant_id}/versions", tag = "assistants", params(AssistantPath),
    request_body = Versions,
    responses((status = 200, body = Vec<Assistant>), (status = 404, description = "There is no such assistant")))]
pub(super) async fn versions(
    caller: Caller,
    State(app): State<AppState>,
    Path(AssistantPath { assistant_id }): Path<AssistantPath>,
    OptionalJson(which): OptionalJson<Versions>,
) -> Result<axum::Json<Vec<Assistant>>, ApiError> {
    let only = one(&app, &caller, &assistant_id).await?;
    let fits = which.metadata.iter().flatten().all(|(key, value)| only.metadata.get(key) == Some(value));
    let page = std::iter::once(only).filter(|_| fits).skip(which.offset.get() as usize);
    Ok(axum::Json(page.take(which.limit.get() as usize).collect()))
}

/// Choose a version of an assistant
#[utoipa::path(post, path = "/assistants/{assistant_id}/latest", tag = "assistants", params(AssistantPath),
    request_body = Latest,
    responses((status = 200, body = Assistant), (status = 404, description = "There is no such assistant or version")))]
pub(super) async fn latest(
    caller: Caller,
    State(app): State<AppState>,
    Path(AssistantPath { assistant_id }): Path<AssistantPath>,
    Json(Latest { version }): Json<Latest>,
) -> Result<axum::Json<Assistant>, ApiError> {
    let only = one(&app, &caller, &assistant_id).await?;
    if version != 1 {
        return Err(ApiError::not_found(format!("Assistant {assistant_id} has no version {version}: there is one, 1")));
    }
    Ok(axum::Json(only))
}
