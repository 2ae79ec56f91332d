//! From a profile to a model.

use crate::anthropic::AnthropicModel;
use crate::codex::{CodexModel, Credentials};
use crate::construct::{Construction, ModelOverrides, bad, construct};
use crate::errors::ErrorContext;
use crate::exchange::Endpoint;
use crate::gemini::{self, GeminiModel};
use crate::openai::OpenAiModel;
use crate::quirks;
use crate::record::Recorder;
use crate::replay::Replay;
use crate::responses::ResponsesModel;
use crate::settings::{Settings, Timeouts};
use crate::transport::{HttpTransport, Transport};
use deerflow_config::{ModelProfile, Provider, ProviderKind, Secret, resolve_provider};
use deerflow_core::{ChatModel, ModelError, ModelErrorKind};
use deerflow_net::reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use url::Url;

/// Looks up an environment variable.
pub type EnvLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Makes the model that `profile` describes. Nothing is sent yet.
///
/// The key is the profile's, else the one in the provider's variable. A profile with `record_to` writes its exchanges to that
/// file; one with `use: replay` and `path` answers from such a file.
///
/// # Errors
/// - [`ModelErrorKind::Auth`]: a key is needed and there is none, or a `$VARIABLE` of the profile is not set.
/// - [`ModelErrorKind::BadRequest`]: the profile cannot be used as it is (provider, address, header, recording), or it is
///   that of the offline model, which is made elsewhere.
pub fn create_chat_model(profile: &ModelProfile, env: EnvLookup<'_>) -> Result<Arc<dyn ChatModel>, ModelError> {
    create(profile, &ModelOverrides::default(), env, None)
}

/// The same with what the caller (an agent of its own settings, say) wants otherwise than the profile says.
///
/// # Errors
/// As [`create_chat_model`]; and [`ModelErrorKind::BadRequest`] when thinking is required of a profile that has settings for
/// it and does not say that it can think.
pub fn create_chat_model_with(
    profile: &ModelProfile,
    overrides: &ModelOverrides,
    env: EnvLookup<'_>,
) -> Result<Arc<dyn ChatModel>, ModelError> {
    create(profile, overrides, env, None)
}

/// The same over a transport of one's own, in place of HTTP.
///
/// # Errors
/// As [`create_chat_model`].
pub fn create_chat_model_over(
    profile: &ModelProfile,
    env: EnvLookup<'_>,
    transport: Arc<dyn Transport>,
) -> Result<Arc<dyn ChatModel>, ModelError> {
    create(profile, &ModelOverrides::default(), env, Some(transport))
}

fn create(
    profile: &ModelProfile,
    overrides: &ModelOverrides,
    env: EnvLookup<'_>,
    transport: Option<Arc<dyn Transport>>,
) -> Result<Arc<dyn ChatModel>, ModelError> {
    if let Some(why) = profile.unusable() {
        let kind = if profile.unset.is_empty() { ModelErrorKind::BadRequest } else { ModelErrorKind::Auth };
        return Err(ModelError::new(kind, why));
    }
    let made = construct(profile, overrides)?;
    made.report();
    match made.provider.kind {
        ProviderKind::OpenAi | ProviderKind::Anthropic | ProviderKind::Gemini | ProviderKind::Codex => {
            over_http(&made, env, transport)
        }
        ProviderKind::Replay => replay(profile),
        ProviderKind::Offline => Err(bad(profile, "the offline model is built in and not made from a provider")),
    }
}

fn text_extra<'p>(profile: &'p ModelProfile, key: &str) -> Option<&'p str> {
    profile.extras.0.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn replay(profile: &ModelProfile) -> Result<Arc<dyn ChatModel>, ModelError> {
    let path = text_extra(profile, "path")
        .ok_or_else(|| bad(profile, "`use: replay` needs `path`, the file that was recorded"))?;
    let (mut recorded, replay) = Replay::load(Path::new(path))?;
    recorded.name.clone_from(&profile.name);
    // Keys are not recorded and not needed.
    recorded.api_key = Some(Secret::from("replay"));
    recorded.headers.clear();
    recorded.unset.clear();
    let provider = recorded.provider().map_err(|error| bad(profile, &format!("the recording is of {error}")))?;
    if matches!(provider.kind, ProviderKind::Replay | ProviderKind::Offline) {
        return Err(bad(profile, "the recording is not of a provider"));
    }
    over_http(&construct(&recorded, &ModelOverrides::default())?, &|_| None, Some(Arc::new(replay)))
}

fn over_http(
    made: &Construction,
    env: EnvLookup<'_>,
    transport: Option<Arc<dyn Transport>>,
) -> Result<Arc<dyn ChatModel>, ModelError> {
    let (profile, provider) = (&made.profile, made.provider);
    let base = profile.effective_base_url().ok_or_else(|| bad(profile, "it has no `base_url`"))?;
    let base: Url = base.parse().map_err(|error| bad(profile, &format!("`base_url` is not an address: {error}")))?;
    if base.cannot_be_a_base() || !matches!(base.scheme(), "http" | "https") {
        return Err(bad(profile, "`base_url` has to start with `http://` or `https://`"));
    }
    let suffix = match provider.kind {
        ProviderKind::Anthropic => "v1/messages",
        ProviderKind::Codex => "responses",
        ProviderKind::OpenAi if made.responses => "responses",
        _ => "chat/completions",
    };
    let mut settings = Settings::of(made);
    let url = match provider.kind {
        ProviderKind::Gemini => gemini::address(&base, &profile.model, settings.streaming)
            .ok_or_else(|| bad(profile, "`base_url` cannot have a path"))?,
        _ => method_url(&without_method(base.clone(), suffix), suffix),
    };
    let quirks = match profile.quirks.as_deref().or_else(|| text_extra(profile, "dialect")) {
        Some(name) => quirks::named(name)
            .map_err(|hint| bad(profile, &format!("there are no quirks {name:?}")).with_hint(hint))?,
        None => quirks::choose(provider.dialect(), &base, &profile.model),
    };
    let variables = key_variables(provider, quirks.name);
    let key = key(profile, &variables, env);
    let mut secrets: Vec<_> = profile.headers.values().map(Secret::to_secret_string).collect();
    secrets.extend(key.as_ref().map(Secret::to_secret_string));
    let (shown, password) = without_user(&url);
    secrets.extend(password.map(Into::into));
    let errors = ErrorContext {
        name: profile.name.clone(),
        model: profile.model.clone(),
        url: shown,
        key_variable: variables.first().copied(),
        has_key: key.is_some(),
        secrets,
    };
    let own_service =
        profile.base_url.is_none() && provider.default_base_url.is_some_and(|url| url.starts_with("https"));
    if key.is_none() && own_service && provider.kind != ProviderKind::Codex {
        return Err(errors.error(ModelErrorKind::Auth, "there is no key").with_hint(errors.key_hint()));
    }
    // The tokens of a subscription take no marks for the cache.
    settings.prompt_caching &= !key.as_ref().is_some_and(|key| is_subscription(key.expose()));
    let headers = headers(profile, provider.kind, &url, key.as_ref())?;
    let timeouts = Timeouts::new(profile);
    let mut transport = transport.unwrap_or_else(|| Arc::new(HttpTransport::new(timeouts.connect, errors.clone())));
    if let Some(path) = text_extra(profile, "record_to") {
        transport = Arc::new(Recorder::new(transport, &PathBuf::from(path), profile, errors.clone()));
    }
    let endpoint = Arc::new(Endpoint {
        transport,
        errors,
        chunk_timeout: timeouts.chunk,
        total_timeout: timeouts.total,
        // Codex streams, whatever the profile says.
        streaming: settings.streaming || provider.kind == ProviderKind::Codex,
    });
    Ok(match provider.kind {
        ProviderKind::Anthropic => Arc::new(AnthropicModel { settings, url, headers, endpoint }),
        ProviderKind::Gemini => Arc::new(GeminiModel { settings, url, headers, endpoint }),
        ProviderKind::Codex => {
            let credentials = Credentials::find(key.as_ref(), env, &profile.name)?;
            Arc::new(CodexModel::new(settings, url, headers, endpoint, credentials))
        }
        _ if made.responses => Arc::new(ResponsesModel { settings, url, headers, endpoint }),
        _ => Arc::new(OpenAiModel { settings, quirks, url, headers, endpoint }),
    })
}

/// The address without its user and password, and the secret among them: a user without a password is a token.
fn without_user(url: &Url) -> (Url, Option<String>) {
    let mut shown = url.clone();
    // These fail only for addresses that cannot have a user.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    let user = Some(url.username()).filter(|user| !user.is_empty());
    (shown, url.password().or(user).map(str::to_owned))
}

/// `base` without the method of chat completions, which people copy along, where another one is to be called.
fn without_method(mut base: Url, suffix: &str) -> Url {
    let path = base.path().trim_end_matches('/');
    if suffix == "responses"
        && let Some(path) = path.strip_suffix("/chat/completions").map(str::to_owned)
    {
        base.set_path(&path);
    }
    base
}

/// The address of a method below `base`, unless `base` is it already. A query (`api-version`) stays.
fn method_url(base: &Url, suffix: &str) -> Url {
    let mut url = base.clone();
    let path = base.path().trim_end_matches('/');
    let method = suffix.rsplit_once("v1/").map_or(suffix, |(_, method)| method);
    let path = if path.ends_with(method) {
        path.to_owned()
    } else if path.ends_with("/v1") {
        format!("{path}/{method}")
    } else {
        format!("{path}/{suffix}")
    };
    url.set_path(&path);
    url
}

/// The variables that may hold the key, first the one that belongs to the host: a key of OpenAI is of no use elsewhere, and
/// people who write `use: openai` for another service have its own key set.
fn key_variables(provider: &'static Provider, quirks: &str) -> Vec<&'static str> {
    let of_host = match quirks {
        // Both are in use; the first is the one that error texts name.
        _ if provider.kind == ProviderKind::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        _ if provider.kind != ProviderKind::OpenAi || quirks == provider.name => &[][..],
        "gemini" => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        "mistral" => &["MISTRAL_API_KEY"],
        other => match resolve_provider(other).ok().and_then(|provider| provider.key_variable.as_ref()) {
            Some(variable) => std::slice::from_ref(variable),
            None => &[],
        },
    };
    let own = provider.key_variable.filter(|name| !of_host.contains(name));
    of_host.iter().copied().chain(own).collect()
}

fn key(profile: &ModelProfile, variables: &[&str], env: EnvLookup<'_>) -> Option<Secret> {
    let usable = |key: &Secret| !key.expose().trim().is_empty();
    let other =
        || ["gemini_api_key", "google_api_key"].iter().find_map(|key| text_extra(profile, key)).map(Secret::from);
    let variable = || variables.iter().find_map(|name| env(name).map(Secret::from).filter(usable));
    profile.api_key.clone().filter(usable).or_else(other).or_else(variable)
}

/// Whether a key is the token of a Claude subscription.
fn is_subscription(key: &str) -> bool {
    key.trim().starts_with("sk-ant-oat")
}

fn headers(
    profile: &ModelProfile,
    kind: ProviderKind,
    url: &Url,
    key: Option<&Secret>,
) -> Result<HeaderMap, ModelError> {
    let mut headers = HeaderMap::new();
    let secret = |text: &str| {
        let mut value = HeaderValue::try_from(text).map_err(|_| {
            bad(profile, "the key holds characters that no key has").with_hint("is there a line break in it?")
        })?;
        value.set_sensitive(true);
        Ok::<_, ModelError>(value)
    };
    if kind == ProviderKind::Codex {
        // Who asks is said with each request: the login changes while we run.
        headers.insert("openai-beta", HeaderValue::from_static("responses=experimental"));
        headers.insert("originator", HeaderValue::from_static("deerflow"));
        headers.insert("accept", HeaderValue::from_static("text/event-stream"));
    } else if let Some(key) = key.map(|key| key.expose().trim()) {
        // A token of a subscription is a bearer token, also at Anthropic.
        let token = is_subscription(key);
        if kind == ProviderKind::Anthropic && !token {
            headers.insert("x-api-key", secret(key)?);
        // A token of Google's login is a bearer token.
        } else if kind == ProviderKind::Gemini && !key.starts_with("ya29.") {
            headers.insert("x-goog-api-key", secret(key)?);
        } else {
            headers.insert(AUTHORIZATION, secret(&format!("Bearer {key}"))?);
        }
        if url.host_str().is_some_and(|host| host.ends_with(".azure.com")) {
            headers.insert("api-key", secret(key)?);
        }
        if token {
            headers.insert("anthropic-beta", HeaderValue::from_static("oauth-2025-04-20"));
        }
    }
    if kind == ProviderKind::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        let betas = match profile.extras.0.get("betas") {
            Some(Value::Array(betas)) => betas.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
            Some(Value::String(betas)) => betas.clone(),
            _ => String::new(),
        };
        if !betas.is_empty() {
            let own = headers.get("anthropic-beta").and_then(|value| value.to_str().ok()).map(|own| format!("{own},"));
            headers.insert("anthropic-beta", secret(&format!("{}{betas}", own.unwrap_or_default()))?);
        }
    }
    if let Some(organization) = text_extra(profile, "organization") {
        headers.insert("openai-organization", secret(organization)?);
    }
    for (name, value) in &profile.headers {
        let header = HeaderName::try_from(name.as_str());
        let (Ok(header), Ok(mut value)) = (header, HeaderValue::try_from(value.expose())) else {
            return Err(bad(profile, &format!("the header {name:?} cannot be sent: its name or value is not allowed")));
        };
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests;
