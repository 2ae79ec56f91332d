//! What a profile says, as the adapters need it.

use deerflow_config::ModelProfile;
use deerflow_core::{JsonMap, ModelInfo};
use serde_json::{Value, json};
use std::time::Duration;

/// Keys that steer us and are not sent.
const NOT_SENT: &[&str] = &[
    "auto_thinking_budget",
    "betas",
    "cache",
    "connect_timeout",
    "cumulative_stream_usage",
    "dialect",
    "disable_streaming",
    "enable_prompt_caching",
    "gemini_api_key",
    "google_api_key",
    "include",
    "max_completion_tokens",
    "model_kwargs",
    "n",
    "organization",
    "path",
    "prompt_cache_size",
    "reasoning_effort",
    "record_to",
    "recording",
    "rules",
    "stream",
    "stream_options",
    "stream_usage",
    "streaming",
    "tags",
    "tool_calls_in_text",
    "truncation",
    "verbose",
];

/// A profile, digested.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) info: ModelInfo,
    pub(crate) streaming: bool,
    /// Whether usage may be asked for within a stream; a few gateways refuse the key.
    pub(crate) stream_usage: bool,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) supports_effort: bool,
    pub(crate) effort: Option<String>,
    /// Body keys that are always sent.
    pub(crate) body: JsonMap,
    /// Body keys when thinking is on; empty when the profile says nothing.
    pub(crate) thinking_on: JsonMap,
    /// Body keys when thinking is off; empty when the profile says nothing.
    pub(crate) thinking_off: JsonMap,
    /// `tool_calls_in_text`, if the profile has it.
    pub(crate) text_calls: Option<bool>,
    pub(crate) prompt_caching: bool,
}

impl Settings {
    pub(crate) fn new(profile: &ModelProfile, provider: &str) -> Self {
        let extras = &profile.extras.0;
        let flag = |key: &str| extras.get(key).and_then(Value::as_bool);
        let mut body: JsonMap = extras
            .iter()
            .filter(|(key, _)| !NOT_SENT.contains(&key.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        if let Some(Value::Object(more)) = extras.get("model_kwargs") {
            merge(&mut body, more);
        }
        if let Some(more) = &profile.extra_body {
            merge(&mut body, more);
        }
        if let Some(temperature) = profile.temperature {
            body.insert("temperature".into(), json!(temperature));
        }
        let enabled = enabled_settings(profile);
        let text_calls = extras.get("tool_calls_in_text").and_then(|value| match value {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) => Some(text == "auto"),
            _ => None,
        });
        Self {
            info: ModelInfo {
                name: profile.name.clone(),
                provider: provider.to_owned(),
                model: profile.model.clone(),
                context_window: profile.context_window.map(|window| u64::from(window.get())),
                supports_vision: profile.supports_vision,
                supports_thinking: profile.supports_thinking,
            },
            streaming: flag("stream").or(flag("streaming")).unwrap_or(true) && flag("disable_streaming") != Some(true),
            stream_usage: flag("stream_usage").unwrap_or(true),
            max_tokens: profile
                .max_tokens
                .map(u64::from)
                .or_else(|| extras.get("max_completion_tokens").and_then(Value::as_u64)),
            supports_effort: profile.supports_reasoning_effort,
            effort: extras.get("reasoning_effort").and_then(Value::as_str).map(str::to_owned),
            thinking_off: disabled_settings(profile, &enabled),
            thinking_on: lift_extra_body(enabled),
            body,
            text_calls,
            prompt_caching: flag("enable_prompt_caching").unwrap_or(true),
        }
    }

    /// The effort to send: the request's, else the one of the thinking settings, else the profile's. `None` for models that
    /// do not take it.
    pub(crate) fn effort_for(&self, asked: Option<&str>, thinking: &JsonMap) -> Option<String> {
        if !self.supports_effort {
            return None;
        }
        let set = thinking.get("reasoning_effort").and_then(Value::as_str).map(str::to_owned);
        asked.map(str::to_owned).or(set).or_else(|| self.effort.clone())
    }
}

/// How long the profile lets things take.
pub(crate) struct Timeouts {
    pub(crate) connect: Option<Duration>,
    pub(crate) chunk: Duration,
    pub(crate) total: Option<Duration>,
}

impl Timeouts {
    pub(crate) fn new(profile: &ModelProfile) -> Self {
        let positive = |seconds: f64| Duration::try_from_secs_f64(seconds).ok().filter(|wait| !wait.is_zero());
        Self {
            connect: profile.extras.0.get("connect_timeout").and_then(Value::as_f64).and_then(positive),
            chunk: profile.stream_chunk_timeout.and_then(positive).unwrap_or(Duration::from_secs(240)),
            total: profile.timeout.and_then(positive),
        }
    }
}

fn enabled_settings(profile: &ModelProfile) -> JsonMap {
    let mut settings = profile.when_thinking_enabled.clone().unwrap_or_default();
    if let Some(thinking) = &profile.thinking {
        let slot = settings.entry("thinking").or_insert_with(|| json!({}));
        if let Value::Object(slot) = slot {
            merge(slot, thinking);
        }
    }
    settings
}

/// What turns thinking off: what the profile says, else the counterpart of what turns it on.
fn disabled_settings(profile: &ModelProfile, enabled: &JsonMap) -> JsonMap {
    if let Some(explicit) = &profile.when_thinking_disabled {
        return lift_extra_body(explicit.clone());
    }
    let extra = enabled.get("extra_body");
    if extra.and_then(|extra| extra.pointer("/thinking/type")).is_some() {
        return object(json!({"thinking": {"type": "disabled"}, "reasoning_effort": "minimal"}));
    }
    if let Some(Value::Object(template)) = extra.and_then(|extra| extra.get("chat_template_kwargs")) {
        let off: JsonMap = ["thinking", "enable_thinking"]
            .iter()
            .filter(|key| template.contains_key(**key))
            .map(|key| ((*key).to_owned(), Value::Bool(false)))
            .collect();
        if !off.is_empty() {
            return object(json!({ "chat_template_kwargs": off }));
        }
    }
    if let Some(Value::Bool(_)) = extra.and_then(|extra| extra.get("enable_thinking")) {
        return object(json!({"enable_thinking": false}));
    }
    if enabled.get("thinking").and_then(|thinking| thinking.get("type")).is_some() {
        return object(json!({"thinking": {"type": "disabled"}}));
    }
    JsonMap::new()
}

/// `extra_body` is how a Python client is told to send further keys; on the wire they stand beside the others.
fn lift_extra_body(mut settings: JsonMap) -> JsonMap {
    if let Some(Value::Object(more)) = settings.remove("extra_body") {
        merge(&mut settings, &more);
    }
    settings
}

/// Merges objects deeply; other values of `more` win.
pub(crate) fn merge(base: &mut JsonMap, more: &JsonMap) {
    for (key, value) in more {
        match (base.get_mut(key), value) {
            (Some(Value::Object(inner)), Value::Object(value)) => merge(inner, value),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

/// The map of a JSON object literal.
pub(crate) fn object(value: Value) -> JsonMap {
    match value {
        Value::Object(map) => map,
        _ => JsonMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn settings(extra: Value) -> Settings {
        let mut base = object(json!({"name": "m", "use": "openai", "model": "x"}));
        merge(&mut base, &object(extra));
        Settings::new(&serde_json::from_value(Value::Object(base)).unwrap(), "openai")
    }

    #[test]
    fn turning_thinking_off_mirrors_what_turns_it_on() {
        let off = |enabled: Value| Value::Object(settings(json!({"when_thinking_enabled": enabled})).thinking_off);
        assert_eq!(
            off(json!({"extra_body": {"thinking": {"type": "enabled"}}})),
            json!({"thinking": {"type": "disabled"}, "reasoning_effort": "minimal"})
        );
        assert_eq!(
            off(json!({"extra_body": {"chat_template_kwargs": {"enable_thinking": true}}})),
            json!({"chat_template_kwargs": {"enable_thinking": false}})
        );
        assert_eq!(
            off(json!({"thinking": {"type": "enabled", "budget_tokens": 1}})),
            json!({"thinking": {"type": "disabled"}})
        );
        assert_eq!(off(json!({"reasoning_effort": "high"})), json!({}));
        let explicit = settings(json!({"when_thinking_disabled": {"extra_body": {"a": 1}}}));
        assert_eq!(Value::Object(explicit.thinking_off), json!({"a": 1}));
    }

    #[test]
    fn thinking_merges_into_the_enabled_settings_and_extra_body_into_the_body() {
        let got = settings(json!({
            "thinking": {"type": "enabled"}, "when_thinking_enabled": {"thinking": {"budget_tokens": 5}},
            "extra_body": {"a": {"b": 1}}, "model_kwargs": {"a": {"c": 2}}, "top_p": 0.5, "record_to": "x", "streaming": false
        }));
        assert_eq!(Value::Object(got.thinking_on), json!({"thinking": {"budget_tokens": 5, "type": "enabled"}}));
        assert_eq!(Value::Object(got.body), json!({"top_p": 0.5, "a": {"c": 2, "b": 1}}));
        assert!(!got.streaming);
    }
}
