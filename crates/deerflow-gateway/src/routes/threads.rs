//! Threads: conversations and their state.

mod create;
mod search;

use crate::app::AppState;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(create::create)).routes(routes!(search::search))
}
