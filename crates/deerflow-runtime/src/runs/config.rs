//! The section `runs`.

use deerflow_config::Section;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What becomes of a run whose process died.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrphanPolicy {
    /// Go on from its last step.
    #[default]
    Resume,
    /// End it with an error.
    Fail,
}

/// Ownership of runs by server processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunsConfig {
    /// How long the owner of a run is taken for alive after its last sign of life, in seconds. It gives one three times as
    /// often.
    #[schemars(range(min = 5, max = 3600))]
    pub lease_seconds: u64,
    /// How much longer others wait before they take its runs over, in seconds: more than clocks differ.
    #[schemars(range(max = 3600))]
    pub grace_seconds: u64,
    /// What becomes of a run whose process died: `resume` or `fail`.
    pub orphan_policy: OrphanPolicy,
    /// How often a run is taken over before it is ended with an error: it may be what kills its processes.
    #[schemars(range(max = 100))]
    pub max_takeovers: u32,
    /// Time for one webhook call, in seconds.
    #[schemars(range(min = 1, max = 300))]
    pub webhook_timeout_seconds: u64,
    /// Whether webhooks may go to loopback, private and link-local addresses.
    pub webhook_private_addresses: bool,
}

impl Default for RunsConfig {
    fn default() -> Self {
        Self {
            lease_seconds: 30,
            grace_seconds: 10,
            orphan_policy: OrphanPolicy::Resume,
            max_takeovers: 5,
            webhook_timeout_seconds: 10,
            webhook_private_addresses: false,
        }
    }
}

impl RunsConfig {
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_seconds.max(1))
    }
    pub(crate) fn grace(&self) -> Duration {
        Duration::from_secs(self.grace_seconds)
    }
}

impl Section for RunsConfig {
    const KEY: &'static str = "runs";
}
