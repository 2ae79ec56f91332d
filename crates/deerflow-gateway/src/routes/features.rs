//! Which parts of the product are here.

use crate::app::AppState;
use crate::caller::Caller;
use crate::config::AgentsApiConfig;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(features))
}

/// Whether something is here.
#[derive(Debug, Serialize, ToSchema)]
struct Feature {
    enabled: bool,
}

/// Parts that a client may show or hide.
#[derive(Debug, Serialize, ToSchema)]
struct Features {
    /// Custom agents can be managed (`agents_api.enabled`).
    agents_api: Feature,
    /// A browser that the agent works in.
    browser_control: Feature,
    /// Long tasks of MCP servers.
    mcp_tasks: Feature,
}

/// Show which parts are here
#[utoipa::path(get, path = "/features", tag = "features", responses((status = 200, body = Features)))]
async fn features(_: Caller, State(app): State<AppState>) -> Json<Features> {
    let agents_api = Feature { enabled: app.config.section::<AgentsApiConfig>().enabled };
    let (browser_control, mcp_tasks) = (Feature { enabled: false }, Feature { enabled: false });
    Json(Features { agents_api, browser_control, mcp_tasks })
}
