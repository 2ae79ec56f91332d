//! An assistant.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::routes::agents::files;
use crate::wire::iso;
use axum::http::StatusCode;
use deerflow_core::JsonMap;
use deerflow_harness::CustomAgent;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// The one graph, and the assistant that stands for it.
pub(super) const LEAD_AGENT: &str = "lead_agent";
/// Where an agent's settings keep the metadata of its assistant.
pub(super) const METADATA: &str = "metadata";

/// An assistant.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Assistant {
    /// `lead_agent`, or the name of a custom agent.
    #[schema(example = "lead_agent")]
    pub(super) assistant_id: String,
    /// Always `lead_agent`.
    pub(super) graph_id: &'static str,
    pub(super) name: String,
    /// Always empty.
    #[schema(value_type = Object)]
    config: JsonMap,
    /// Always empty.
    #[schema(value_type = Object)]
    context: JsonMap,
    /// `created_by` is `system` or `user`.
    #[schema(value_type = Object)]
    pub(super) metadata: JsonMap,
    pub(super) description: Option<String>,
    /// ISO 8601: now, since nothing is kept of it.
    created_at: String,
    /// ISO 8601: now, since nothing is kept of it.
    updated_at: String,
    /// Always 1.
    version: u32,
}

impl Assistant {
    fn new(id: &str, created_by: &str, mut metadata: JsonMap, description: Option<String>) -> Self {
        let now = iso(jiff::Timestamp::now().as_microsecond());
        metadata.insert("created_by".into(), json!(created_by));
        Self {
            assistant_id: id.to_owned(),
            graph_id: LEAD_AGENT,
            name: id.to_owned(),
            config: JsonMap::new(),
            context: JsonMap::new(),
            metadata,
            description,
            created_at: now.clone(),
            updated_at: now,
            version: 1,
        }
    }

    /// The lead agent.
    pub(super) fn lead() -> Self {
        let description = "The lead agent: plans, works with tools and files, and answers".to_owned();
        Self::new(LEAD_AGENT, "system", JsonMap::new(), Some(description))
    }
}

impl From<CustomAgent> for Assistant {
    fn from(agent: CustomAgent) -> Self {
        let metadata = agent.settings.extra.get(METADATA).and_then(Value::as_object).cloned().unwrap_or_default();
        Self::new(&agent.name, "user", metadata, Some(agent.settings.description))
    }
}

/// All assistants of the caller, the lead agent first.
pub(super) async fn all(app: &AppState, caller: &Caller) -> Result<Vec<Assistant>, ApiError> {
    let agents = files(app, caller, |agents| agents.list()).await?;
    Ok(std::iter::once(Assistant::lead()).chain(agents.into_iter().map(Assistant::from)).collect())
}

/// One assistant of the caller.
pub(super) async fn one(app: &AppState, caller: &Caller, id: &str) -> Result<Assistant, ApiError> {
    if id == LEAD_AGENT {
        return Ok(Assistant::lead());
    }
    let name = id.to_owned();
    let agent = files(app, caller, move |agents| agents.load(&name)).await;
    agent.map(Assistant::from).map_err(|error| not_found(error, id))
}

/// An id that no agent can have is one that no assistant has.
pub(super) fn not_found(error: ApiError, id: &str) -> ApiError {
    if matches!(error.status, StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY) {
        let shown: String = id.chars().take(80).collect();
        return ApiError::not_found(format!("Assistant {shown} not found"));
    }
    error
}
