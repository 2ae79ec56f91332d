//! Makes, changes and deletes custom agents.

use super::agent::{Agent, Changes};
use super::{AgentPath, enabled, files};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Json, Path};
use axum::extract::State;
use axum::http::StatusCode;
use deerflow_harness::CustomAgent;
use serde::Deserialize;
use utoipa::ToSchema;

/// An agent to be made.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct NewAgent {
    /// Letters, digits and single hyphens; stored in lower case.
    #[schema(pattern = "^[A-Za-z0-9-]+$", example = "sales-analyst")]
    name: String,
    #[serde(flatten)]
    rest: Changes,
}

/// Make a custom agent
#[utoipa::path(post, path = "/agents", tag = "agents", request_body = NewAgent,
    responses((status = 201, body = Agent), (status = 403, description = "`agents_api` is off"),
        (status = 409, description = "There is one of this name"),
        (status = 422, description = "A name or value that does not fit, or an unknown model")))]
pub(super) async fn create(
    caller: Caller,
    State(app): State<AppState>,
    Json(new): Json<NewAgent>,
) -> Result<(StatusCode, axum::Json<Agent>), ApiError> {
    enabled(&app)?;
    let mut agent = CustomAgent { name: new.name, ..CustomAgent::default() };
    new.rest.apply(&app, &mut agent)?;
    let made = files(&app, &caller, move |agents| agents.create(agent)).await?;
    Ok((StatusCode::CREATED, axum::Json(made.into())))
}

/// Change a custom agent
#[utoipa::path(put, path = "/agents/{name}", tag = "agents", params(AgentPath), request_body = Changes,
    responses((status = 200, body = Agent), (status = 403, description = "`agents_api` is off"),
        (status = 404, description = "There is no such agent"), (status = 422, description = "A value does not fit")))]
pub(super) async fn update(
    caller: Caller,
    State(app): State<AppState>,
    Path(AgentPath { name }): Path<AgentPath>,
    Json(changes): Json<Changes>,
) -> Result<axum::Json<Agent>, ApiError> {
    enabled(&app)?;
    let mut agent = files(&app, &caller, move |agents| agents.load(&name)).await?;
    changes.apply(&app, &mut agent)?;
    let changed = files(&app, &caller, move |agents| agents.update(&agent).map(|()| agent)).await?;
    Ok(axum::Json(changed.into()))
}

/// Delete a custom agent
#[utoipa::path(delete, path = "/agents/{name}", tag = "agents", params(AgentPath),
    responses((status = 204, description = "It is gone"), (status = 403, description = "`agents_api` is off"),
        (status = 404, description = "There is no such agent")))]
pub(super) async fn delete(
    caller: Caller,
    State(app): State<AppState>,
    Path(AgentPath { name }): Path<AgentPath>,
) -> Result<StatusCode, ApiError> {
    enabled(&app)?;
    files(&app, &caller, move |agents| agents.delete(&name)).await?;
    Ok(StatusCode::NO_CONTENT)
}
