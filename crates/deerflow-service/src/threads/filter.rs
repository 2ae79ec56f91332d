//! What threads can be found by.

use crate::refusal::Refusal;
use deerflow_core::JsonMap;
use serde_json::{Value, json};

/// Checks a filter on metadata: keys of letters, digits, `_` and `-`, values that are no lists and no objects, and whole
/// numbers of 64 bits.
pub(super) fn checked(metadata: Option<JsonMap>) -> Result<JsonMap, Refusal> {
    let metadata = metadata.unwrap_or_default();
    for (key, value) in &metadata {
        let place = || json!(["body", "metadata", key]);
        let is_name = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if !is_name {
            let message = "A filter key should be of the characters A-Z a-z 0-9 _ -";
            return Err(Refusal::invalid("value_error", place(), message, json!(key)));
        }
        let fits = match value {
            Value::Number(number) => number.is_i64() || number.is_f64(),
            Value::Array(_) | Value::Object(_) => false,
            _ => true,
        };
        if !fits {
            let message = "A filter value should be null, a boolean, a number of 64 bits or a string";
            return Err(Refusal::invalid("value_error", place(), message, value.clone()));
        }
    }
    Ok(metadata)
}

/// The stored word for a status that clients ask for.
pub(super) fn stored_status(status: Option<String>) -> Vec<String> {
    // What the original calls a thread with a live run.
    status.map(|status| if status == "running" { "busy".to_owned() } else { status }).into_iter().collect()
}
