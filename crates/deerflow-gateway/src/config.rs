//! Sections of the gateway.

use crate::auth::AuthConfig;
use deerflow_config::{Registry, Section};
use deerflow_runtime::RunsConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The HTTP server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Largest body of a request that is no upload, in bytes.
    #[schemars(range(min = 1024))]
    pub max_body_bytes: usize,
    /// Seconds in which a client must have sent the head of a request.
    #[schemars(range(min = 1))]
    pub header_timeout_seconds: u64,
    /// Seconds in which a client must have sent the body of a request that is no upload.
    #[schemars(range(min = 1))]
    pub body_timeout_seconds: u64,
    /// Seconds that runs are given to end at a shutdown; then they are interrupted, and go on at the next start.
    pub shutdown_grace_seconds: u64,
    /// Whether `/docs` and `/openapi.json` are served.
    pub docs: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            max_body_bytes: 20 * 1024 * 1024,
            header_timeout_seconds: 15,
            body_timeout_seconds: 60,
            shutdown_grace_seconds: 10,
            docs: true,
        }
    }
}

impl Section for ServerConfig {
    const KEY: &'static str = "server";
}

/// Management of custom agents over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentsApiConfig {
    /// Whether clients can make, change and delete custom agents.
    pub enabled: bool,
}

impl Section for AgentsApiConfig {
    const KEY: &'static str = "agents_api";
}

/// Questions that are offered after an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SuggestionsConfig {
    /// Whether they are offered at all.
    pub enabled: bool,
    /// How many at most.
    #[schemars(range(min = 1, max = 5))]
    pub max_suggestions: u32,
    /// Model that writes them; the one that the client names, or the default, when absent.
    pub model_name: Option<String>,
}

impl Default for SuggestionsConfig {
    fn default() -> Self {
        Self { enabled: true, max_suggestions: 3, model_name: None }
    }
}

impl Section for SuggestionsConfig {
    const KEY: &'static str = "suggestions";
}

/// Rewriting of a task before it is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InputPolishConfig {
    /// Whether it is offered.
    pub enabled: bool,
    /// Longest text that is rewritten, in characters.
    #[schemars(range(min = 1))]
    pub max_chars: usize,
    /// Model that rewrites; the default when absent.
    pub model_name: Option<String>,
}

impl Default for InputPolishConfig {
    fn default() -> Self {
        Self { enabled: true, max_chars: 4000, model_name: None }
    }
}

impl Section for InputPolishConfig {
    const KEY: &'static str = "input_polish";
}

/// Adds the gateway's sections.
#[must_use]
pub fn sections(registry: Registry) -> Registry {
    registry
        .with::<ServerConfig>()
        .with::<RunsConfig>()
        .with::<AgentsApiConfig>()
        .with::<SuggestionsConfig>()
        .with::<InputPolishConfig>()
        .with::<AuthConfig>()
}
