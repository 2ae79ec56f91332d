//! How the imitators of chat completions differ, as data.

use crate::legalise::Rules;
use url::Url;

/// How thinking is switched when the profile supports it and says nothing about how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkingFormat {
    /// There is no switch, or the effort is the switch.
    None,
    /// `thinking: {type: enabled | disabled}`
    Type,
    /// `enable_thinking: bool`
    Enable,
    /// `chat_template_kwargs: {enable_thinking: bool}`
    Template,
    /// `reasoning: {enabled: bool}`
    Reasoning,
}

/// How the thinking of an earlier assistant turn goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    /// It does not.
    Never,
    /// In this field of every assistant message, empty where there was none and the request thinks.
    Always(&'static str),
    /// In this field of assistant messages with tool calls.
    WithCalls(&'static str),
    /// As `reasoning_details`, unchanged; as `reasoning` where the provider gave none.
    Details,
    /// In the field it came in, of messages with tool calls.
    SameField,
}

/// One dialect.
#[derive(Debug)]
pub(crate) struct Dialect {
    pub(crate) name: &'static str,
    pub(crate) rules: Rules,
    /// Body key of the upper bound for the reply.
    pub(crate) max_tokens: &'static str,
    /// Whether `stream_options.include_usage` is understood.
    pub(crate) stream_usage: bool,
    pub(crate) thinking: ThinkingFormat,
    pub(crate) replay: Replay,
    /// Whether user messages may carry `name`.
    pub(crate) user_name: bool,
    /// Whether tool results carry the tool's `name`.
    pub(crate) tool_name: bool,
    /// Role of the system prompt.
    pub(crate) system_role: &'static str,
    /// Whether content may be a list of text parts. If not, texts are joined by blank lines.
    pub(crate) text_parts: bool,
    /// Whether the content of a tool-only turn is null (else the empty string).
    pub(crate) null_content: bool,
    /// Whether a leading `<think>` is split off the text.
    pub(crate) think_tags: bool,
    /// Whether calls that the model wrote as text are read as calls.
    pub(crate) text_calls: bool,
    /// Whether `tool_choice: required` is understood.
    pub(crate) required_choice: bool,
    /// Whether opaque extras of a call (Gemini's thought signature) go back with it.
    pub(crate) call_extras: bool,
    /// Further boolean body keys.
    pub(crate) flags: &'static [(&'static str, bool)],
}

const GENERIC: Dialect = Dialect {
    name: "generic",
    rules: Rules::strict(),
    max_tokens: "max_tokens",
    stream_usage: true,
    thinking: ThinkingFormat::None,
    replay: Replay::SameField,
    user_name: false,
    tool_name: false,
    system_role: "system",
    text_parts: false,
    null_content: true,
    think_tags: true,
    text_calls: true,
    required_choice: true,
    call_extras: true,
    flags: &[],
};

/// Rules of a hosted service that takes any order of roles.
const HOSTED: Rules = Rules { first_user: true, ..Rules::openai() };

static DIALECTS: &[Dialect] = &[
    Dialect {
        name: "openai",
        rules: Rules::openai(),
        max_tokens: "max_completion_tokens",
        replay: Replay::Never,
        user_name: true,
        text_parts: true,
        think_tags: false,
        text_calls: false,
        call_extras: false,
        ..GENERIC
    },
    Dialect {
        name: "deepseek",
        rules: HOSTED,
        thinking: ThinkingFormat::Type,
        replay: Replay::Always("reasoning_content"),
        text_calls: false,
        ..GENERIC
    },
    Dialect { name: "vllm", thinking: ThinkingFormat::Template, replay: Replay::WithCalls("reasoning"), ..GENERIC },
    Dialect {
        name: "ollama",
        replay: Replay::WithCalls("reasoning"),
        null_content: false,
        required_choice: false,
        tool_name: true,
        ..GENERIC
    },
    Dialect {
        name: "qwen",
        rules: HOSTED,
        thinking: ThinkingFormat::Enable,
        replay: Replay::WithCalls("reasoning_content"),
        null_content: false,
        required_choice: false,
        text_calls: false,
        ..GENERIC
    },
    Dialect {
        name: "moonshot",
        rules: HOSTED,
        max_tokens: "max_completion_tokens",
        thinking: ThinkingFormat::Type,
        replay: Replay::Always("reasoning_content"),
        null_content: false,
        required_choice: false,
        text_calls: false,
        ..GENERIC
    },
    Dialect {
        name: "minimax",
        rules: HOSTED,
        replay: Replay::Details,
        null_content: false,
        required_choice: false,
        text_calls: false,
        flags: &[("reasoning_split", true)],
        ..GENERIC
    },
    Dialect {
        name: "mimo",
        rules: HOSTED,
        max_tokens: "max_completion_tokens",
        thinking: ThinkingFormat::Type,
        replay: Replay::Always("reasoning_content"),
        text_calls: false,
        ..GENERIC
    },
    Dialect {
        name: "stepfun",
        rules: HOSTED,
        replay: Replay::Always("reasoning_content"),
        text_calls: false,
        ..GENERIC
    },
    Dialect {
        name: "openrouter",
        rules: HOSTED,
        thinking: ThinkingFormat::Reasoning,
        replay: Replay::Details,
        text_parts: true,
        text_calls: false,
        ..GENERIC
    },
    Dialect {
        name: "gemini",
        rules: HOSTED,
        replay: Replay::Never,
        text_parts: true,
        text_calls: false,
        think_tags: false,
        tool_name: true,
        ..GENERIC
    },
    Dialect {
        name: "mistral",
        rules: Rules::mistral(),
        replay: Replay::Never,
        stream_usage: false,
        required_choice: false,
        tool_name: true,
        null_content: false,
        text_calls: false,
        call_extras: false,
        ..GENERIC
    },
    // MindIE's server takes plain text only and writes calls as text.
    Dialect { name: "mindie", replay: Replay::Never, null_content: false, required_choice: false, ..GENERIC },
    GENERIC,
];

/// Hosts whose dialect is known.
const HOSTS: &[(&str, &str)] = &[
    ("api.openai.com", "openai"),
    ("openai.azure.com", "openai"),
    ("services.ai.azure.com", "openai"),
    ("deepseek.com", "deepseek"),
    ("dashscope", "qwen"),
    ("moonshot", "moonshot"),
    ("kimi.com", "moonshot"),
    ("minimax", "minimax"),
    ("xiaomimimo.com", "mimo"),
    ("stepfun", "stepfun"),
    ("openrouter.ai", "openrouter"),
    ("generativelanguage.googleapis.com", "gemini"),
    ("mistral.ai", "mistral"),
];

/// Model families, for gateways and servers of one's own. What matters then is how thinking goes back.
const MODELS: &[(&str, &str)] =
    &[("deepseek", "deepseek"), ("kimi", "moonshot"), ("minimax", "minimax"), ("mimo", "mimo"), ("step-", "stepfun")];

/// The dialect of that name.
pub(crate) fn named(name: &str) -> Option<&'static Dialect> {
    let name = name.trim().to_ascii_lowercase();
    let name = match name.as_str() {
        "kimi" => "moonshot",
        "dashscope" => "qwen",
        other => other,
    };
    DIALECTS.iter().find(|dialect| dialect.name == name)
}

/// The dialect to speak: the one the profile names, unless that is `openai`, which people also write for every imitator;
/// then the address tells, then the model's name.
pub(crate) fn choose(provider: &str, url: &Url, model: &str) -> &'static Dialect {
    let known = |name: &str| named(name).unwrap_or(&DIALECTS[DIALECTS.len() - 1]);
    if provider != "openai" {
        return known(provider);
    }
    let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
    if let Some((_, name)) = HOSTS.iter().find(|(part, _)| host.contains(part)) {
        return known(name);
    }
    if url.port() == Some(11434) {
        return known("ollama");
    }
    let model = model.to_ascii_lowercase();
    let family = model.rsplit('/').next().unwrap_or(&model);
    MODELS.iter().find(|(part, _)| family.starts_with(part)).map_or_else(|| known("generic"), |(_, name)| known(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_dialect_and_names_are_unique() {
        let names: std::collections::HashSet<_> = DIALECTS.iter().map(|dialect| dialect.name).collect();
        assert_eq!(names.len(), DIALECTS.len());
        for (_, name) in HOSTS.iter().chain(MODELS) {
            assert!(named(name).is_some(), "{name}");
        }
        for name in
            deerflow_config::provider_names().filter(|name| !["anthropic", "codex", "offline", "replay"].contains(name))
        {
            assert!(named(name).is_some(), "{name}");
        }
    }

    #[test]
    fn an_imitator_is_recognised_by_address_then_by_model() {
        let name = |url: &str, model: &str| choose("openai", &url.parse().unwrap(), model).name;
        assert_eq!(name("https://api.openai.com/v1", "gpt-5"), "openai");
        assert_eq!(name("https://api.deepseek.com", "x"), "deepseek");
        assert_eq!(name("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "x"), "qwen");
        assert_eq!(name("http://localhost:11434/v1", "qwen3"), "ollama");
        assert_eq!(name("http://10.0.0.5:8000/v1", "deepseek-ai/DeepSeek-V4"), "deepseek");
        assert_eq!(name("http://10.0.0.5:8000/v1", "mymodel"), "generic");
        assert_eq!(choose("vllm", &"https://api.openai.com/v1".parse().unwrap(), "x").name, "vllm");
    }
}
