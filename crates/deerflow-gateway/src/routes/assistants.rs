//! Assistants of LangGraph's clients: the lead agent, and the user's custom agents.
//!
//! An assistant's id is the name of its agent. There is one graph and one version of each.

mod assistant;
mod describe;
mod manage;
mod search;

use crate::app::AppState;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(manage::create))
        .routes(routes!(search::search))
        .routes(routes!(search::count))
        .routes(routes!(describe::get, manage::update, manage::delete))
        .routes(routes!(describe::graph))
        .routes(routes!(describe::schemas))
        .routes(routes!(describe::subgraphs))
        .routes(routes!(describe::subgraphs_of))
        .routes(routes!(describe::versions))
        .routes(routes!(describe::latest))
}

#[derive(Debug, Deserialize, IntoParams)]
struct AssistantPath {
    /// `lead_agent`, or the name of a custom agent.
    #[param(example = "lead_agent")]
    assistant_id: String,
}
