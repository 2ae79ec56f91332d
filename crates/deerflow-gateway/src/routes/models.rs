//! The models there are to choose from.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Path;
use axum::Json;
use axum::extract::State;
use deerflow_service::{Model, Models};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get))
}

#[derive(Debug, Deserialize, IntoParams)]
struct Name {
    /// Name of a model.
    name: String,
}

/// List the models
#[utoipa::path(get, path = "/models", tag = "models", responses((status = 200, body = Models)))]
async fn list(_: Caller, State(app): State<AppState>) -> Json<Models> {
    Json(app.service.models())
}

/// Show a model
#[utoipa::path(get, path = "/models/{name}", tag = "models", params(Name),
    responses((status = 200, body = Model), (status = 404, description = "There is no such model")))]
async fn get(_: Caller, State(app): State<AppState>, Path(Name { name }): Path<Name>) -> Result<Json<Model>, ApiError> {
    Ok(Json(app.service.model(&name)?))
}
