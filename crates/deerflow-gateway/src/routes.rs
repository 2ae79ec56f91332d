//! The routes, one file a group. Paths are written without `/api`.

mod absent;
mod agents;
mod artifacts;
mod assist;
mod assistants;
mod auth;
mod features;
mod feedback;
pub(crate) mod health;
mod journal;
mod models;
pub(crate) mod pages;
mod runs;
mod store;
mod threads;
mod uploads;
mod usage;
mod user_profile;

use crate::app::AppState;
use crate::openapi::Api;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

/// Everything under `/api`.
pub(crate) fn api() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(Api::openapi())
        .merge(auth::routes())
        .merge(models::routes())
        .merge(features::routes())
        .merge(threads::routes())
        .merge(runs::routes())
        .merge(journal::routes())
        .merge(feedback::routes())
        .merge(usage::routes())
        .merge(uploads::routes())
        .merge(artifacts::routes())
        .merge(assist::routes())
        .merge(assistants::routes())
        .merge(agents::routes())
        .merge(user_profile::routes())
        .merge(store::routes())
        .merge(absent::routes())
}
