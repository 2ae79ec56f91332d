//! From a profile to what an adapter is made of: the rules of construction.

use crate::responses::request::WITHOUT_COUNTERPART;
use crate::settings::{lift_extra_body, merge, object};
use deerflow_config::{ModelProfile, Provider, ProviderKind};
use deerflow_core::{JsonMap, ModelError, ModelErrorKind};
use serde_json::{Value, json};

/// What a caller wants otherwise than the profile says. What is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelOverrides {
    /// Randomness of the answer.
    pub temperature: Option<f64>,
    /// Longest answer, in tokens.
    pub max_tokens: Option<u32>,
    /// Whether the caller is going to ask for thinking and cannot do without: a profile with settings for thinking that
    /// does not say `supports_thinking` is refused then, instead of not thinking.
    pub require_thinking: bool,
}

/// A profile after all rules.
#[derive(Debug)]
pub(crate) struct Construction {
    pub(crate) profile: ModelProfile,
    pub(crate) provider: &'static Provider,
    /// Whether to speak Responses instead of chat completions.
    pub(crate) responses: bool,
    /// Body keys that are always sent.
    pub(crate) body: JsonMap,
    /// Body keys when thinking is on; empty when the profile says nothing.
    pub(crate) thinking_on: JsonMap,
    /// Body keys when thinking is off; empty when the profile says nothing.
    pub(crate) thinking_off: JsonMap,
    /// Whether those of `thinking_off` are the counterpart of what turns thinking on, not the profile's own.
    pub(crate) off_is_derived: bool,
    /// What the user should know, one sentence each.
    pub(crate) remarks: Vec<String>,
}

/// Longest silence within a reply, in seconds, unless the profile says otherwise.
const SILENCE: f64 = 240.0;
/// The same for Codex, which is silent while it thinks.
const CODEX_SILENCE: f64 = 300.0;

/// The same for MindIE, whose replies come whole when there are tools.
const MINDIE_SILENCE: f64 = 900.0;
/// Longest wait for a connection to MindIE, in seconds.
const MINDIE_CONNECT: f64 = 30.0;

/// The `output_version` that keeps answers as content blocks.
pub(crate) const BLOCKS: &str = "responses/v1";
const VERSIONS: &[&str] = &["v0", BLOCKS];

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
    "max_output_tokens",
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

/// Applies the rules, each of which may rely on those before it.
///
/// # Errors
/// [`ModelErrorKind::BadRequest`] when the provider is not there, or thinking is required and cannot be had.
pub(crate) fn construct(profile: &ModelProfile, overrides: &ModelOverrides) -> Result<Construction, ModelError> {
    // 1. Which adapter. Which profile (the first, or the named one) was chosen before, by the catalogue.
    let provider = profile.provider().map_err(|error| bad(profile, &error.to_string()).with_hint(error.help()))?;
    // 2. What goes to the provider: all but what only steers us.
    let mut made = Construction {
        body: body_keys(profile),
        thinking_on: JsonMap::new(),
        thinking_off: JsonMap::new(),
        off_is_derived: false,
        remarks: Vec::new(),
        profile: profile.clone(),
        responses: provider.kind == ProviderKind::OpenAi && wants_responses(profile),
        provider,
    };
    made.apply(overrides); // 3
    made.turn_thinking_on(overrides.require_thinking)?; // 4
    made.turn_thinking_off(); // 5
    made.drop_effort(); // 6
    made.rename_api_base(); // 7
    made.bound_silence(); // 8
    made.fit_codex(); // 9
    made.fit_mindie(); // 10
    made.ask_for_usage(); // 11
    made.remark_on_keys(); // 12
    Ok(made)
}

impl Construction {
    /// 3. The caller's wishes over the profile's.
    fn apply(&mut self, overrides: &ModelOverrides) {
        if let Some(temperature) = overrides.temperature {
            self.profile.temperature = Some(temperature);
            self.body.insert("temperature".into(), json!(temperature));
        }
        if let Some(max_tokens) = overrides.max_tokens {
            self.profile.max_tokens = Some(max_tokens);
        }
    }

    /// 4. What is sent when thinking is on: over everything before, so that a temperature which thinking needs holds. Keys
    ///    of `extra_body` count one by one, since on the wire they stand beside the others.
    fn turn_thinking_on(&mut self, required: bool) -> Result<(), ModelError> {
        let enabled = enabled_settings(&self.profile);
        if !enabled.is_empty() && !self.profile.supports_thinking {
            let what = "it has settings for thinking and does not say that it can think";
            if required {
                return Err(bad(&self.profile, what).with_hint("set `supports_thinking: true`"));
            }
            self.remarks.push(format!("{what}: they have no effect without `supports_thinking: true`"));
        }
        self.thinking_on = lift_extra_body(enabled);
        Ok(())
    }

    /// 5. What is sent when thinking is off: what the profile says, else the counterpart of what turns it on.
    fn turn_thinking_off(&mut self) {
        if let Some(explicit) = &self.profile.when_thinking_disabled {
            self.thinking_off = lift_extra_body(explicit.clone());
            return;
        }
        self.off_is_derived = true;
        let enabled = enabled_settings(&self.profile);
        let extra = enabled.get("extra_body");
        if extra.and_then(|extra| extra.pointer("/thinking/type")).is_some() {
            // Services of this kind refuse a thinking effort without thinking.
            self.thinking_off = object(json!({"thinking": {"type": "disabled"}, "reasoning_effort": "minimal"}));
            return;
        }
        if let Some(Value::Object(template)) = extra.and_then(|extra| extra.get("chat_template_kwargs")) {
            let off: JsonMap = ["thinking", "enable_thinking"]
                .iter()
                .filter(|key| template.contains_key(**key))
                .map(|key| ((*key).to_owned(), Value::Bool(false)))
                .collect();
            if !off.is_empty() {
                self.thinking_off = object(json!({ "chat_template_kwargs": off }));
                return;
            }
        }
        if let Some(Value::Bool(_)) = extra.and_then(|extra| extra.get("enable_thinking")) {
            self.thinking_off = object(json!({"enable_thinking": false}));
        } else if enabled.get("thinking").and_then(|thinking| thinking.get("type")).is_some() {
            self.thinking_off = object(json!({"thinking": {"type": "disabled"}}));
        }
    }

    /// 6. No effort for a model that does not take it, wherever it came from: profile, step 4 or step 5.
    fn drop_effort(&mut self) {
        if self.profile.supports_reasoning_effort {
            return;
        }
        for map in [&mut self.profile.extras.0, &mut self.body, &mut self.thinking_on, &mut self.thinking_off] {
            map.remove("reasoning_effort");
        }
    }

    /// 7. `api_base` is another name of `base_url`, which wins. A file's loader has done this; other profiles come here.
    fn rename_api_base(&mut self) {
        if !self.openai_family() {
            return;
        }
        for key in ["api_base", "openai_api_base"] {
            self.body.remove(key);
            let Some(Value::String(url)) = self.profile.extras.0.remove(key) else { continue };
            if self.profile.base_url.is_none() {
                self.profile.base_url = Some(url);
            } else {
                self.remarks.push(format!("`{key}` is another name of `base_url`, which is set too and wins"));
            }
        }
    }

    /// 8. Every reply has a longest silence.
    fn bound_silence(&mut self) {
        let default = match (self.provider.kind, self.provider.name) {
            (ProviderKind::Codex, _) => CODEX_SILENCE,
            (_, "mindie") => MINDIE_SILENCE,
            _ => SILENCE,
        };
        self.profile.stream_chunk_timeout.get_or_insert(default);
    }

    /// 9. Codex bounds its answers itself and refuses a bound of ours. Its effort is chosen with each request.
    fn fit_codex(&mut self) {
        if self.provider.kind != ProviderKind::Codex {
            return;
        }
        self.profile.max_tokens = None;
        for map in [&mut self.profile.extras.0, &mut self.body, &mut self.thinking_on, &mut self.thinking_off] {
            ["max_tokens", "max_completion_tokens", "max_output_tokens"].iter().for_each(|key| drop(map.remove(*key)));
        }
    }

    /// 10. A MindIE server that failed is asked once more, not again and again: it computes on after a client has gone.
    fn fit_mindie(&mut self) {
        if self.provider.name == "mindie" {
            self.profile.max_retries.get_or_insert(1);
            self.profile.extras.0.entry("connect_timeout").or_insert(json!(MINDIE_CONNECT));
        }
    }

    /// 11. Tokens are counted in streams too, unless the profile knows a server that refuses the key.
    fn ask_for_usage(&mut self) {
        if self.provider.kind == ProviderKind::OpenAi {
            self.profile.extras.0.entry("stream_usage").or_insert(json!(true));
        }
    }

    /// 12. Keys that nobody knows are passed on and remarked on, with the one that was probably meant.
    fn remark_on_keys(&mut self) {
        if wants_responses(&self.profile) && !self.openai_family() {
            let provider = self.provider.name;
            self.remarks.push(format!("`use_responses_api` and `output_version` have no effect with `{provider}`"));
        }
        if let Some(version) = self.profile.output_version.as_deref().filter(|version| !VERSIONS.contains(version)) {
            self.remarks.push(format!("`output_version: {version}` is not known: the content of answers is text"));
        }
        let chat = self.provider.kind == ProviderKind::OpenAi && !self.responses;
        let quirks = self.profile.quirks.is_some().then_some("quirks");
        let format = self.profile.tool_call_format.is_some().then_some("tool_call_format");
        for key in [quirks, format].into_iter().flatten().filter(|_| !chat) {
            self.remarks.push(format!("`{key}` is for chat completions and has no effect here"));
        }
        if format.is_some() && self.profile.extras.0.contains_key("tool_calls_in_text") {
            self.remarks.push("`tool_calls_in_text` has no effect beside `tool_call_format`".to_owned());
        }
        if !self.openai_family() {
            return;
        }
        for (key, nearest) in self.profile.unknown_keys() {
            let meant = nearest.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
            self.remarks.push(format!("unknown key `{key}`{meant}; it is passed on as it is"));
        }
        if self.responses || self.provider.kind == ProviderKind::Codex {
            for key in WITHOUT_COUNTERPART.iter().filter(|key| self.body.contains_key(**key)) {
                self.remarks.push(format!("`{key}` has no counterpart in the Responses API and is left out"));
            }
        }
    }

    fn openai_family(&self) -> bool {
        matches!(self.provider.kind, ProviderKind::OpenAi | ProviderKind::Codex)
    }

    /// Says in the log what the user should know.
    pub(crate) fn report(&self) {
        for remark in &self.remarks {
            tracing::warn!(model = %self.profile.name, "{remark}");
        }
    }
}

/// Whether the profile says so, or wants the answers that only Responses give.
fn wants_responses(profile: &ModelProfile) -> bool {
    profile.use_responses_api.unwrap_or(profile.output_version.as_deref() == Some(BLOCKS))
}

pub(crate) fn bad(profile: &ModelProfile, what: &str) -> ModelError {
    ModelError::new(ModelErrorKind::BadRequest, format!("model `{}`: {what}", profile.name))
}

/// Extras, `model_kwargs` and `extra_body` side by side, as they stand on the wire.
fn body_keys(profile: &ModelProfile) -> JsonMap {
    let extras = &profile.extras.0;
    let mut body: JsonMap = extras
        .iter()
        .filter(|(key, value)| !NOT_SENT.contains(&key.as_str()) && !value.is_null())
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
    body
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

#[cfg(test)]
mod tests;
