//! What runs used and cost: of a thread, and of everything a user has.

mod console;
mod prices;
mod thread;

use crate::app::AppState;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(thread::token_usage))
        .routes(routes!(console::stats))
        .routes(routes!(console::runs))
        .routes(routes!(console::usage))
}
