//! Token usage as the Responses interface reports it.

use deerflow_core::Usage;
use serde_json::Value;

/// Reads a `usage` object; `None` when it is not one.
pub(super) fn read(value: &Value) -> Option<Usage> {
    let count = |key: &str| value.get(key).and_then(Value::as_u64);
    let detail = |group: &str, key: &str| value.get(group)?.get(key)?.as_u64();
    let (input, output) = (count("input_tokens"), count("output_tokens"));
    if input.is_none() && output.is_none() {
        return None;
    }
    let mut usage = Usage::new(input.unwrap_or(0), output.unwrap_or(0));
    usage.total_tokens = count("total_tokens").unwrap_or(usage.total_tokens);
    let input = [("cache_read", "cached_tokens"), ("cache_creation", "cache_write_tokens")];
    for (ours, theirs) in input {
        if let Some(count) = detail("input_tokens_details", theirs) {
            usage.input_token_details.insert(ours.to_owned(), count);
        }
    }
    if let Some(count) = detail("output_tokens_details", "reasoning_tokens") {
        usage.output_token_details.insert("reasoning".to_owned(), count);
    }
    Some(usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn cached_and_reasoning_tokens_are_parts_of_the_whole() {
        let usage = read(&json!({
            "input_tokens": 75, "input_tokens_details": {"cached_tokens": 64}, "output_tokens": 1186,
            "output_tokens_details": {"reasoning_tokens": 1024}, "total_tokens": 1261
        }))
        .unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens, usage.total_tokens), (75, 1186, 1261));
        assert_eq!((usage.cache_read(), usage.reasoning()), (64, 1024));
        assert_eq!(read(&json!({"input_tokens": 2, "output_tokens": 3})).unwrap().total_tokens, 5);
        assert_eq!(read(&json!(null)), None);
        assert_eq!(read(&json!({})), None);
    }
}
