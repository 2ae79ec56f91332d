//! The models there are to choose from.

use crate::refusal::Refusal;
use crate::service::Service;
use deerflow_harness::ModelEntry;
use deerflow_harness::middleware::TokenUsageConfig;
use serde::Serialize;
use utoipa::ToSchema;

/// A model.
#[derive(Debug, Serialize, ToSchema)]
pub struct Model {
    /// Name it is chosen by.
    #[schema(example = "gpt-5")]
    pub name: String,
    /// The provider's name for it.
    #[schema(example = "gpt-5")]
    pub model: String,
    /// Name to show.
    pub display_name: Option<String>,
    /// What it is good for.
    pub description: Option<String>,
    /// Can think first.
    pub supports_thinking: bool,
    /// Takes a reasoning effort.
    pub supports_reasoning_effort: bool,
}

impl From<ModelEntry> for Model {
    fn from(entry: ModelEntry) -> Self {
        Self {
            name: entry.name,
            model: entry.model,
            display_name: entry.display_name,
            description: entry.description,
            supports_thinking: entry.supports_thinking,
            supports_reasoning_effort: entry.supports_reasoning_effort,
        }
    }
}

/// All models.
#[derive(Debug, Serialize, ToSchema)]
pub struct Models {
    /// In the order of the configuration.
    pub models: Vec<Model>,
    /// Whether the usage of tokens is shown.
    pub token_usage: Switch,
}

/// Whether something is on.
#[derive(Debug, Serialize, ToSchema)]
pub struct Switch {
    /// Whether it is.
    pub enabled: bool,
}

impl Service {
    /// All models.
    #[must_use]
    pub fn models(&self) -> Models {
        let models = self.harness.models().entries().into_iter().map(Model::from).collect();
        let enabled = self.config.section::<TokenUsageConfig>().enabled;
        Models { models, token_usage: Switch { enabled } }
    }

    /// A model by its name.
    ///
    /// # Errors
    /// Not found.
    pub fn model(&self, name: &str) -> Result<Model, Refusal> {
        let entry = self.harness.models().entries().into_iter().find(|entry| entry.name == name);
        entry.map(Model::from).ok_or_else(|| Refusal::not_found(format!("Model '{name}' not found")))
    }
}
