//! Token usage as chat-completion servers report it.

use deerflow_core::Usage;
use serde_json::Value;

/// Reads a `usage` object; `None` when it is not one.
pub(super) fn read(value: &Value) -> Option<Usage> {
    let usage = value.as_object()?;
    let count = |key: &str| usage.get(key).and_then(Value::as_u64);
    let detail = |group: &str, key: &str| usage.get(group).and_then(|details| details.get(key)).and_then(Value::as_u64);
    let (input, output) = (count("prompt_tokens"), count("completion_tokens"));
    if input.is_none() && output.is_none() && count("total_tokens").is_none() {
        return None;
    }
    let mut read = Usage::new(input.unwrap_or(0), output.unwrap_or(0));
    read.total_tokens = count("total_tokens").unwrap_or(read.total_tokens);
    // Who caches says so in one of three places.
    let cached = detail("prompt_tokens_details", "cached_tokens")
        .or_else(|| count("prompt_cache_hit_tokens"))
        .or_else(|| count("cached_tokens"));
    let parts = [
        ("cache_read", cached),
        ("cache_creation", detail("prompt_tokens_details", "cache_creation_tokens")),
        ("audio", detail("prompt_tokens_details", "audio_tokens")),
    ];
    read.input_token_details = parts.into_iter().filter_map(|(key, n)| Some((key.to_owned(), n?))).collect();
    let parts = [
        ("reasoning", detail("completion_tokens_details", "reasoning_tokens").or_else(|| count("reasoning_tokens"))),
        ("audio", detail("completion_tokens_details", "audio_tokens")),
    ];
    read.output_token_details = parts.into_iter().filter_map(|(key, n)| Some((key.to_owned(), n?))).collect();
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cached_and_reasoning_tokens_are_found_where_each_server_puts_them() {
        let openai = read(&json!({
            "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 3}
        }))
        .unwrap();
        assert_eq!((openai.cache_read(), openai.reasoning(), openai.total_tokens), (8, 3, 15));
        let deepseek =
            read(&json!({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 4})).unwrap();
        assert_eq!((deepseek.cache_read(), deepseek.total_tokens), (4, 15));
        assert_eq!(read(&json!({"prompt_tokens": 1, "cached_tokens": 1})).unwrap().cache_read(), 1);
        assert_eq!(read(&json!(null)), None);
        assert_eq!(read(&json!({})), None);
    }
}
