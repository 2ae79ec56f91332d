//! The `pii_redaction:` section of the configuration.

use deerflow_config::{Problems, Secret, Section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shortest `token_secret`, in bytes.
const MIN_SECRET: usize = 16;

/// Replaces personal data by placeholders before a model sees it. The conversation that is stored keeps what the user wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PiiRedactionConfig {
    /// Whether anything is replaced.
    pub enabled: bool,
    /// E-mail addresses.
    pub redact_email: bool,
    /// API keys of well-known forms: OpenAI-like `sk-`, AWS, GitHub, Slack, Google.
    pub redact_api_key: bool,
    /// Card numbers of 13 to 19 digits with a valid check digit.
    pub redact_credit_card: bool,
    /// Telephone numbers of 8 to 15 digits.
    pub redact_phone: bool,
    /// Identity numbers of China, Brazil (CPF), Argentina (CUIT) and Mexico (RFC).
    pub redact_national_id: bool,
    /// Secret that placeholders are derived with. Set it where several machines share threads; otherwise one is made and
    /// kept in the data folder. Another secret means other placeholders.
    #[schemars(with = "Option<String>")]
    pub token_secret: Option<Secret>,
}

impl Default for PiiRedactionConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            redact_email: true,
            redact_api_key: true,
            redact_credit_card: true,
            redact_phone: true,
            redact_national_id: true,
            token_secret: None,
        }
    }
}

impl Section for PiiRedactionConfig {
    const KEY: &'static str = "pii_redaction";

    fn validate(&self, problems: &mut Problems) {
        if self.token_secret.as_ref().is_some_and(|secret| secret.expose().len() < MIN_SECRET) {
            let help = "a short secret could be guessed, and with it what a placeholder stands for";
            problems.error("token_secret", format!("has fewer than {MIN_SECRET} bytes"), Some(help.to_owned()));
        }
        let any = self.redact_email
            || self.redact_api_key
            || self.redact_credit_card
            || self.redact_phone
            || self.redact_national_id;
        if self.enabled && !any {
            problems.warning("enabled", "nothing is replaced: every kind is switched off", None);
        }
    }
}
