//! The `verification:` section of the configuration.

use deerflow_config::{Problems, Section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether and where tool calls leave receipts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VerificationConfig {
    /// Whether every tool result gets a receipt.
    pub receipts_enabled: bool,
    /// When the lead agent's model sees the ledger. A sub-agent's always does.
    pub receipts_render_mode: ReceiptRenderMode,
    /// Accepted from existing files, `false` only: no model judges results.
    pub judge_enabled: bool,
    /// Accepted from existing files, empty only.
    pub judge_model_name: Option<String>,
}

/// When a model sees the ledger of receipts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptRenderMode {
    /// With every request.
    Always,
    /// With requests of a turn that holds the result of a sub-agent.
    #[default]
    DelegationOnly,
}

impl Default for VerificationConfig {
    fn default() -> Self {
        Self {
            receipts_enabled: true,
            receipts_render_mode: ReceiptRenderMode::default(),
            judge_enabled: false,
            judge_model_name: None,
        }
    }
}

impl Section for VerificationConfig {
    const KEY: &'static str = "verification";

    fn validate(&self, problems: &mut Problems) {
        let help = || Some("remove the key; results are checked without a model".to_owned());
        if self.judge_enabled {
            problems.error("judge_enabled", "there is no judge that could be enabled", help());
        }
        if self.judge_model_name.is_some() {
            problems.error("judge_model_name", "there is no judge that could use a model", help());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_config::{Loader, Registry};

    fn load(key: &str, value: &str) -> Result<VerificationConfig, String> {
        let loader = Loader::new(Registry::new().with::<VerificationConfig>()).env([]).cwd("/nowhere");
        let loader = loader.env([("HOME".to_owned(), "/nowhere".to_owned())]).set(key, value);
        loader.load().map(|c| c.section::<VerificationConfig>().as_ref().clone()).map_err(|error| error.to_string())
    }

    #[test]
    fn there_are_two_modes_and_no_judge() {
        let always = load("verification.receipts_render_mode", "always").unwrap();
        assert_eq!(always.receipts_render_mode, ReceiptRenderMode::Always);
        assert_eq!(load("verification.judge_enabled", "false").unwrap(), VerificationConfig::default());
        for (key, value) in [("receipts_render_mode", "never"), ("judge_enabled", "true"), ("judge_model_name", "m")] {
            assert!(load(&format!("verification.{key}"), value).is_err(), "{key}");
        }
    }
}
