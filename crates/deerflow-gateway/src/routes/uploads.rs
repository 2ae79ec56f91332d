//! Files that users give to a thread.

mod delete;
mod list;
mod receive;

use crate::app::AppState;
use axum::extract::DefaultBodyLimit;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt as _};
use utoipa_axum::routes;

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        // The limits of uploads are counted while they come in.
        .routes(routes!(receive::receive).layer(DefaultBodyLimit::disable()))
        .routes(routes!(list::limits))
        .routes(routes!(list::list))
        .routes(routes!(delete::delete))
}
