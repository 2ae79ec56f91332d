//! Parts of the original that are not here. Where its web client looks at them on its own, it is told that there is nothing;
//! everything else of them is answered as an unknown address.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Path;
use crate::routes::threads::{ThreadPath, not_foreign};
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(skills))
        .routes(routes!(custom_skills))
        .routes(routes!(mcp_config))
        .routes(routes!(mcp_tasks))
        .routes(routes!(memory_config))
        .routes(routes!(channels))
        .routes(routes!(channel_providers))
        .routes(routes!(channel_connections))
        .routes(routes!(scheduled_tasks))
        .routes(routes!(thread_scheduled_tasks))
        .routes(routes!(crons))
        .routes(routes!(thread_crons))
        .routes(routes!(search_crons))
        .routes(routes!(count_crons))
}

/// List skills: there are none yet
#[utoipa::path(get, path = "/skills", tag = "absent", responses((status = 200, body = Object)))]
async fn skills(_: Caller) -> Json<Value> {
    Json(json!({"skills": []}))
}

/// List custom skills: there are none yet
#[utoipa::path(get, path = "/skills/custom", tag = "absent", responses((status = 200, body = Object)))]
async fn custom_skills(_: Caller) -> Json<Value> {
    Json(json!({"skills": []}))
}

/// Show MCP servers: there are none yet
#[utoipa::path(get, path = "/mcp/config", tag = "absent",
    responses((status = 200, body = Object), (status = 403, description = "For administrators")))]
async fn mcp_config(caller: Caller) -> Result<Json<Value>, ApiError> {
    if !caller.is_admin() {
        return Err(ApiError::forbidden("Admin privileges required to manage MCP servers."));
    }
    Ok(Json(json!({"mcp_servers": {}})))
}

/// List long tasks of MCP servers: there are none yet
#[utoipa::path(get, path = "/threads/{thread_id}/mcp-tasks", tag = "absent", params(ThreadPath),
    responses((status = 200, body = Vec<Object>), (status = 404, description = "The thread is somebody else's")))]
async fn mcp_tasks(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
) -> Result<Json<Value>, ApiError> {
    not_foreign(&app, &caller, &thread_id).await?;
    Ok(Json(json!([])))
}

/// Show the settings of memory: it is not here yet
#[utoipa::path(get, path = "/memory/config", tag = "absent", responses((status = 200, body = Object)))]
async fn memory_config(_: Caller) -> Json<Value> {
    Json(json!({
        "enabled": false, "mode": "middleware", "injection_enabled": false, "shutdown_flush_timeout_seconds": 0,
        "manager_class": null, "backend_config": {},
    }))
}

/// Show message channels: there are none yet
#[utoipa::path(get, path = "/channels/", tag = "absent", responses((status = 200, body = Object)))]
async fn channels(_: Caller) -> Json<Value> {
    Json(json!({"service_running": false, "channels": {}}))
}

/// List providers of message channels: there are none yet
#[utoipa::path(get, path = "/channels/providers", tag = "absent", responses((status = 200, body = Object)))]
async fn channel_providers(_: Caller) -> Json<Value> {
    Json(json!({"enabled": false, "providers": []}))
}

/// List connections to message channels: there are none yet
#[utoipa::path(get, path = "/channels/connections", tag = "absent", responses((status = 200, body = Object)))]
async fn channel_connections(_: Caller) -> Json<Value> {
    Json(json!({"connections": []}))
}

/// List scheduled tasks: there are none yet
#[utoipa::path(get, path = "/scheduled-tasks", tag = "absent", responses((status = 200, body = Vec<Object>)))]
async fn scheduled_tasks(_: Caller) -> Json<Value> {
    Json(json!([]))
}

/// List the scheduled tasks of a thread: there are none yet
#[utoipa::path(get, path = "/threads/{thread_id}/scheduled-tasks", tag = "absent", params(ThreadPath),
    responses((status = 200, body = Vec<Object>), (status = 404, description = "The thread is somebody else's")))]
async fn thread_scheduled_tasks(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
) -> Result<Json<Value>, ApiError> {
    not_foreign(&app, &caller, &thread_id).await?;
    Ok(Json(json!([])))
}

fn no_crons() -> ApiError {
    ApiError::not_found("Cron jobs are not available: this server does not run tasks on a schedule")
}

/// Make a cron job: not here yet
#[utoipa::path(post, path = "/runs/crons", tag = "absent",
    responses((status = 404, description = "There are no cron jobs")))]
async fn crons(_: Caller) -> ApiError {
    no_crons()
}

/// Make a cron job of a thread: not here yet
#[utoipa::path(post, path = "/threads/{thread_id}/runs/crons", tag = "absent", params(ThreadPath),
    responses((status = 404, description = "There are no cron jobs")))]
async fn thread_crons(_: Caller) -> ApiError {
    no_crons()
}

/// Find cron jobs: there are none
#[utoipa::path(post, path = "/runs/crons/search", tag = "absent", responses((status = 200, body = Vec<Object>)))]
async fn search_crons(_: Caller) -> Json<Value> {
    Json(json!([]))
}

/// Count cron jobs: there are none
#[utoipa::path(post, path = "/runs/crons/count", tag = "absent", responses((status = 200, body = u64)))]
async fn count_crons(_: Caller) -> Json<u64> {
    Json(0)
}
