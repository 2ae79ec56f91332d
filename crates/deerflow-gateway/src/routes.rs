//! The routes, one file a group. Paths are written without `/api`.

mod feedback;
pub(crate) mod health;
mod journal;
mod models;
mod runs;
mod threads;
mod usage;

use crate::app::AppState;
use crate::openapi::Api;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

/// Everything under `/api`.
pub(crate) fn api() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(Api::openapi()).merge(models::routes()).merge(threads::routes()).merge(runs::routes()).merge(journal::routes()).merge(feedback::routes()).merge(usage::routes())
}
