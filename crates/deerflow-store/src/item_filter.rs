//! Filters on the fields of a value, as LangGraph's store compares them.

use deerflow_core::{JsonMap, StoreError};
use serde_json::Value;
use std::cmp::Ordering;

/// How deep a filter is followed; deeper values are compared whole.
const DEPTH: u32 = 32;

/// Refuses operators that do not exist, so that a misspelt one does not find nothing in silence.
pub(crate) fn check(filter: &JsonMap) -> Result<(), StoreError> {
    fn walk(value: &Value, depth: u32) -> Result<(), StoreError> {
        let Value::Object(map) = value else { return Ok(()) };
        for (key, value) in map {
            if is_comparison(map) && !matches!(key.as_str(), "$eq" | "$ne" | "$gt" | "$gte" | "$lt" | "$lte") {
                let reason = format!("{key:?} is none of $eq, $ne, $gt, $gte, $lt, $lte");
                return Err(StoreError::BadInput { field: "filter", reason });
            }
            if depth < DEPTH && !is_comparison(map) {
                walk(value, depth + 1)?;
            }
        }
        Ok(())
    }
    filter.values().try_for_each(|value| walk(value, 0))
}

fn is_comparison(map: &JsonMap) -> bool {
    map.keys().any(|key| key.starts_with('$'))
}

/// Whether a value has all the fields.
pub(crate) fn matches(value: &JsonMap, filter: &JsonMap) -> bool {
    filter.iter().all(|(key, expected)| compare(value.get(key), expected, 0))
}

fn compare(found: Option<&Value>, expected: &Value, depth: u32) -> bool {
    match expected {
        Value::Object(map) if is_comparison(map) => {
            map.iter().all(|(operator, operand)| operate(operator, found.unwrap_or(&Value::Null), operand))
        }
        Value::Object(map) if depth < DEPTH => found
            .and_then(Value::as_object)
            .is_some_and(|found| map.iter().all(|(key, value)| compare(found.get(key), value, depth + 1))),
        // A field that is not there is like one that is null.
        _ => equal(found.unwrap_or(&Value::Null), expected),
    }
}

fn operate(operator: &str, found: &Value, operand: &Value) -> bool {
    let order = order(found, operand);
    match operator {
        "$eq" => equal(found, operand),
        "$ne" => !equal(found, operand),
        "$gt" => order == Some(Ordering::Greater),
        "$gte" => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        "$lt" => order == Some(Ordering::Less),
        "$lte" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        _ => false,
    }
}

fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
        _ => None,
    }
}

/// Equal as JSON; numbers by value.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) => a == b || order(a, b) == Some(Ordering::Equal),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: Value) -> JsonMap {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn fields_are_compared_as_langgraph_does() {
        let value = map(json!({"a": 1, "t": "m", "deep": {"x": [1, {"y": 2}], "n": 5}, "none": null}));
        for (filter, expected) in [
            (json!({}), true),
            (json!({"a": 1.0}), true),
            (json!({"a": "1"}), false),
            (json!({"a": 1, "t": "n"}), false),
            (json!({"a": {"$gt": 0, "$lte": 1}}), true),
            (json!({"a": {"$gt": 0, "$lt": 1}}), false),
            (json!({"a": {"$ne": 1}}), false),
            (json!({"b": {"$ne": 1}}), true),
            (json!({"b": {"$gt": 0}}), false),
            (json!({"t": {"$gte": "l"}}), true),
            (json!({"t": {"$gt": 0}}), false),
            (json!({"deep": {"n": 5}}), true),
            (json!({"deep": {"n": {"$lt": 5}}}), false),
            (json!({"deep": {"x": [1.0, {"y": 2}]}}), true),
            (json!({"deep": {"x": [1]}}), false),
            (json!({"none": null, "absent": null}), true),
            (json!({"a": null}), false),
            (json!({"t": {"m": 1}}), false),
        ] {
            assert_eq!(matches(&value, &map(filter.clone())), expected, "{filter}");
        }
    }

    #[test]
    fn an_unknown_operator_is_refused_wherever_it_stands() {
        assert!(check(&map(json!({"a": {"$in": [1]}}))).is_err());
        assert!(check(&map(json!({"a": {"b": {"$eq": 1, "c": 2}}}))).is_err());
        assert!(check(&map(json!({"a": {"b": {"$eq": {"$in": 1}}}, "$x": 1}))).is_ok(), "data, and a field's own name");
    }
}
