//! The description of the API, generated from the handlers.

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use utoipa::OpenApi;
use utoipa::openapi::{OpenApi as Document, Paths};

use crate::app::AppState;

/// Title, version and tags; the paths come from the routes.
#[derive(OpenApi)]
#[openapi(info(
    title = "DeerFlow",
    description = "Super-agent harness: LangGraph-compatible runs, threads and streams."
))]
pub(crate) struct Api;

/// The OpenAPI document of every route under `/api`.
#[must_use]
pub fn document() -> Document {
    let (_, document) = crate::routes::api().split_for_parts();
    under_api(document)
}

/// `/openapi.json`, and `/docs` to browse it.
pub(crate) fn routes(document: Document) -> Router<AppState> {
    let document = under_api(document);
    Router::new()
        .route("/openapi.json", get(move || async move { axum::Json(document) }))
        .route("/docs", get(|| async { Html(include_str!("openapi/docs.html")) }))
}

fn under_api(document: Document) -> Document {
    let info = document.info.clone();
    let mut document = Document::new(info, Paths::new()).nest("/api", document);
    // OpenAPI has no word for the rest of a path: it is a parameter like any other.
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    document
}
