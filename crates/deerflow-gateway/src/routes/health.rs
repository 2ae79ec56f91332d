//! Whether the server lives.

use crate::app::AppState;
use crate::error::ApiError;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use deerflow_core::UserId;
use deerflow_core::ports::ThreadRepo as _;
use serde_json::{Value, json};
use std::time::Duration;

/// Longest that the database may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/health", get(health)).route("/ready", get(ready)).route("/metrics", get(metrics))
}

async fn health() -> Json<Value> {
    Json(json!({"status": "healthy", "service": "deer-flow-gateway"}))
}

/// Whether requests can be served: the database answers, and the server is not going down.
async fn ready(State(app): State<AppState>) -> Result<Json<Value>, ApiError> {
    let unready = |reason: &str| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, reason);
    if app.stop.is_cancelled() {
        return Err(unready("The server is going down"));
    }
    match tokio::time::timeout(PATIENCE, app.store.threads(&UserId::local(), 1, 0)).await {
        Ok(Ok(_)) => Ok(Json(json!({"status": "ready"}))),
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready");
            Err(unready("The database does not answer"))
        }
        Err(_) => Err(unready("The database does not answer")),
    }
}

async fn metrics(State(app): State<AppState>) -> Response {
    app.metrics.render(0)
}
