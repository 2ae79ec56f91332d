//! How the imitators of chat completions differ, as data: one row of [`table`] each, and which row is whose.
//!
//! The adapter knows no provider by name. What one of them does otherwise is a field here, and a fixture in
//! `tests/quirks/` shows it in both directions.

mod table;
#[cfg(test)]
mod tests;

use crate::legalise::Rules;
use deerflow_config::{ToolCallFormat, nearest};
use table::{ALIASES, GENERIC, HOSTS, MODELS, TABLE};
use url::Url;

/// How thinking is switched when the profile supports it and says nothing about how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkingSwitch {
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
    /// In this field of every assistant message that had any.
    Stored(&'static str),
    /// In this field of assistant messages with tool calls.
    WithCalls(&'static str),
    /// In the field it came in, of messages with tool calls.
    SameField,
    /// As `reasoning_details`, unchanged. Where the provider gave none: the text as one of them, or in the field `reasoning`.
    Details {
        /// Whether it becomes one of them.
        made_up: bool,
    },
}

/// How the server gives the calls of its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolCalls {
    /// In their own field; text is text.
    Native,
    /// In their own field, unless nobody taught the server its model's format: then a text that is nothing but calls to
    /// offered tools is those calls.
    NativeOrText,
    /// As text of this format.
    Text(ToolCallFormat),
}

/// What one kind of server wants and does.
#[derive(Debug)]
pub(crate) struct Quirks {
    pub(crate) name: &'static str,
    /// What a history has to look like: roles, ids, and an assistant turn between results and the user's.
    pub(crate) rules: Rules,
    /// Body key of the upper bound for the reply.
    pub(crate) max_tokens: &'static str,
    /// Whether `stream_options.include_usage` is understood.
    pub(crate) stream_usage: bool,
    pub(crate) thinking: ThinkingSwitch,
    /// Fields that thinking comes in, the one that counts first.
    pub(crate) reasoning: &'static [&'static str],
    pub(crate) replay: Replay,
    /// Whether thinking that is there and empty goes back as such.
    pub(crate) keeps_empty_reasoning: bool,
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
    pub(crate) tool_calls: ToolCalls,
    /// Whether tools go into the request also when calls come as text, because the server's template shows them to the
    /// model. If not, the prompt describes them.
    pub(crate) template_shows_tools: bool,
    /// Whether a reply may be streamed when there are tools. If not it comes whole, and is told in pieces.
    pub(crate) streams_with_tools: bool,
    /// Whether line breaks come as a backslash and an `n`.
    pub(crate) literal_newlines: bool,
    /// Whether `tool_choice: required` is understood.
    pub(crate) required_choice: bool,
    /// Whether opaque extras of a call (Gemini's thought signature) go back with it.
    pub(crate) call_extras: bool,
    /// What stands for the signature of a call that has none, where one is demanded of a turn's first call.
    pub(crate) unsigned_call: Option<&'static str>,
    /// Keys of `chat_template_kwargs` that have another name there: old, new.
    pub(crate) template_keys: &'static [(&'static str, &'static str)],
    /// Further boolean body keys.
    pub(crate) flags: &'static [(&'static str, bool)],
}

/// The quirks of that name.
///
/// # Errors
/// The name that was probably meant, or all there are.
pub(crate) fn named(name: &str) -> Result<&'static Quirks, String> {
    let wanted = name.trim().to_ascii_lowercase();
    let wanted = ALIASES.iter().find(|(alias, _)| *alias == wanted).map_or(wanted.as_str(), |(_, name)| name);
    TABLE.iter().find(|quirks| quirks.name == wanted).ok_or_else(|| {
        let names = || TABLE.iter().map(|quirks| quirks.name);
        match nearest(wanted, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
        }
    })
}

/// The quirks to expect: those of the provider that the profile names, unless that is `openai`, which people also write for
/// every imitator; then the address tells, then the model's name.
pub(crate) fn choose(provider: &str, url: &Url, model: &str) -> &'static Quirks {
    let known = |name: &str| named(name).unwrap_or(&GENERIC);
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
    MODELS.iter().find(|(part, _)| family.starts_with(part)).map_or(&GENERIC, |(_, name)| known(name))
}
