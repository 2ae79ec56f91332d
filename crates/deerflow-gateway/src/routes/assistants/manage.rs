//! Makes, changes and deletes assistants: custom agents by another name.

use super::AssistantPath;
use super::assistant::{Assistant, LEAD_AGENT, METADATA, not_found, one};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Json, Path, Query};
use crate::routes::agents::{enabled, files};
use axum::extract::State;
use axum::http::StatusCode;
use deerflow_core::JsonMap;
use deerflow_harness::CustomAgent;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

/// Largest metadata, in bytes of JSON.
const METADATA_BYTES: usize = 64 * 1024;

/// An assistant to be made.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct NewAssistant {
    /// Must be `lead_agent`.
    #[schema(example = "lead_agent")]
    graph_id: String,
    /// Its id, which is its name; made from the name when absent.
    #[serde(default)]
    assistant_id: Option<String>,
    /// Its name: letters, digits and single hyphens.
    #[serde(default)]
    name: Option<String>,
    /// What it is for.
    #[serde(default)]
    description: Option<String>,
    /// What clients keep with it.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Option<JsonMap>,
    /// Must be absent or empty.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    config: Option<JsonMap>,
    /// Must be absent or empty.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    context: Option<JsonMap>,
    /// What happens when there is one of this id: `raise` (409) when absent.
    #[serde(default)]
    if_exists: Option<IfExists>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = IfAssistantExists)]
enum IfExists {
    Raise,
    DoNothing,
}

/// A change of an assistant.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = AssistantChange)]
pub(super) struct Change {
    /// Must be `lead_agent` when given.
    graph_id: Option<String>,
    /// Must be its name when given: that is its id.
    name: Option<String>,
    /// What it is for.
    description: Option<String>,
    /// Merged into the metadata key by key.
    #[schema(value_type = Option<Object>)]
    metadata: Option<JsonMap>,
    /// Must be absent or empty.
    #[schema(value_type = Option<Object>)]
    config: Option<JsonMap>,
    /// Must be absent or empty.
    #[schema(value_type = Option<Object>)]
    context: Option<JsonMap>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct DeleteQuery {
    /// Must be absent or false: threads belong to no assistant.
    delete_threads: bool,
}

/// Make an assistant
///
/// A custom agent of the caller; `agents_api` must be on.
#[utoipa::path(post, path = "/assistants", tag = "assistants", request_body = NewAssistant,
    responses((status = 200, body = Assistant), (status = 403, description = "`agents_api` is off"),
        (status = 409, description = "There is one of this id"), (status = 422, description = "A value does not fit")))]
pub(super) async fn create(
    caller: Caller,
    State(app): State<AppState>,
    Json(new): Json<NewAssistant>,
) -> Result<axum::Json<Assistant>, ApiError> {
    enabled(&app)?;
    check(Some(&new.graph_id), new.config.as_ref(), new.context.as_ref(), new.description.as_ref())?;
    let id = match (new.assistant_id, new.name) {
        (Some(id), _) => id,
        (None, Some(name)) => name.split_whitespace().collect::<Vec<_>>().join("-"),
        (None, None) => uuid::Uuid::new_v4().to_string(),
    };
    let mut agent = CustomAgent { name: id.clone(), ..CustomAgent::default() };
    agent.settings.description = new.description.unwrap_or_default();
    merge(&mut agent, new.metadata)?;
    let taken = || ApiError::conflict(format!("Assistant {id} already exists"));
    if id == LEAD_AGENT {
        return if new.if_exists == Some(IfExists::DoNothing) {
            Ok(axum::Json(Assistant::lead()))
        } else {
            Err(taken())
        };
    }
    match files(&app, &caller, move |agents| agents.create(agent)).await {
        Ok(made) => Ok(axum::Json(made.into())),
        Err(error) if error.status == StatusCode::CONFLICT => {
            if new.if_exists == Some(IfExists::DoNothing) {
                return Ok(axum::Json(one(&app, &caller, &id).await?));
            }
            Err(taken())
        }
        Err(error) => Err(error),
    }
}

/// Change an assistant
#[utoipa::path(patch, path = "/assistants/{assistant_id}", tag = "assistants", params(AssistantPath),
    request_body = Change,
    responses((status = 200, body = Assistant),
        (status = 403, description = "`agents_api` is off, or it is the lead agent"),
        (status = 404, description = "There is no such assistant"), (status = 422, description = "A value does not fit")))]
pub(super) async fn update(
    caller: Caller,
    State(app): State<AppState>,
    Path(AssistantPath { assistant_id }): Path<AssistantPath>,
    Json(change): Json<Change>,
) -> Result<axum::Json<Assistant>, ApiError> {
    changeable(&app, &assistant_id)?;
    check(change.graph_id.as_ref(), change.config.as_ref(), change.context.as_ref(), change.description.as_ref())?;
    let wanted = assistant_id.clone();
    let agent = files(&app, &caller, move |agents| agents.load(&wanted)).await;
    let mut agent = agent.map_err(|error| not_found(error, &assistant_id))?;
    if let Some(name) = change.name.filter(|name| *name != agent.name) {
        let message = "An assistant's name is its id and cannot be changed";
        return Err(ApiError::invalid("value_error", json!(["body", "name"]), message, json!(name)));
    }
    if let Some(description) = change.description {
        agent.settings.description = description;
    }
    merge(&mut agent, change.metadata)?;
    let changed = files(&app, &caller, move |agents| agents.update(&agent).map(|()| agent)).await?;
    Ok(axum::Json(changed.into()))
}

/// Delete an assistant
#[utoipa::path(delete, path = "/assistants/{assistant_id}", tag = "assistants", params(AssistantPath, DeleteQuery),
    responses((status = 204, description = "It is gone"),
        (status = 403, description = "`agents_api` is off, or it is the lead agent"),
        (status = 404, description = "There is no such assistant"),
        (status = 422, description = "`delete_threads` was asked for")))]
pub(super) async fn delete(
    caller: Caller,
    State(app): State<AppState>,
    Path(AssistantPath { assistant_id }): Path<AssistantPath>,
    Query(query): Query<DeleteQuery>,
) -> Result<StatusCode, ApiError> {
    changeable(&app, &assistant_id)?;
    if query.delete_threads {
        let message = "Threads belong to no assistant: delete them by themselves";
        return Err(ApiError::invalid("value_error", json!(["query", "delete_threads"]), message, json!(true)));
    }
    let wanted = assistant_id.clone();
    let deleted = files(&app, &caller, move |agents| agents.delete(&wanted)).await;
    deleted.map_err(|error| not_found(error, &assistant_id))?;
    Ok(StatusCode::NO_CONTENT)
}

fn changeable(app: &AppState, id: &str) -> Result<(), ApiError> {
    if id == LEAD_AGENT {
        return Err(ApiError::forbidden("The assistant lead_agent is built in and cannot be changed"));
    }
    enabled(app)
}

fn check(
    graph: Option<&String>,
    config: Option<&JsonMap>,
    context: Option<&JsonMap>,
    description: Option<&String>,
) -> Result<(), ApiError> {
    let refuse = |field: &str, message: &str, input: Value| {
        Err(ApiError::invalid("value_error", json!(["body", field]), message, input))
    };
    if let Some(graph) = graph.filter(|graph| *graph != LEAD_AGENT) {
        return refuse("graph_id", "There is one graph, lead_agent", json!(graph));
    }
    for (field, value) in [("config", config), ("context", context)] {
        if value.is_some_and(|value| !value.is_empty()) {
            let message = "An assistant keeps no run options: give them with each run, or make an agent at /agents";
            return refuse(field, message, Value::Null);
        }
    }
    if description.is_some_and(|text| text.chars().count() > 2000) {
        return refuse("description", "String should have at most 2000 characters", Value::Null);
    }
    Ok(())
}

/// Merges metadata into what an agent's settings keep.
fn merge(agent: &mut CustomAgent, metadata: Option<JsonMap>) -> Result<(), ApiError> {
    let Some(metadata) = metadata.filter(|metadata| !metadata.is_empty()) else { return Ok(()) };
    let kept = agent.settings.extra.entry(METADATA).or_insert_with(|| json!({}));
    let mut merged = kept.as_object().cloned().unwrap_or_default();
    merged.extend(metadata);
    merged.shift_remove("created_by");
    let merged = Value::Object(merged);
    if merged.to_string().len() > METADATA_BYTES {
        let message = "Metadata should have at most 64 KiB";
        return Err(ApiError::invalid("too_long", json!(["body", "metadata"]), message, Value::Null));
    }
    *kept = merged;
    Ok(())
}
