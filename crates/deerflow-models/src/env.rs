//! Models that the environment alone offers, for a start without a configuration file.

use crate::factory::EnvLookup;
use deerflow_config::{ModelProfile, Secret};

/// A provider and the variables that offer it.
struct Offer {
    provider: &'static str,
    /// Any of them will do.
    key: &'static [&'static str],
    base_url: &'static str,
    model: &'static str,
    default_model: &'static str,
    vision: bool,
    thinking: bool,
}

/// In order of preference: the first offer is the default model.
const OFFERS: &[Offer] = &[
    Offer {
        provider: "openai",
        key: &["OPENAI_API_KEY"],
        base_url: "OPENAI_BASE_URL",
        model: "OPENAI_MODEL",
        default_model: "gpt-5.4",
        vision: true,
        thinking: false,
    },
    Offer {
        provider: "anthropic",
        key: &["ANTHROPIC_API_KEY"],
        base_url: "ANTHROPIC_BASE_URL",
        model: "ANTHROPIC_MODEL",
        default_model: "claude-sonnet-5",
        vision: true,
        thinking: true,
    },
    Offer {
        provider: "gemini",
        key: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        base_url: "GEMINI_BASE_URL",
        model: "GEMINI_MODEL",
        default_model: "gemini-flash-latest",
        vision: true,
        thinking: true,
    },
    Offer {
        provider: "deepseek",
        key: &["DEEPSEEK_API_KEY"],
        base_url: "DEEPSEEK_BASE_URL",
        model: "DEEPSEEK_MODEL",
        default_model: "deepseek-v4-flash",
        vision: false,
        thinking: true,
    },
    Offer {
        provider: "openrouter",
        key: &["OPENROUTER_API_KEY"],
        base_url: "OPENROUTER_BASE_URL",
        model: "OPENROUTER_MODEL",
        default_model: "openrouter/auto",
        vision: false,
        thinking: false,
    },
    Offer {
        provider: "qwen",
        key: &["DASHSCOPE_API_KEY"],
        base_url: "DASHSCOPE_BASE_URL",
        model: "DASHSCOPE_MODEL",
        default_model: "qwen-plus",
        vision: false,
        thinking: true,
    },
    Offer {
        provider: "moonshot",
        key: &["MOONSHOT_API_KEY"],
        base_url: "MOONSHOT_BASE_URL",
        model: "MOONSHOT_MODEL",
        default_model: "kimi-k2.6",
        vision: true,
        thinking: true,
    },
];

/// The models that environment variables offer, best first.
///
/// Order: `OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, `GEMINI_API_KEY` (or `GOOGLE_API_KEY`), `DEEPSEEK_API_KEY`,
/// `OPENROUTER_API_KEY`, `DASHSCOPE_API_KEY`, `MOONSHOT_API_KEY`, `OLLAMA_HOST`. Each has a `…_BASE_URL` and a `…_MODEL` beside it (`OPENAI_MODEL`). `OPENAI_BASE_URL`
/// alone is enough for a server of one's own that wants no key.
#[must_use]
pub fn models_from_env(env: EnvLookup<'_>) -> Vec<ModelProfile> {
    let get = |name: &str| env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let mut models: Vec<ModelProfile> = Vec::new();
    for offer in OFFERS {
        let key = offer.key.iter().find_map(|name| get(name));
        let base_url = get(offer.base_url);
        if key.is_none() && !(offer.provider == "openai" && base_url.is_some()) {
            continue;
        }
        models.push(ModelProfile {
            name: offer.provider.to_owned(),
            use_: offer.provider.to_owned(),
            model: get(offer.model).unwrap_or_else(|| offer.default_model.to_owned()),
            supports_vision: offer.vision,
            supports_thinking: offer.thinking,
            api_key: key.map(Secret::from),
            base_url,
            ..ModelProfile::default()
        });
    }
    if let Some(host) = get("OLLAMA_HOST") {
        models.push(ModelProfile {
            name: "ollama".to_owned(),
            use_: "ollama".to_owned(),
            model: get("OLLAMA_MODEL").unwrap_or_else(|| "qwen3".to_owned()),
            base_url: Some(ollama_url(&host)),
            ..ModelProfile::default()
        });
    }
    models
}

/// `OLLAMA_HOST` is the address the server listens on: often without scheme or port, and perhaps that of every interface.
fn ollama_url(host: &str) -> String {
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let rest = rest.trim_end_matches('/');
    let rest = rest.strip_prefix("0.0.0.0").map_or_else(|| rest.to_owned(), |tail| format!("127.0.0.1{tail}"));
    let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let bare = !host.contains("://") && !has_port && !rest.contains('/');
    if bare { format!("{scheme}://{rest}:11434") } else { format!("{scheme}://{rest}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn found(variables: &[(&str, &str)]) -> Vec<(String, String, Option<String>)> {
        let env = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        models_from_env(&env).into_iter().map(|model| (model.name, model.model, model.base_url)).collect()
    }

    #[test]
    fn the_order_of_preference_is_fixed_and_variables_override() {
        let variables = [
            ("OLLAMA_HOST", "localhost:11434"),
            ("DEEPSEEK_API_KEY", "d"),
            ("ANTHROPIC_API_KEY", "a"),
            ("OPENAI_API_KEY", "o"),
            ("OPENAI_MODEL", "my-model"),
        ];
        let names: Vec<String> =
            found(&variables).into_iter().map(|(name, model, _)| format!("{name}={model}")).collect();
        assert_eq!(
            names,
            ["openai=my-model", "anthropic=claude-sonnet-5", "deepseek=deepseek-v4-flash", "ollama=qwen3"]
        );
        assert_eq!(found(&[("OPENAI_API_KEY", " ")]), []);
        let own = [("OPENAI_BASE_URL", "http://localhost:8000/v1")];
        assert_eq!(found(&own), [("openai".into(), "gpt-5.4".into(), Some("http://localhost:8000/v1".into()))]);
    }

    #[test]
    fn every_offer_makes_a_model() {
        let env = |name: &str| (name.ends_with("_API_KEY") || name == "OLLAMA_HOST").then(|| "localhost".to_owned());
        let models = models_from_env(&env);
        assert_eq!(models.len(), 8);
        for profile in models {
            assert!(crate::create_chat_model(&profile, &|_| None).is_ok(), "{}", profile.name);
            assert!(!format!("{profile:?}").contains("api_key: Some(\"localhost"), "{profile:?}");
        }
    }

    #[test]
    fn the_address_of_ollama_is_completed() {
        for (host, url) in [
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080"),
            ("box.lan:11434", "http://box.lan:11434"),
            ("https://ollama.example/", "https://ollama.example"),
        ] {
            assert_eq!(ollama_url(host), url);
        }
    }
}
