//! Answers of which a client wants some fields only.

use serde::Serialize;
use serde_json::Value;

/// The value with these fields only; with all of them when none is named.
pub(crate) fn select(value: &impl Serialize, fields: &[String]) -> Value {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    if let (Value::Object(all), false) = (&mut value, fields.is_empty()) {
        all.retain(|key, _| fields.contains(key));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unnamed_fields_are_left_out() {
        let value = json!({"a": 1, "b": 2});
        assert_eq!(select(&value, &[]), value);
        assert_eq!(select(&value, &["b".into(), "c".into()]), json!({"b": 2}));
    }
}
