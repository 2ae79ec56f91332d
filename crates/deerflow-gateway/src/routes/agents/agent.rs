//! A custom agent as clients see it, and what they may ask of one.

use crate::app::AppState;
use crate::error::ApiError;
use axum::http::StatusCode;
use deerflow_core::JsonMap;
use deerflow_harness::{AgentSettings, CustomAgent};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

/// Longest description, in characters.
const DESCRIPTION: usize = 2000;
/// Longest soul, in bytes.
const SOUL: usize = 256 * 1024;
/// Most entries of a list.
const ENTRIES: usize = 200;

/// A custom agent.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Agent {
    name: String,
    /// What it is for.
    description: String,
    /// Model it wants, by its configured name.
    model: Option<String>,
    tool_groups: Option<Vec<String>>,
    skills: Option<Vec<String>>,
    model_settings: Option<ModelSettings>,
    /// Whether it thinks first.
    thinking_enabled: Option<bool>,
    /// `low`, `medium` or `high`.
    reasoning_effort: Option<String>,
    /// Who it is: a part of its prompt.
    soul: String,
}

/// How its model is asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ModelSettings {
    /// 0 to 2.
    temperature: Option<f64>,
    /// At least 1.
    max_tokens: Option<u64>,
}

impl From<CustomAgent> for Agent {
    fn from(agent: CustomAgent) -> Self {
        let settings = agent.settings;
        let model_settings = settings.model_settings.map(Value::Object);
        Self {
            name: agent.name,
            description: settings.description,
            model: settings.model,
            tool_groups: settings.tool_groups,
            skills: settings.skills,
            model_settings: model_settings.and_then(|settings| serde_json::from_value(settings).ok()),
            thinking_enabled: settings.thinking_enabled,
            reasoning_effort: settings.reasoning_effort,
            soul: agent.soul.unwrap_or_default(),
        }
    }
}

/// What is to be changed. What is absent stays, what is null goes.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct Changes {
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    description: Option<Option<String>>,
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    model: Option<Option<String>>,
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>)]
    tool_groups: Option<Option<Vec<String>>>,
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>)]
    skills: Option<Option<Vec<String>>>,
    /// `temperature` and `max_tokens`; what is absent in it stays, what is null goes.
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Option<ModelSettings>)]
    model_settings: Option<Option<JsonMap>>,
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Option<bool>)]
    thinking_enabled: Option<Option<bool>>,
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Option<Effort>)]
    reasoning_effort: Option<Option<Effort>>,
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    soul: Option<Option<String>>,
}

/// How much a model thinks.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Effort {
    Low,
    Medium,
    High,
}

/// Tells null from absent.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

impl Changes {
    /// Makes the changes to an agent.
    pub(super) fn apply(self, app: &AppState, agent: &mut CustomAgent) -> Result<(), ApiError> {
        self.check(app)?;
        let settings: &mut AgentSettings = &mut agent.settings;
        if let Some(description) = self.description {
            settings.description = description.unwrap_or_default();
        }
        if let Some(model) = self.model {
            settings.model = model.filter(|name| !name.is_empty());
        }
        if let Some(groups) = self.tool_groups {
            settings.tool_groups = groups;
        }
        if let Some(skills) = self.skills {
            settings.skills = skills;
        }
        match self.model_settings {
            None => {}
            Some(None) => settings.model_settings = None,
            Some(Some(changes)) => {
                let mut merged = settings.model_settings.take().unwrap_or_default();
                merged.extend(changes);
                merged.retain(|_, value| !value.is_null());
                check_settings(&merged)?;
                settings.model_settings = (!merged.is_empty()).then_some(merged);
            }
        }
        if let Some(thinking) = self.thinking_enabled {
            settings.thinking_enabled = thinking;
        }
        if let Some(effort) = self.reasoning_effort {
            settings.reasoning_effort = effort.map(|effort| {
                match effort {
                    Effort::Low => "low",
                    Effort::Medium => "medium",
                    Effort::High => "high",
                }
                .to_owned()
            });
        }
        if let Some(soul) = self.soul {
            agent.soul = soul.filter(|soul| !soul.is_empty());
        }
        Ok(())
    }

    fn check(&self, app: &AppState) -> Result<(), ApiError> {
        let refuse = |field: &str, kind: &str, message: String| {
            Err(ApiError::invalid(kind, json!(["body", field]), message, Value::Null))
        };
        if let Some(Some(name)) = &self.model
            && !name.is_empty()
            && !app.harness.models().names().contains(name)
        {
            let detail = format!("Unknown model '{name}'");
            return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
        }
        if self.description.iter().flatten().any(|text| text.chars().count() > DESCRIPTION) {
            let message = format!("String should have at most {DESCRIPTION} characters");
            return refuse("description", "string_too_long", message);
        }
        if self.soul.iter().flatten().any(|text| text.len() > SOUL) {
            return refuse("soul", "string_too_long", format!("String should have at most {SOUL} bytes"));
        }
        for (field, list) in [("tool_groups", &self.tool_groups), ("skills", &self.skills)] {
            if list.iter().flatten().any(|list| list.len() > ENTRIES || list.iter().any(|name| name.len() > 200)) {
                let message = format!("List should have at most {ENTRIES} items of at most 200 bytes");
                return refuse(field, "too_long", message);
            }
        }
        Ok(())
    }
}

fn check_settings(settings: &JsonMap) -> Result<(), ApiError> {
    let place = json!(["body", "model_settings"]);
    let read: Result<ModelSettings, _> = serde_json::from_value(Value::Object(settings.clone()));
    let read = read.map_err(|error| {
        ApiError::invalid("value_error", place.clone(), error.to_string(), Value::Object(settings.clone()))
    })?;
    let fits = read.temperature.is_none_or(|value| (0.0..=2.0).contains(&value)) && read.max_tokens != Some(0);
    if fits {
        return Ok(());
    }
    let message = "Input should be a temperature from 0 to 2 and a max_tokens from 1";
    Err(ApiError::invalid("value_error", place, message, Value::Object(settings.clone())))
}
