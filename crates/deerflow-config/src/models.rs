//! The `models` section: the models there are to choose from.

mod fallbacks;

pub use fallbacks::fallbacks_of;

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::nearest::nearest;
use crate::path::KeyPath;
use crate::providers::{Provider, ProviderError, resolve_provider};
use crate::redact::redact_value;
use crate::registry::{Problems, Section};
use crate::secret::Secret;
use crate::tool_call_format::ToolCallFormat;

/// The models there are to choose from; the first one is the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ModelsSection(pub Vec<ModelProfile>);

impl ModelsSection {
    /// The model of that name.
    pub fn get(&self, name: &str) -> Option<&ModelProfile> {
        self.0.iter().find(|model| model.name == name)
    }

    /// The default model: the first.
    pub fn first(&self) -> Option<&ModelProfile> {
        self.0.first()
    }

    /// The models that answer for that of this name when it cannot, in order: its `fallbacks`, each followed by its own.
    /// Every model comes once; names of no model are left to [`Section::validate`].
    pub fn fallbacks_of(&self, name: &str) -> Vec<&str> {
        fallbacks_of(&self.0, name)
    }

    /// All models, in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, ModelProfile> {
        self.0.iter()
    }
}

/// One entry of `models`. A key that is not named here is forwarded to the provider as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-known-extras" = KNOWN_EXTRAS))]
pub struct ModelProfile {
    /// The name it is chosen by.
    #[serde(default)]
    pub name: String,
    /// The provider: a short name such as `openai` or `anthropic`, or a class path of the original.
    #[serde(default, rename = "use")]
    pub use_: String,
    /// The provider's name for the model.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["model_name"]))]
    pub model: String,
    /// The name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What it is good for, shown where it is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it can be asked to think first.
    #[serde(default)]
    pub supports_thinking: bool,
    /// Whether it takes `reasoning_effort`.
    #[serde(default)]
    pub supports_reasoning_effort: bool,
    /// Whether it takes images.
    #[serde(default)]
    pub supports_vision: bool,
    /// Prompt and answer together, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<NonZeroU32>,
    /// Thinking settings, merged into `when_thinking_enabled.thinking`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Map<String, Value>>,
    /// Request settings when thinking is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_thinking_enabled: Option<Map<String, Value>>,
    /// Request settings when thinking is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_thinking_disabled: Option<Map<String, Value>>,
    /// Whether to speak OpenAI's Responses API, which keeps the reasoning of a model from turn to turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_responses_api: Option<bool>,
    /// Shape of Responses API answers: `responses/v1` keeps them as content blocks with their reasoning among them; without
    /// it their content is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_version: Option<String>,
    /// Longest silence within a streamed answer, in seconds. 240 unless set (Codex: 300).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub stream_chunk_timeout: Option<f64>,
    /// What it costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pricing: Option<Pricing>,
    /// The key; write `$NAME` to take it from that environment variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-aliases" = ["openai_api_key", "anthropic_api_key"]))]
    pub api_key: Option<Secret>,
    /// The endpoint, up to and without the method's path: `https://api.openai.com/v1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-aliases" = ["api_base", "openai_api_base", "anthropic_api_url"]))]
    pub base_url: Option<String>,
    /// Longest answer, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
    /// Randomness of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2))]
    pub temperature: Option<f64>,
    /// Longest wait for a whole request, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("x-aliases" = ["request_timeout", "default_request_timeout"]))]
    pub timeout: Option<f64>,
    /// How often a failed request is made again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// The models that answer in its place, in this order, when its provider is down, out of quota, refuses the key or does
    /// not know it. Their own `fallbacks` count too, each right after its model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<String>,
    /// Whose quirks its server has (`vllm`, `deepseek` …), where neither `use` nor the address tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quirks: Option<String>,
    /// How it writes its tool calls; unset, as its server is known to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_format: Option<ToolCallFormat>,
    /// Further HTTP headers.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, Secret>", extend("x-aliases" = ["default_headers", "extra_headers"]))]
    pub headers: IndexMap<String, Secret>,
    /// Further keys of the request body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_body: Option<Map<String, Value>>,
    /// What this entry names and the environment lacks, as `key=VARIABLE`; set by the loader.
    #[serde(default, rename = "$unset", skip_serializing)]
    #[schemars(skip)]
    pub unset: Vec<String>,
    /// All other keys, for the provider.
    #[serde(flatten)]
    pub extras: Extras,
}

/// Keys that providers are known to take; no need to remark on them.
const KNOWN_EXTRAS: &[&str] = &[
    "top_p",
    "top_k",
    "min_p",
    "n",
    "seed",
    "stop",
    "stop_sequences",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "max_completion_tokens",
    "reasoning",
    "reasoning_effort",
    "reasoning_format",
    "verbosity",
    "num_predict",
    "num_ctx",
    "num_gpu",
    "keep_alive",
    "format",
    "organization",
    "user",
    "metadata",
    "store",
    "service_tier",
    "model_kwargs",
    "stream_usage",
    "streaming",
    "stream_options",
    "parallel_tool_calls",
    "betas",
    "thinking_budget",
    "enable_prompt_caching",
    "prompt_cache_size",
    "prompt_cache_key",
    "auto_thinking_budget",
    "cumulative_stream_usage",
    "include",
    "truncation",
    "rules",
    "recording",
    "disable_streaming",
    "stream",
    "connect_timeout",
    "dialect",
    "tool_calls_in_text",
    "record_to",
    "path",
    "gemini_api_key",
    "google_api_key",
    "max_output_tokens",
    "thinking_level",
    "include_thoughts",
    "safety_settings",
    "cached_content",
    "generation_config",
    "tool_config",
    "labels",
    "media_resolution",
    "response_mime_type",
    "response_modalities",
    "response_schema",
    "response_json_schema",
    "convert_system_message_to_human",
    "transport",
    "prompt_cache_retention",
    "response_format",
    "safety_identifier",
    "text",
];

/// What a model costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pricing {
    /// ISO code of the currency. All models should have the same.
    #[serde(default = "usd")]
    pub currency: String,
    /// Price of a million input tokens.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub input_per_million: f64,
    /// Price of a million output tokens.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub output_per_million: f64,
    /// Price of a million input tokens that the provider had cached; as uncached when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub input_cache_hit_per_million: Option<f64>,
    /// Price of a million input tokens that the provider put into its cache; as uncached when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub input_cache_write_per_million: Option<f64>,
    /// Price of a million output tokens spent on reasoning; as other output when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub output_reasoning_per_million: Option<f64>,
}

fn usd() -> String {
    "USD".to_owned()
}

/// Keys of a profile that go to the provider unread. `Debug` redacts secrets.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Extras(pub Map<String, Value>);

impl fmt::Debug for Extras {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = Value::Object(self.0.clone());
        redact_value(&mut value);
        write!(f, "{value}")
    }
}

impl ModelProfile {
    /// The provider that `use` names.
    ///
    /// # Errors
    /// [`ProviderError`] when there is none of that name or it is not supported yet.
    pub fn provider(&self) -> Result<&'static Provider, ProviderError> {
        resolve_provider(&self.use_)
    }

    /// Why it cannot be used, if so: an unset variable, a provider that is not there.
    pub fn unusable(&self) -> Option<String> {
        if let Some(unset) = self.unset.first() {
            let (key, variable) = unset.split_once('=').unwrap_or((unset, unset));
            return Some(format!(
                "model `{}` cannot be used: its `{key}` is `${variable}`, and that environment variable is not set",
                self.name
            ));
        }
        let error = self.provider().err()?;
        Some(format!("model `{}` cannot be used: {error} (hint: {})", self.name, error.help()))
    }

    /// The endpoint to call, without a slash at the end: `base_url`, else the provider's own. An Ollama address without a
    /// path is that of its native API; the OpenAI-compatible one is below `/v1`.
    pub fn effective_base_url(&self) -> Option<String> {
        let provider = self.provider().ok();
        let url = self.base_url.as_deref().or(provider?.default_base_url)?.trim_end_matches('/');
        let host = url.split_once("://").map_or(url, |(_, rest)| rest);
        let native = provider.is_some_and(|provider| provider.name == "ollama") && !host.contains('/');
        Some(if native { format!("{url}/v1") } else { url.to_owned() })
    }

    /// The name to show: `display_name`, else `name`.
    pub fn label(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }

    /// Keys that no provider is known to take, each with the known one that was probably meant.
    pub fn unknown_keys(&self) -> Vec<(String, Option<String>)> {
        let strange: Vec<&String> = self.extras.0.keys().filter(|key| !KNOWN_EXTRAS.contains(&key.as_str())).collect();
        if strange.is_empty() {
            return Vec::new();
        }
        let schema = schemars::schema_for!(Self).to_value();
        let properties = schema.get("properties").and_then(Value::as_object);
        let own = properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str));
        let known: Vec<&str> = own.chain(KNOWN_EXTRAS.iter().copied()).collect();
        let near = |key: &str| nearest(key, known.iter().copied()).map(str::to_owned);
        strange.into_iter().map(|key| (key.clone(), near(key))).collect()
    }

    fn lacks(&self, key: &str) -> bool {
        self.unset.iter().any(|unset| unset.split_once('=').is_some_and(|(name, _)| name == key))
    }
}

impl Section for ModelsSection {
    const KEY: &'static str = "models";
    const ENTRIES_MAY_LACK_VARIABLES: bool = true;

    fn validate(&self, problems: &mut Problems) {
        let mut names = BTreeSet::new();
        for (index, model) in self.0.iter().enumerate() {
            let entry = KeyPath::root().index(index);
            let local = matches!(model.use_.as_str(), "offline" | "replay");
            for (key, value) in [("name", &model.name), ("use", &model.use_), ("model", &model.model)] {
                let optional = key == "model" && local;
                if value.is_empty() && !optional && !model.lacks(key) {
                    let of = if model.name.is_empty() { String::new() } else { format!(" of `{}`", model.name) };
                    let help =
                        format!("each model needs `name`, `use` and `model`, for example `{key}: {}`", example(key));
                    problems.error(entry.clone(), format!("missing key `{key}`{of}"), Some(help));
                }
            }
            if !model.name.is_empty() && !names.insert(&model.name) {
                let message = format!("there is a model `{}` already", model.name);
                problems.error(entry.key("name"), message, Some("names of models are unique".to_owned()));
            }
            if !model.use_.is_empty() {
                match model.provider() {
                    Ok(provider) if provider.default_base_url.is_none() && !local => {
                        if model.base_url.is_none() && !model.lacks("base_url") {
                            let message = format!("missing key `base_url` of `{}`", model.name);
                            problems.error(
                                entry.clone(),
                                message,
                                Some(format!("`{}` has no default endpoint", provider.name)),
                            );
                        }
                    }
                    Ok(_) => {}
                    Err(error @ ProviderError::Unsupported { .. }) => {
                        problems.unusable(entry.key("use"), error.to_string(), Some(error.help()));
                    }
                    Err(error @ ProviderError::Unknown { .. }) => {
                        problems.error(entry.key("use"), error.to_string(), Some(error.help()));
                    }
                }
            }
            fallbacks::validate(&self.0, index, problems);
            if let Some(url) = &model.base_url
                && !url.starts_with("http://")
                && !url.starts_with("https://")
            {
                let help = "an endpoint starts with `http://` or `https://`".to_owned();
                let shown = crate::redact::without_password(url).unwrap_or_else(|| url.clone());
                problems.error(entry.key("base_url"), format!("not the address of an endpoint: {shown:?}"), Some(help));
            }
        }
    }
}

fn example(key: &str) -> &'static str {
    match key {
        "use" => "openai",
        "model" => "gpt-5",
        _ => "main",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// BR-027
    #[test]
    fn keys_that_nobody_knows_are_found_with_the_one_that_was_meant() {
        let profile = json!({"name": "m", "baseurl": "x", "seed": 1, "reasoning_efort": "low", "qqqqqqq": 1});
        let profile: ModelProfile = serde_json::from_value(profile).unwrap();
        let mut found = profile.unknown_keys();
        found.sort();
        let near = |key: &str, near: Option<&str>| (key.to_owned(), near.map(str::to_owned));
        assert_eq!(
            found,
            [
                near("baseurl", Some("base_url")),
                near("qqqqqqq", None),
                near("reasoning_efort", Some("reasoning_effort"))
            ]
        );
    }

    #[test]
    fn rates_of_their_own_are_read_and_absent_ones_stay_absent() {
        let pricing: Pricing =
            serde_json::from_value(json!({"input_per_million": 1, "output_reasoning_per_million": 4})).unwrap();
        assert_eq!((pricing.currency.as_str(), pricing.output_reasoning_per_million), ("USD", Some(4.0)));
        assert_eq!((pricing.input_cache_hit_per_million, pricing.input_cache_write_per_million), (None, None));
        assert!(serde_json::from_value::<Pricing>(json!({"input_cache_write": 1})).is_err());
    }
}
