//! The rows. Each says only what differs from [`GENERIC`], and where that is known from.

use super::{Quirks, Replay, ThinkingSwitch, ToolCalls};
use crate::legalise::{IdRule, Rules};
use deerflow_config::ToolCallFormat;

/// A server nobody knows: the least that any of them takes, and everything that any of them may send.
pub(super) static GENERIC: Quirks = BASE;

const BASE: Quirks = Quirks {
    name: "generic",
    rules: Rules::strict(),
    max_tokens: "max_tokens",
    stream_usage: true,
    thinking: ThinkingSwitch::None,
    reasoning: &["reasoning_content", "reasoning", "reasoning_details"],
    replay: Replay::SameField,
    keeps_empty_reasoning: false,
    user_name: false,
    tool_name: false,
    system_role: "system",
    text_parts: false,
    null_content: true,
    think_tags: true,
    tool_calls: ToolCalls::NativeOrText,
    template_shows_tools: false,
    streams_with_tools: true,
    literal_newlines: false,
    required_choice: true,
    call_extras: true,
    unsigned_call: None,
    template_keys: &[],
    flags: &[],
};

/// A hosted service: it takes any order of roles and parses calls itself.
const HOSTED: Quirks = Quirks { rules: ANY_ORDER, tool_calls: ToolCalls::Native, ..BASE };
const ANY_ORDER: Rules = Rules { first_user: true, ..Rules::openai() };

pub(super) static TABLE: &[Quirks] = &[
    // The original. Its reasoning never shows here, so none goes back.
    Quirks {
        name: "openai",
        rules: Rules::openai(),
        max_tokens: "max_completion_tokens",
        replay: Replay::Never,
        user_name: true,
        text_parts: true,
        think_tags: false,
        call_extras: false,
        ..HOSTED
    },
    // Refuses a thinking request whose history has an assistant turn without `reasoning_content`
    // (api-docs.deepseek.com/guides/thinking_mode).
    Quirks { name: "deepseek", thinking: ThinkingSwitch::Type, replay: Replay::Always("reasoning_content"), ..HOSTED },
    // Whatever model, behind its own chat template. The field was `reasoning_content` before 0.12 and is `reasoning` since;
    // templates drop what they do not want of it (docs.vllm.ai/en/latest/features/reasoning_outputs).
    Quirks {
        name: "vllm",
        rules: Rules { ids: IdRule::Any, ..Rules::strict() },
        thinking: ThinkingSwitch::Template,
        reasoning: &["reasoning", "reasoning_content", "reasoning_details"],
        replay: Replay::Stored("reasoning"),
        template_keys: &[("thinking", "enable_thinking")],
        ..BASE
    },
    // github.com/ollama/ollama/blob/main/docs/openai.md
    Quirks {
        name: "ollama",
        reasoning: &["reasoning", "reasoning_content", "reasoning_details"],
        replay: Replay::WithCalls("reasoning"),
        null_content: false,
        required_choice: false,
        tool_name: true,
        ..BASE
    },
    // Content may not be null, and `tool_choice` knows `auto`, `none` and one function
    // (help.aliyun.com/zh/model-studio: deep-thinking, qwen-function-calling).
    Quirks {
        name: "qwen",
        thinking: ThinkingSwitch::Enable,
        replay: Replay::WithCalls("reasoning_content"),
        null_content: false,
        required_choice: false,
        ..HOSTED
    },
    // Kimi. Every assistant turn with calls needs its reasoning back, and its ids (`bash:0`), which the model counts on
    // (platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model).
    Quirks {
        name: "moonshot",
        rules: Rules { ids: IdRule::Any, ..ANY_ORDER },
        max_tokens: "max_completion_tokens",
        thinking: ThinkingSwitch::Type,
        replay: Replay::Always("reasoning_content"),
        null_content: false,
        required_choice: false,
        ..HOSTED
    },
    // Thinking stands in the text unless it is asked to be split off; it goes back as it came. `name` of a user message is
    // refused (error 2013) (platform.minimax.io/docs/guides/text-m2-function-call).
    Quirks {
        name: "minimax",
        replay: Replay::Details { made_up: true },
        null_content: false,
        required_choice: false,
        flags: &[("reasoning_split", true)],
        ..HOSTED
    },
    // A turn with calls and without the field is refused, an empty one is not
    // (mimo.mi.com/docs: usage-guide/other/deep-thinking).
    Quirks {
        name: "mimo",
        max_tokens: "max_completion_tokens",
        thinking: ThinkingSwitch::Type,
        replay: Replay::Always("reasoning_content"),
        keeps_empty_reasoning: true,
        ..HOSTED
    },
    // Thinking comes in either field and goes back in one.
    Quirks { name: "stepfun", replay: Replay::Stored("reasoning_content"), ..HOSTED },
    // Blocks of reasoning go back unmodified (openrouter.ai/docs/guides/best-practices/reasoning-tokens).
    Quirks {
        name: "openrouter",
        thinking: ThinkingSwitch::Reasoning,
        reasoning: &["reasoning", "reasoning_details", "reasoning_content"],
        replay: Replay::Details { made_up: false },
        text_parts: true,
        ..HOSTED
    },
    // The compatible endpoint. A turn whose first call lacks its thought signature is refused; the value stands for a call
    // that another model made (ai.google.dev/gemini-api/docs/thought-signatures).
    Quirks {
        name: "gemini",
        replay: Replay::Never,
        text_parts: true,
        think_tags: false,
        tool_name: true,
        unsigned_call: Some("skip_thought_signature_validator"),
        ..HOSTED
    },
    // Answers 422 to a key it does not know, `reasoning_content` among them.
    Quirks {
        name: "mistral",
        rules: Rules::mistral(),
        replay: Replay::Never,
        stream_usage: false,
        required_choice: false,
        tool_name: true,
        null_content: false,
        call_extras: false,
        ..HOSTED
    },
    // Ascend's server. Its template takes plain text only and writes calls as XML, its streams lose choices when there are
    // tools, and its gateway escapes line breaks once too often.
    Quirks {
        name: "mindie",
        replay: Replay::Never,
        null_content: false,
        required_choice: false,
        tool_calls: ToolCalls::Text(ToolCallFormat::Xml),
        template_shows_tools: true,
        streams_with_tools: false,
        literal_newlines: true,
        ..BASE
    },
    BASE,
];

/// Other names that people use.
pub(super) const ALIASES: &[(&str, &str)] = &[("kimi", "moonshot"), ("dashscope", "qwen"), ("step", "stepfun")];

/// Hosts whose quirks are known, by a part of the name.
pub(super) const HOSTS: &[(&str, &str)] = &[
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
pub(super) const MODELS: &[(&str, &str)] =
    &[("deepseek", "deepseek"), ("kimi", "moonshot"), ("minimax", "minimax"), ("mimo", "mimo"), ("step-", "stepfun")];
