//! The application: what handlers share, and where routes are mounted.

use crate::auth::{Auth, authenticate, csrf};
use crate::config::ServerConfig;
use crate::error::ApiError;
use crate::layers::{cors, security_headers, trace};
use crate::metrics::{Metrics, count};
use crate::{openapi, routes};
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::IntoResponse as _;
use axum::{Router, http::header};
use deerflow_config::Config;
use deerflow_harness::Harness;
use deerflow_runtime::Runs;
use deerflow_service::Service;
pub use deerflow_service::Store;
use std::ops::Deref;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_http::catch_panic::CatchPanicLayer;

/// What the server is made of.
pub struct AppParts {
    /// The configuration.
    pub config: Arc<Config>,
    /// The database.
    pub store: Arc<Store>,
    /// Agents.
    pub harness: Arc<Harness>,
    /// Their runs.
    pub runs: Runs<Store>,
    /// Who may use the server.
    pub auth: Arc<Auth>,
    /// Cancelled when the server goes down: streams end then.
    pub stop: CancellationToken,
}

/// What handlers share. Cheap to clone.
#[derive(Clone)]
pub struct AppState(Arc<Shared>);

/// The parts, and what the server keeps of itself.
pub struct Shared {
    parts: AppParts,
    /// What routes share with programs that embed DeerFlow.
    pub(crate) service: Service,
    pub(crate) metrics: Arc<Metrics>,
    /// What goes on after its request was answered.
    pub(crate) background: TaskTracker,
}

impl Deref for Shared {
    type Target = AppParts;
    fn deref(&self) -> &AppParts {
        &self.parts
    }
}

impl AppState {
    /// State over these parts.
    #[must_use]
    pub fn new(parts: AppParts) -> Self {
        let service = Service {
            config: parts.config.clone(),
            store: parts.store.clone(),
            harness: parts.harness.clone(),
            runs: parts.runs.clone(),
        };
        Self(Arc::new(Shared { parts, service, metrics: Arc::default(), background: TaskTracker::new() }))
    }
    /// Limits of the server.
    #[must_use]
    pub fn server(&self) -> Arc<ServerConfig> {
        self.config.section::<ServerConfig>()
    }
}

impl Deref for AppState {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// All routes. From the outside in: request id, security headers, faults, foreign origins, CSRF, who asks, the route.
pub fn router(state: AppState) -> Router {
    let (api, document) = routes::api().split_for_parts();
    let mut router = Router::new()
        .merge(routes::health::routes())
        .merge(routes::pages::routes())
        .nest("/api", api.clone())
        .nest("/api/langgraph", api);
    if state.server().docs {
        router = router.merge(openapi::routes(document));
    }
    let mut router = router
        .fallback(|| async { ApiError::not_found("Not Found") })
        .method_not_allowed_fallback(|| async { ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed") })
        .layer(from_fn_with_state(state.clone(), authenticate))
        .layer(from_fn_with_state(state.clone(), csrf));
    if let Some(cors) = cors(&state.auth) {
        router = router.layer(cors);
    }
    router
        .layer(from_fn_with_state(state.clone(), count))
        .layer(CatchPanicLayer::custom(|_| {
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
                "Internal Server Error",
            )
                .into_response()
        }))
        .layer(from_fn(security_headers))
        .layer(from_fn(trace))
        .with_state(state)
}
