//! What `use:` of a model may say: short names, and the class paths of the original as aliases of our providers.

use crate::nearest::nearest;

/// The wire protocol a model is spoken to with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProviderKind {
    /// OpenAI chat completions (or the Responses API, if the profile says so), in some dialect.
    OpenAi,
    /// Anthropic messages.
    Anthropic,
    /// Gemini's own interface, `generateContent`.
    Gemini,
    /// OpenAI Responses as the Codex service of a ChatGPT subscription speaks it, with the login of the Codex CLI.
    Codex,
    /// The built-in rule-based model: no network.
    Offline,
    /// Recorded answers: no network.
    Replay,
}

/// A known provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// The short name, which `use:` may give.
    pub name: &'static str,
    /// The protocol.
    pub kind: ProviderKind,
    /// The endpoint when the profile gives none; `None` when it has to.
    pub default_base_url: Option<&'static str>,
    /// The variable that holds the key when the profile gives none.
    pub key_variable: Option<&'static str>,
}

impl Provider {
    /// The name of the protocol's dialect: the quirks to apply. The same as [`Provider::name`].
    pub fn dialect(&self) -> &'static str {
        self.name
    }
}

/// Why `use:` names no provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The original has it and we do not yet.
    #[error("provider `{name}` is not supported yet")]
    Unsupported {
        /// What `use:` says.
        name: String,
        /// What to do instead.
        instead: &'static str,
    },
    /// Nobody has it.
    #[error("unknown provider `{name}`{}", .nearest.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// What `use:` says.
        name: String,
        /// The known name that comes nearest.
        nearest: Option<&'static str>,
    },
}

impl ProviderError {
    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            Self::Unsupported { instead, .. } => (*instead).to_owned(),
            Self::Unknown { .. } => {
                let names: Vec<_> = provider_names().map(|name| format!("`{name}`")).collect();
                format!(
                    "known providers: {}; for any other OpenAI-compatible server use `openai` and set `base_url`",
                    names.join(", ")
                )
            }
        }
    }
}

const fn openai(name: &'static str, url: &'static str, key: &'static str) -> Provider {
    Provider { name, kind: ProviderKind::OpenAi, default_base_url: Some(url), key_variable: Some(key) }
}

const PROVIDERS: &[Provider] = &[
    openai("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    Provider {
        name: "anthropic",
        kind: ProviderKind::Anthropic,
        default_base_url: Some("https://api.anthropic.com"),
        key_variable: Some("ANTHROPIC_API_KEY"),
    },
    Provider {
        name: "gemini",
        kind: ProviderKind::Gemini,
        default_base_url: Some("https://generativelanguage.googleapis.com/v1beta"),
        key_variable: Some("GEMINI_API_KEY"),
    },
    openai("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    openai("vllm", "http://localhost:8000/v1", "VLLM_API_KEY"),
    openai("ollama", "http://localhost:11434/v1", "OLLAMA_API_KEY"),
    openai("qwen", "https://dashscope.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
    openai("moonshot", "https://api.moonshot.cn/v1", "MOONSHOT_API_KEY"),
    openai("minimax", "https://api.minimax.io/v1", "MINIMAX_API_KEY"),
    openai("mimo", "https://api.xiaomimimo.com/v1", "MIMO_API_KEY"),
    openai("stepfun", "https://api.stepfun.com/v1", "STEPFUN_API_KEY"),
    Provider { name: "mindie", kind: ProviderKind::OpenAi, default_base_url: None, key_variable: None },
    openai("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    Provider {
        name: "codex",
        kind: ProviderKind::Codex,
        default_base_url: Some("https://chatgpt.com/backend-api/codex"),
        key_variable: None,
    },
    Provider { name: "offline", kind: ProviderKind::Offline, default_base_url: None, key_variable: None },
    Provider { name: "replay", kind: ProviderKind::Replay, default_base_url: None, key_variable: None },
];

/// Other names of the above. Class paths are the original's.
const ALIASES: &[(&str, &str)] = &[
    ("langchain_openai:ChatOpenAI", "openai"),
    ("deerflow.models.patched_openai:PatchedChatOpenAI", "openai"),
    ("openai-compatible", "openai"),
    ("langchain_anthropic:ChatAnthropic", "anthropic"),
    ("deerflow.models.claude_provider:ClaudeChatModel", "anthropic"),
    ("claude", "anthropic"),
    ("langchain_google_genai:ChatGoogleGenerativeAI", "gemini"),
    ("google_genai", "gemini"),
    ("google", "gemini"),
    ("langchain_deepseek:ChatDeepSeek", "deepseek"),
    ("deerflow.models.patched_deepseek:PatchedChatDeepSeek", "deepseek"),
    ("deerflow.models.vllm_provider:VllmChatModel", "vllm"),
    ("langchain_ollama:ChatOllama", "ollama"),
    ("langchain_qwq:ChatQwen", "qwen"),
    ("langchain_qwq:ChatQwQ", "qwen"),
    ("dashscope", "qwen"),
    ("kimi", "moonshot"),
    ("langchain_moonshot:ChatMoonshot", "moonshot"),
    ("deerflow.models.patched_minimax:PatchedChatMiniMax", "minimax"),
    ("deerflow.models.patched_mimo:PatchedChatMiMo", "mimo"),
    ("deerflow.models.patched_stepfun:PatchedChatStepFun", "stepfun"),
    ("deerflow.models.mindie_provider:MindIEChatModel", "mindie"),
    ("langchain_openrouter:ChatOpenRouter", "openrouter"),
    ("deerflow.models.openai_codex_provider:CodexChatModel", "codex"),
];

/// What files of the original may name and we cannot do yet, and what to use instead.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("langchain_google_vertexai:ChatVertexAI", VERTEX),
    ("langchain_openai:AzureChatOpenAI", "use `openai` with the `base_url` of the deployment's OpenAI v1 endpoint"),
    ("langchain_aws:ChatBedrockConverse", "use `openai` with the `base_url` of an OpenAI-compatible gateway"),
];
const VERTEX: &str = "use `gemini` with a Gemini `api_key`, or with the `base_url` of the project \
     (`https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION/publishers/google`) and an access \
     token as `api_key`";

/// The short names of all providers.
pub fn provider_names() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|provider| provider.name)
}

/// The provider that `use:` names: a short name in any case, or a class path of the original (older files say `src.` for
/// `deerflow.`; the module may have moved, the class of a known package counts).
///
/// # Errors
/// [`ProviderError`] with what to use instead, or with the nearest name.
pub fn resolve_provider(used: &str) -> Result<&'static Provider, ProviderError> {
    let used = used.trim();
    let named = |name: &str| PROVIDERS.iter().find(|provider| provider.name == name);
    let wanted = used.strip_prefix("src.").map_or_else(|| used.to_owned(), |rest| format!("deerflow.{rest}"));
    if let Some(provider) = PROVIDERS.iter().find(|provider| provider.name.eq_ignore_ascii_case(&wanted)) {
        return Ok(provider);
    }
    let same = |alias: &str| alias.eq_ignore_ascii_case(&wanted) || same_class(alias, &wanted);
    if let Some(provider) = ALIASES.iter().find(|(alias, _)| same(alias)).and_then(|(_, name)| named(name)) {
        return Ok(provider);
    }
    if let Some((_, instead)) = UNSUPPORTED.iter().find(|(alias, _)| same(alias)) {
        return Err(ProviderError::Unsupported { name: used.to_owned(), instead });
    }
    let known = provider_names().chain(ALIASES.iter().map(|(alias, _)| *alias));
    Err(ProviderError::Unknown { name: used.to_owned(), nearest: nearest(&wanted, known) })
}

/// Whether both are the same class of the same top-level package.
fn same_class(alias: &str, wanted: &str) -> bool {
    let parts = |path: &'_ str| {
        let (module, class) = path.split_once(':')?;
        Some((module.split('.').next()?.to_owned(), class.to_owned()))
    };
    parts(alias).is_some_and(|alias| parts(wanted) == Some(alias))
}

#[cfg(test)]
mod tests {
    use super::{ALIASES, PROVIDERS, ProviderError, ProviderKind, resolve_provider};

    #[test]
    fn every_alias_leads_to_a_provider() {
        for (alias, name) in ALIASES {
            assert_eq!(resolve_provider(alias).map(|provider| provider.name), Ok(*name));
        }
        for provider in PROVIDERS {
            assert_eq!(resolve_provider(provider.name), Ok(provider));
        }
    }

    #[test]
    fn old_and_moved_class_paths_are_understood() {
        let name = |used| resolve_provider(used).map(|provider| provider.name);
        assert_eq!(name("src.models.patched_deepseek:PatchedChatDeepSeek"), Ok("deepseek"));
        assert_eq!(name("langchain_openai.chat_models:ChatOpenAI"), Ok("openai"));
        assert_eq!(name("Kimi"), Ok("moonshot"));
        assert_eq!(resolve_provider("claude").map(|p| p.kind), Ok(ProviderKind::Anthropic));
        assert!(name("my_company.models:ChatOpenAI").is_err());
    }

    #[test]
    fn what_is_not_there_says_what_to_use() {
        let vertex = resolve_provider("langchain_google_vertexai:ChatVertexAI").unwrap_err();
        assert!(vertex.help().contains("use `gemini`"), "{vertex:?}");
        let near = |used| match resolve_provider(used) {
            Err(ProviderError::Unknown { nearest, .. }) => nearest,
            other => panic!("{other:?}"),
        };
        assert_eq!(near("langchain_openai:ChatOpenIA"), Some("langchain_openai:ChatOpenAI"));
        assert_eq!(near("antropic"), Some("anthropic"));
        assert_eq!(near("zzz"), None);
    }
}
