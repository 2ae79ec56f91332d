//! Token usage as LangChain's `usage_metadata`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tokens of one model call, or a sum of several. All counts are tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens, cached ones included.
    #[serde(default)]
    pub input_tokens: u64,
    /// Completion tokens, reasoning included.
    #[serde(default)]
    pub output_tokens: u64,
    /// Both together.
    #[serde(default)]
    pub total_tokens: u64,
    /// Parts of the input: `cache_read`, `cache_creation`, `audio` …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub input_token_details: BTreeMap<String, u64>,
    /// Parts of the output: `reasoning`, `audio` …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub output_token_details: BTreeMap<String, u64>,
}

impl Usage {
    /// Usage of `input` and `output` tokens with no details.
    #[must_use]
    pub fn new(input: u64, output: u64) -> Self {
        Self {
            input_tokens: input,
            output_tokens: output,
            total_tokens: input.saturating_add(output),
            ..Self::default()
        }
    }
    /// Input tokens that the provider served from its cache.
    #[must_use]
    pub fn cache_read(&self) -> u64 {
        self.input_token_details.get("cache_read").copied().unwrap_or(0)
    }
    /// Output tokens spent on reasoning.
    #[must_use]
    pub fn reasoning(&self) -> u64 {
        self.output_token_details.get("reasoning").copied().unwrap_or(0)
    }
    /// Adds another call's usage. Saturates, never overflows.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
        for (mine, theirs) in [
            (&mut self.input_token_details, &other.input_token_details),
            (&mut self.output_token_details, &other.output_token_details),
        ] {
            for (key, count) in theirs {
                let slot = mine.entry(key.clone()).or_default();
                *slot = slot.saturating_add(*count);
            }
        }
    }
    /// The rest of this usage without a part of it. Never less than nothing.
    #[must_use]
    pub fn without(mut self, part: &Self) -> Self {
        self.input_tokens = self.input_tokens.saturating_sub(part.input_tokens);
        self.output_tokens = self.output_tokens.saturating_sub(part.output_tokens);
        self.total_tokens = self.total_tokens.saturating_sub(part.total_tokens);
        for (mine, theirs) in [
            (&mut self.input_token_details, &part.input_token_details),
            (&mut self.output_token_details, &part.output_token_details),
        ] {
            for (key, count) in theirs {
                if let Some(slot) = mine.get_mut(key) {
                    *slot = slot.saturating_sub(*count);
                }
            }
        }
        self
    }
    /// Whether nothing was counted.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.input_tokens == 0 && self.output_tokens == 0 && self.total_tokens == 0
    }
}
