//! The routes, one file a group. Paths are written without `/api`.

mod auth;
pub(crate) mod health;
mod models;
pub(crate) mod pages;
mod threads;

use crate::app::AppState;
use crate::openapi::Api;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

/// Everything under `/api`.
pub(crate) fn api() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(Api::openapi()).merge(auth::routes()).merge(models::routes()).merge(threads::routes())
}
