//! Custom agents: managed here when `agents_api` is on.

mod agent;
mod manage;
mod show;

use crate::app::AppState;
use crate::caller::Caller;
use crate::config::AgentsApiConfig;
use crate::error::ApiError;
use deerflow_harness::{CustomAgentError, CustomAgents};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(show::list, manage::create)).routes(routes!(show::check)).routes(routes!(
        show::get,
        manage::update,
        manage::delete
    ))
}

#[derive(Debug, Deserialize, IntoParams)]
struct AgentPath {
    /// Name of an agent.
    #[param(example = "sales-analyst")]
    name: String,
}

/// Refuses when agents are not managed here.
pub(super) fn enabled(app: &AppState) -> Result<(), ApiError> {
    if app.config.section::<AgentsApiConfig>().enabled {
        return Ok(());
    }
    Err(ApiError::forbidden(
        "Custom-agent management API is disabled. Set agents_api.enabled to true in the configuration to use it.",
    ))
}

/// Does something with the files of the caller's agents, where blocking is allowed.
pub(super) async fn files<T: Send + 'static>(
    app: &AppState,
    caller: &Caller,
    work: impl FnOnce(&CustomAgents) -> Result<T, CustomAgentError> + Send + 'static,
) -> Result<T, ApiError> {
    let agents = CustomAgents::new(app.config.home(), &caller.user_id);
    let done = tokio::task::spawn_blocking(move || work(&agents)).await.map_err(|error| ApiError::internal(&error))?;
    done.map_err(|error| match error {
        CustomAgentError::BadName(name) => ApiError::invalid(
            "string_pattern_mismatch",
            serde_json::json!(["body", "name"]),
            "An agent's name should be of letters, digits and single hyphens, at most 64 characters",
            serde_json::json!(name),
        ),
        CustomAgentError::Unknown { name, .. } => ApiError::not_found(format!("Agent '{name}' not found")),
        CustomAgentError::Exists(name) => ApiError::conflict(format!("Agent '{name}' already exists")),
        error => ApiError::internal(&error),
    })
}

/// How many custom agents the caller has.
pub(super) async fn count(app: &AppState, caller: &Caller) -> Result<u64, ApiError> {
    Ok(files(app, caller, |agents| agents.list()).await?.len() as u64)
}
