//! The routes, one file a group. Paths are written without `/api`.

mod artifacts;
pub(crate) mod health;
mod models;
mod threads;
mod uploads;

use crate::app::AppState;
use crate::openapi::Api;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

/// Everything under `/api`.
pub(crate) fn api() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(Api::openapi())
        .merge(models::routes())
        .merge(threads::routes())
        .merge(uploads::routes())
        .merge(artifacts::routes())
}
