//! Small things that a model does for a person at the keyboard, outside of runs.

mod ask;
mod polish;
mod suggestions;

use crate::app::AppState;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(suggestions::config))
        .routes(routes!(suggestions::suggest))
        .routes(routes!(polish::polish))
}
