//! Sections of the gateway.

use crate::auth::AuthConfig;
use deerflow_config::{Registry, Section};
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

/// Adds the gateway's sections.
#[must_use]
pub fn sections(registry: Registry) -> Registry {
    registry.with::<ServerConfig>().with::<AuthConfig>()
}
