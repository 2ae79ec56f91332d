//! Token counts.

use deerflow_core::Usage;
use serde_json::Value;

/// Reads `usageMetadata`. The provider counts thoughts apart from the answer; ours are part of the output.
pub(super) fn read(usage: &Value) -> Option<Usage> {
    let usage = usage.as_object()?;
    let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
    let thoughts = count("thoughtsTokenCount");
    let input = count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount"));
    let mut read = Usage::new(input, count("candidatesTokenCount").saturating_add(thoughts));
    if let Some(total) = usage.get("totalTokenCount").and_then(Value::as_u64) {
        read.total_tokens = total;
    }
    let cached = count("cachedContentTokenCount");
    if cached > 0 {
        read.input_token_details.insert("cache_read".to_owned(), cached);
    }
    if thoughts > 0 {
        read.output_token_details.insert("reasoning".to_owned(), thoughts);
    }
    Some(read)
}
