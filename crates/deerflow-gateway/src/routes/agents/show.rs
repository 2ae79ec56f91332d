//! Shows custom agents.

use super::agent::Agent;
use super::{AgentPath, enabled, files};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Path, Query};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Custom agents.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Agents {
    agents: Vec<Agent>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// A name.
    name: String,
}

/// Whether a name can be used.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Availability {
    available: bool,
    /// As it would be stored.
    name: String,
}

/// List the custom agents
#[utoipa::path(get, path = "/agents", tag = "agents",
    responses((status = 200, body = Agents), (status = 403, description = "`agents_api` is off")))]
pub(super) async fn list(caller: Caller, State(app): State<AppState>) -> Result<Json<Agents>, ApiError> {
    enabled(&app)?;
    let agents = files(&app, &caller, |agents| agents.list()).await?;
    Ok(Json(Agents { agents: agents.into_iter().map(Agent::from).collect() }))
}

/// Look whether a name is free
#[utoipa::path(get, path = "/agents/check", tag = "agents", params(Wanted),
    responses((status = 200, body = Availability), (status = 403, description = "`agents_api` is off"),
        (status = 422, description = "That is no name")))]
pub(super) async fn check(
    caller: Caller,
    State(app): State<AppState>,
    Query(Wanted { name }): Query<Wanted>,
) -> Result<Json<Availability>, ApiError> {
    enabled(&app)?;
    let name = name.to_lowercase();
    let wanted = name.clone();
    let taken = files(&app, &caller, move |agents| agents.exists(&wanted)).await?;
    Ok(Json(Availability { available: !taken, name }))
}

/// Show a custom agent
#[utoipa::path(get, path = "/agents/{name}", tag = "agents", params(AgentPath),
    responses((status = 200, body = Agent), (status = 403, description = "`agents_api` is off"),
        (status = 404, description = "There is no such agent")))]
pub(super) async fn get(
    caller: Caller,
    State(app): State<AppState>,
    Path(AgentPath { name }): Path<AgentPath>,
) -> Result<Json<Agent>, ApiError> {
    enabled(&app)?;
    Ok(Json(files(&app, &caller, move |agents| agents.load(&name)).await?.into()))
}
