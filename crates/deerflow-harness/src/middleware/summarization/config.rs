//! The `summarization:` section of the configuration.

use deerflow_config::{Problems, Section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long conversations are kept small: their oldest part is replaced by a summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SummarizationConfig {
    /// Whether conversations are compacted by themselves.
    pub enabled: bool,
    /// Model that writes summaries. The run's own model follows when it fails, and is the only one when none is named.
    pub model_name: Option<String>,
    /// When to compact: one size, or a list of which any is enough. Without one: at 0.8 of the model's context window.
    pub trigger: Option<Trigger>,
    /// How much of the newest conversation stays as it is.
    pub keep: ContextSize,
    /// Most tokens of the conversation in one request to the summary model; no limit but its window when null. What is longer
    /// is summarised in several requests, long tool results shortened.
    #[schemars(range(min = 200))]
    pub trim_tokens_to_summarize: Option<u64>,
    /// Prompt of the summary; `{messages}` is where the conversation goes.
    pub summary_prompt: Option<String>,
    /// Tools whose reading of a `SKILL.md` counts as loading that skill.
    pub skill_file_read_tool_names: Vec<String>,
}

/// One size or several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Trigger {
    /// This one.
    One(ContextSize),
    /// Any of these.
    Any(Vec<ContextSize>),
}

/// A size of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextSize {
    /// What `value` counts.
    #[serde(rename = "type")]
    pub kind: SizeKind,
    /// A share between 0 and 1, or a number of tokens or messages.
    pub value: f64,
}

/// Unit of a [`ContextSize`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SizeKind {
    /// A share of the model's context window.
    Fraction,
    /// Tokens.
    Tokens,
    /// Messages.
    Messages,
}

/// Share of the context window at which a conversation is compacted unless the file says otherwise.
const DEFAULT_FRACTION: f64 = 0.8;
/// Window of a model that nobody has said anything about, in tokens.
pub(super) const ASSUMED_WINDOW: u64 = 128_000;

impl ContextSize {
    /// This many messages.
    #[must_use]
    pub fn messages(count: u32) -> Self {
        Self { kind: SizeKind::Messages, value: f64::from(count) }
    }
    /// This many tokens.
    #[must_use]
    pub fn tokens(count: u32) -> Self {
        Self { kind: SizeKind::Tokens, value: f64::from(count) }
    }
    /// This share of the context window.
    #[must_use]
    pub fn fraction(share: f64) -> Self {
        Self { kind: SizeKind::Fraction, value: share }
    }
    /// The size in its own unit; a share in tokens of `window`.
    pub(super) fn amount(self, window: u64) -> u64 {
        match self.kind {
            SizeKind::Fraction => (self.value.clamp(0.0, 1.0) * window as f64) as u64,
            SizeKind::Tokens | SizeKind::Messages => self.value.max(0.0) as u64,
        }
    }
    fn check(self, path: &str, problems: &mut Problems) {
        let (good, wanted) = match self.kind {
            SizeKind::Fraction => (self.value > 0.0 && self.value <= 1.0, "more than 0 and at most 1"),
            SizeKind::Tokens | SizeKind::Messages => {
                (self.value >= 1.0 && self.value.fract() == 0.0, "a whole number of at least 1")
            }
        };
        if !good {
            problems.error(path, format!("`value` is {}; it has to be {wanted}", self.value), None);
        }
    }
}

impl Default for SummarizationConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            model_name: None,
            trigger: None,
            keep: ContextSize::messages(20),
            trim_tokens_to_summarize: Some(4000),
            summary_prompt: None,
            skill_file_read_tool_names: ["read_file", "read", "view", "cat"].map(str::to_owned).to_vec(),
        }
    }
}

impl SummarizationConfig {
    /// The sizes of which any makes a compaction due.
    pub(super) fn triggers(&self) -> Vec<ContextSize> {
        match &self.trigger {
            None => vec![ContextSize::fraction(DEFAULT_FRACTION)],
            Some(Trigger::One(size)) => vec![*size],
            Some(Trigger::Any(sizes)) => sizes.clone(),
        }
    }
}

impl Section for SummarizationConfig {
    const KEY: &'static str = "summarization";

    fn validate(&self, problems: &mut Problems) {
        self.keep.check("keep", problems);
        for size in self.triggers() {
            size.check("trigger", problems);
            if size.kind == self.keep.kind && size.value <= self.keep.value {
                let message = "`keep` is not smaller than `trigger`: nothing would ever be compacted";
                problems.warning("keep", message, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_config::{Loader, Registry};
    use pretty_assertions::assert_eq;

    fn load(key: &str, value: &str) -> Result<SummarizationConfig, String> {
        let loader = Loader::new(Registry::new().with::<SummarizationConfig>()).cwd("/nowhere");
        let loader = loader.env([("HOME".to_owned(), "/nowhere".to_owned())]).set(key, value);
        loader.load().map(|c| c.section::<SummarizationConfig>().as_ref().clone()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_trigger_is_one_size_or_a_list() {
        let one = load("summarization.trigger", "{type: tokens, value: 4000}").unwrap();
        assert_eq!(one.triggers(), [ContextSize::tokens(4000)]);
        let list =
            load("summarization.trigger", "[{type: fraction, value: 0.5}, {type: messages, value: 50}]").unwrap();
        assert_eq!(list.triggers(), [ContextSize::fraction(0.5), ContextSize::messages(50)]);
        let none = load("summarization.trigger", "null").unwrap();
        assert_eq!(none.triggers(), [ContextSize::fraction(0.8)]);
        assert_eq!(none, SummarizationConfig::default());
    }

    #[test]
    fn sizes_that_mean_nothing_are_refused() {
        for bad in [
            "{type: fraction, value: 1.5}",
            "{type: fraction, value: 0}",
            "{type: tokens, value: 0}",
            "{type: messages, value: 2.5}",
        ] {
            assert!(load("summarization.trigger", bad).is_err(), "{bad}");
            assert!(load("summarization.keep", bad).is_err(), "{bad}");
        }
        assert!(load("summarization.keep", "{type: words, value: 5}").is_err());
        assert!(load("summarization.trim_tokens_to_summarize", "10").is_err());
    }

    #[test]
    fn a_share_is_of_the_window() {
        assert_eq!(ContextSize::fraction(0.8).amount(200_000), 160_000);
        assert_eq!(ContextSize::tokens(7).amount(200_000), 7);
    }
}
