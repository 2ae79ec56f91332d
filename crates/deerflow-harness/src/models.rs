//! The models of a process: configured ones, else those whose keys are in the environment, else the built-in offline one.

use deerflow_config::{ModelProfile, ModelsSection, Pricing};
use deerflow_core::ChatModel;
use deerflow_models::create_chat_model;
use deerflow_offline::OfflineModel;
use serde::Serialize;
use std::sync::Arc;

/// Name of the built-in model.
pub const OFFLINE: &str = "offline";

/// A model cannot be chosen.
#[derive(Debug, thiserror::Error)]
pub enum ModelChoiceError {
    /// There is none of this name.
    #[error("there is no model {name:?}; hint: {}", hint(.nearest, .known))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The name it was probably meant to be.
        nearest: Option<String>,
        /// Names that exist.
        known: Vec<String>,
    },
    /// It is configured, but cannot be used.
    #[error("{}", unusable_text(.name, .reason))]
    Unusable {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
}

fn unusable_text(name: &str, reason: &str) -> String {
    // Some reasons name the model themselves.
    if reason.contains(name) { reason.to_owned() } else { format!("model {name} cannot be used: {reason}") }
}

fn hint(nearest: &Option<String>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => format!("known models: {}", known.join(", ")),
    }
}

/// A model as `deerflow models` shows it.
#[derive(Debug, Clone, Serialize)]
pub struct ModelEntry {
    /// Name it is chosen by.
    pub name: String,
    /// Provider and dialect.
    pub provider: String,
    /// Provider's name for it.
    pub model: String,
    /// Name to show.
    pub display_name: Option<String>,
    /// What it is good for.
    pub description: Option<String>,
    /// `config.yaml`, `environment`, `program` or `built in`.
    pub source: &'static str,
    /// Why it cannot be used.
    pub unusable: Option<String>,
    /// Whether it answers when none is asked for.
    pub default: bool,
    /// Takes images.
    pub supports_vision: bool,
    /// Can think first.
    pub supports_thinking: bool,
    /// Takes a reasoning effort.
    pub supports_reasoning_effort: bool,
    /// What it costs, if the configuration says; see [`deerflow_models::cost`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pricing: Option<Pricing>,
}

/// The models there are to choose from.
pub struct ModelCatalogue {
    /// Models that the program brought.
    own: Vec<Arc<dyn ChatModel>>,
    profiles: Vec<ModelProfile>,
    source: &'static str,
    env: Env,
}

/// Looks up an environment variable.
pub type Env = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl ModelCatalogue {
    /// Configured models; without any, those that the environment has keys for.
    #[must_use]
    pub fn new(configured: &ModelsSection, env: Env) -> Self {
        if configured.0.is_empty() {
            let profiles = deerflow_models::models_from_env(&|name| env(name));
            return Self { own: Vec::new(), profiles, source: "environment", env };
        }
        Self { own: Vec::new(), profiles: configured.0.clone(), source: "config.yaml", env }
    }

    /// With a model that the program brings, named as its [`info`](ChatModel::info) says. It comes before all others: it takes
    /// the place of a configured one of its name, and the first one answers when none is asked for.
    #[must_use]
    pub fn with_model(mut self, model: Arc<dyn ChatModel>) -> Self {
        let name = &model.info().name;
        self.profiles.retain(|profile| profile.name != *name);
        self.own.retain(|own| own.info().name != *name);
        self.own.push(model);
        self
    }

    /// The model of this name, or the default: the first that can be used, or the offline one when there is none at all.
    ///
    /// # Errors
    /// [`ModelChoiceError`].
    pub fn get(&self, name: Option<&str>) -> Result<Arc<dyn ChatModel>, ModelChoiceError> {
        if let Some(model) = self.own.iter().find(|own| name.is_none_or(|name| own.info().name == name)) {
            return Ok(model.clone());
        }
        let profile = match name {
            Some(name) => match self.profiles.iter().find(|p| p.name == name) {
                Some(profile) => profile,
                None if name == OFFLINE => return Ok(Arc::new(OfflineModel::new())),
                None => {
                    let mut known = self.own_and_configured();
                    known.push(OFFLINE.to_owned());
                    let nearest = deerflow_config::nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
                    return Err(ModelChoiceError::Unknown { name: name.to_owned(), nearest, known });
                }
            },
            None => match self.profiles.iter().find(|p| p.unusable().is_none()).or_else(|| self.profiles.first()) {
                Some(profile) => profile,
                None => return Ok(Arc::new(OfflineModel::new())),
            },
        };
        let unusable = |reason: String| ModelChoiceError::Unusable { name: profile.name.clone(), reason };
        if let Some(reason) = profile.unusable() {
            return Err(unusable(reason));
        }
        if profile.provider().is_ok_and(|p| p.kind == deerflow_config::ProviderKind::Offline) {
            return Ok(Arc::new(OfflineModel::new()));
        }
        create_chat_model(profile, &|name| (self.env)(name)).map_err(|error| unusable(error.to_string()))
    }

    /// The models that answer for the one of this name when it cannot, in order. One that cannot be used itself is left out,
    /// with a line in the log.
    #[must_use]
    pub fn fallbacks(&self, name: &str) -> Vec<Arc<dyn ChatModel>> {
        let usable = |fallback: &str| {
            let made = self.get(Some(fallback));
            made.inspect_err(|error| tracing::warn!(model = name, fallback, %error, "fall-back left out")).ok()
        };
        deerflow_config::fallbacks_of(&self.profiles, name).into_iter().filter_map(usable).collect()
    }

    /// What the model of this name costs, if the configuration says.
    #[must_use]
    pub fn pricing(&self, name: &str) -> Option<&Pricing> {
        self.profiles.iter().find(|p| p.name == name)?.pricing.as_ref()
    }

    /// Names of the models, in order; the offline one's when there is no other.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let names = self.own_and_configured();
        if names.is_empty() { vec![OFFLINE.to_owned()] } else { names }
    }

    fn own_and_configured(&self) -> Vec<String> {
        let own = self.own.iter().map(|own| own.info().name.clone());
        own.chain(self.profiles.iter().map(|profile| profile.name.clone())).collect()
    }

    /// Every model, the default one marked.
    #[must_use]
    pub fn entries(&self) -> Vec<ModelEntry> {
        let default = self.profiles.iter().position(|p| p.unusable().is_none()).unwrap_or(0);
        let own = self.own.iter().map(|own| own.info()).enumerate().map(|(at, info)| ModelEntry {
            name: info.name.clone(),
            provider: info.provider.clone(),
            model: info.model.clone(),
            display_name: None,
            description: None,
            source: "program",
            unusable: None,
            default: at == 0,
            supports_vision: info.supports_vision,
            supports_thinking: info.supports_thinking,
            supports_reasoning_effort: false,
            pricing: None,
        });
        let configured = self.profiles.iter().enumerate().map(|(at, p)| ModelEntry {
            name: p.name.clone(),
            provider: p.provider().map_or_else(|_| p.use_.clone(), |p| p.dialect().to_owned()),
            model: p.model.clone(),
            display_name: p.display_name.clone(),
            description: p.description.clone(),
            source: self.source,
            unusable: p.unusable(),
            default: at == default && self.own.is_empty(),
            supports_vision: p.supports_vision,
            supports_thinking: p.supports_thinking,
            supports_reasoning_effort: p.supports_reasoning_effort,
            pricing: p.pricing.clone(),
        });
        let mut entries: Vec<ModelEntry> = own.chain(configured).collect();
        if !entries.iter().any(|e| e.name == OFFLINE) {
            entries.push(ModelEntry {
                name: OFFLINE.to_owned(),
                provider: OFFLINE.to_owned(),
                model: "offline-extractive-1".to_owned(),
                display_name: None,
                description: Some("built in: extracts by rules, no network, no key".to_owned()),
                source: "built in",
                unusable: None,
                default: self.profiles.is_empty() && self.own.is_empty(),
                supports_vision: false,
                supports_thinking: false,
                supports_reasoning_effort: false,
                pricing: None,
            });
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn fallbacks_that_cannot_be_used_are_left_out() {
        let configured = json!([
            {"name": "a", "use": "openai", "model": "x", "api_key": "k", "fallbacks": ["b", "c", "offline"]},
            {"name": "b", "use": "openai", "model": "y"},
            {"name": "c", "use": "openai", "model": "z", "api_key": "k", "fallbacks": ["d"]},
            {"name": "d", "use": "deepseek", "model": "z", "api_key": "k"}
        ]);
        let catalogue = ModelCatalogue::new(&serde_json::from_value(configured).unwrap(), Arc::new(|_| None));
        let names = |name: &str| catalogue.fallbacks(name).iter().map(|m| m.info().name.clone()).collect::<Vec<_>>();
        assert_eq!(names("a"), ["c", "d", "offline"]);
        assert_eq!(names("d"), Vec::<String>::new());
    }

    #[test]
    fn a_model_of_the_program_comes_first() {
        let configured = json!([
            {"name": "a", "use": "openai", "model": "x", "api_key": "k"},
            {"name": "offline", "use": "openai", "model": "y", "api_key": "k"}
        ]);
        let catalogue = ModelCatalogue::new(&serde_json::from_value(configured).unwrap(), Arc::new(|_| None));
        let catalogue = catalogue.with_model(Arc::new(OfflineModel::new()));
        assert_eq!(catalogue.get(None).unwrap().info().name, "offline");
        assert_eq!(catalogue.get(Some("a")).unwrap().info().name, "a");
        assert_eq!(catalogue.names(), ["offline", "a"]);
        let shown: Vec<_> = catalogue.entries().into_iter().map(|e| (e.name, e.source, e.default)).collect();
        assert_eq!(shown, [("offline".into(), "program", true), ("a".into(), "config.yaml", false)]);
    }

    #[test]
    fn an_entry_says_what_its_model_costs() {
        let configured = json!([
            {"name": "a", "use": "openai", "model": "x", "pricing": {"currency": "CNY", "input_per_million": 2}},
            {"name": "b", "use": "codex", "model": "y"}
        ]);
        let configured: ModelsSection = serde_json::from_value(configured).unwrap();
        let catalogue = ModelCatalogue::new(&configured, Arc::new(|_| None));
        let usage = deerflow_core::Usage::new(1_500, 0);
        let cost = |name: &str| catalogue.pricing(name).map(|p| deerflow_models::cost(&usage, p).to_string());
        assert_eq!((cost("a").as_deref(), cost("b"), cost("c")), (Some("0.003 CNY"), None, None));
        let entries = catalogue.entries();
        let shown: Vec<_> = entries.iter().map(|e| (e.provider.as_str(), e.pricing.is_some())).collect();
        assert_eq!(shown, [("openai", true), ("codex", false), ("offline", false)]);
    }
}
