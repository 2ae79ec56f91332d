//! What a profile says, as the adapters need it.

use crate::construct::{BLOCKS, Construction};
use crate::quirks::ToolCalls;
use deerflow_config::{ModelProfile, ToolCallFormat};
use deerflow_core::{JsonMap, ModelInfo};
use serde_json::Value;
use std::time::Duration;

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
    /// Whether those are the counterpart of what turns thinking on, not the profile's own.
    pub(crate) off_is_derived: bool,
    /// How calls come, if the profile says.
    pub(crate) tool_calls: Option<ToolCalls>,
    pub(crate) prompt_caching: bool,
    /// What a Responses reply should include besides what is needed.
    pub(crate) include: Vec<String>,
    /// Whether the Responses service may cut an overlong history.
    pub(crate) truncation: Option<String>,
    /// Whether a Responses reply is kept as content blocks (`output_version: responses/v1`).
    pub(crate) content_blocks: bool,
}

impl Settings {
    pub(crate) fn of(made: &Construction) -> Self {
        let profile = &made.profile;
        let extras = &profile.extras.0;
        let flag = |key: &str| extras.get(key).and_then(Value::as_bool);
        let number = |key: &str| extras.get(key).and_then(Value::as_u64);
        let text = |key: &str| extras.get(key).and_then(Value::as_str).map(str::to_owned);
        let guessed = extras.get("tool_calls_in_text").and_then(|value| match value {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) => Some(text == "auto"),
            _ => None,
        });
        let tool_calls = match (profile.tool_call_format, guessed) {
            (Some(ToolCallFormat::Native), _) => Some(ToolCalls::Native),
            (Some(format), _) => Some(ToolCalls::Text(format)),
            (None, Some(true)) => Some(ToolCalls::NativeOrText),
            (None, Some(false)) => Some(ToolCalls::Native),
            (None, None) => None,
        };
        let include = extras.get("include").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        Self {
            info: ModelInfo {
                name: profile.name.clone(),
                provider: made.provider.name.to_owned(),
                model: profile.model.clone(),
                context_window: profile.context_window.map(|window| u64::from(window.get())),
                supports_vision: profile.supports_vision,
                supports_thinking: profile.supports_thinking,
                max_retries: profile.max_retries,
            },
            streaming: flag("stream").or(flag("streaming")).unwrap_or(true) && flag("disable_streaming") != Some(true),
            stream_usage: flag("stream_usage").unwrap_or(true),
            max_tokens: profile
                .max_tokens
                .map(u64::from)
                .or_else(|| number("max_completion_tokens"))
                .or_else(|| number("max_output_tokens")),
            supports_effort: profile.supports_reasoning_effort,
            effort: text("reasoning_effort"),
            thinking_off: made.thinking_off.clone(),
            off_is_derived: made.off_is_derived,
            thinking_on: made.thinking_on.clone(),
            body: made.body.clone(),
            tool_calls,
            prompt_caching: flag("enable_prompt_caching").unwrap_or(true),
            include: include.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            truncation: text("truncation"),
            content_blocks: profile.output_version.as_deref() == Some(BLOCKS),
        }
    }

    /// Those of a profile without overrides, for a provider of that name.
    #[cfg(test)]
    pub(crate) fn new(profile: &ModelProfile, provider: &str) -> Self {
        let mut profile = profile.clone();
        if profile.provider().is_err() {
            // Some dialects are no providers.
            profile.use_ = "openai".to_owned();
        }
        let mut settings = Self::of(&crate::construct::construct(&profile, &Default::default()).unwrap());
        settings.info.provider = provider.to_owned();
        settings
    }

    /// The profile's body keys for thinking that is on or off. Turning off is allowed to a model that does not think; it is
    /// what a hybrid one needs.
    pub(crate) fn switch(&self, on: bool) -> JsonMap {
        match (on, self.info.supports_thinking) {
            (true, true) => self.thinking_on.clone(),
            (true, false) => JsonMap::new(),
            (false, _) => self.thinking_off.clone(),
        }
    }

    /// Puts `switch`, which turns thinking on or off, over `body`. What the profile says for it replaces a key of the same
    /// name as it is; what was derived goes into the block of that name, since it only turns something off in there.
    pub(crate) fn put_switch(&self, body: &mut JsonMap, switch: &JsonMap, on: bool) {
        let own = if on { !self.thinking_on.is_empty() } else { !self.off_is_derived && !self.thinking_off.is_empty() };
        if own {
            body.extend(switch.iter().map(|(key, value)| (key.clone(), value.clone())));
        } else {
            merge(body, switch);
        }
    }

    /// The effort to send: the request's, else the one of the thinking settings, else the profile's. `None` for models that
    /// do not take it.
    pub(crate) fn effort_for(&self, asked: Option<&str>, thinking: &JsonMap) -> Option<String> {
        if !self.supports_effort {
            return None;
        }
        let set = thinking.get("reasoning_effort").and_then(Value::as_str).map(str::to_owned);
        // The effort that goes with no thinking stands, whatever a request asks.
        if self.off_is_derived && set.is_some() && *thinking == self.thinking_off {
            return set;
        }
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

/// `extra_body` is how a Python client is told to send further keys; on the wire they stand beside the others.
pub(crate) fn lift_extra_body(mut settings: JsonMap) -> JsonMap {
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
