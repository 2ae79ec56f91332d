//! The models there are to choose from.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Path;
use axum::Json;
use axum::extract::State;
use deerflow_harness::ModelEntry;
use deerflow_harness::middleware::TokenUsageConfig;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get))
}

/// A model.
#[derive(Debug, Serialize, ToSchema)]
struct Model {
    /// Name it is chosen by.
    #[schema(example = "gpt-5")]
    name: String,
    /// The provider's name for it.
    #[schema(example = "gpt-5")]
    model: String,
    /// Name to show.
    display_name: Option<String>,
    /// What it is good for.
    description: Option<String>,
    /// Can think first.
    supports_thinking: bool,
    /// Takes a reasoning effort.
    supports_reasoning_effort: bool,
}

impl From<ModelEntry> for Model {
    fn from(entry: ModelEntry) -> Self {
        Self {
            name: entry.name,
            model: entry.model,
            display_name: entry.display_name,
            description: entry.description,
            supports_thinking: entry.supports_thinking,
            supports_reasoning_effort: entry.supports_reasoning_effort,
        }
    }
}

/// All models.
#[derive(Debug, Serialize, ToSchema)]
struct Models {
    models: Vec<Model>,
    token_usage: Switch,
}

/// Whether something is on.
#[derive(Debug, Serialize, ToSchema)]
struct Switch {
    enabled: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
struct Name {
    /// Name of a model.
    name: String,
}

/// List the models
#[utoipa::path(get, path = "/models", tag = "models", responses((status = 200, body = Models)))]
async fn list(_: Caller, State(app): State<AppState>) -> Json<Models> {
    let models = app.harness.models().entries().into_iter().map(Model::from).collect();
    let enabled = app.config.section::<TokenUsageConfig>().enabled;
    Json(Models { models, token_usage: Switch { enabled } })
}

/// Show a model
#[utoipa::path(get, path = "/models/{name}", tag = "models", params(Name),
    responses((status = 200, body = Model), (status = 404, description = "There is no such model")))]
async fn get(_: Caller, State(app): State<AppState>, Path(Name { name }): Path<Name>) -> Result<Json<Model>, ApiError> {
    let entry = app.harness.models().entries().into_iter().find(|entry| entry.name == name);
    entry.map(|entry| Json(entry.into())).ok_or_else(|| ApiError::not_found(format!("Model '{name}' not found")))
}
