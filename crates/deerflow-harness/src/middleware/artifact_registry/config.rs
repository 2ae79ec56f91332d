//! The `tool_artifacts:` section of the configuration.

use deerflow_config::Section;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Handles for what tools made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolArtifactsConfig {
    /// Whether there are any.
    pub enabled: bool,
    /// Handles kept; the oldest go first.
    #[schemars(range(min = 10, max = 1000))]
    pub max_entries: usize,
    /// Whether plain text is looked through for paths and addresses. Structured results always are.
    pub detect_refs_in_text: bool,
    /// Whether the model is told which handles there are.
    pub inject_model_context: bool,
    /// Whether handles in arguments are replaced before a tool runs.
    pub resolve_handles_in_args: bool,
}

impl Default for ToolArtifactsConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            max_entries: 100,
            detect_refs_in_text: true,
            inject_model_context: true,
            resolve_handles_in_args: true,
        }
    }
}

impl Section for ToolArtifactsConfig {
    const KEY: &'static str = "tool_artifacts";
}

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_config::{Loader, Registry};

    #[test]
    fn the_window_has_bounds() {
        let load = |value: &str| {
            let loader = Loader::new(Registry::new().with::<ToolArtifactsConfig>()).cwd("/nowhere");
            let loader = loader.env([("HOME".to_owned(), "/nowhere".to_owned())]);
            loader.set("tool_artifacts.max_entries", value).load().is_ok()
        };
        assert!(load("10") && load("1000"));
        assert!(!load("9") && !load("1001"));
    }
}
