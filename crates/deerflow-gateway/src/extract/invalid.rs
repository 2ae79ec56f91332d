//! A failed deserialisation as the entry of a 422.

use crate::error::ApiError;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Most characters of a refused value that are given back.
const SHOWN: usize = 200;

/// Reads a JSON value into a type; `place` is `body`, `query` or `path`.
pub(super) fn read<T: DeserializeOwned>(place: &str, value: Value) -> Result<T, ApiError> {
    let shown = value.clone();
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path: Vec<Value> = error
            .path()
            .iter()
            .filter_map(|segment| match segment {
                serde_path_to_error::Segment::Seq { index } => Some(json!(index)),
                serde_path_to_error::Segment::Map { key } => Some(json!(key)),
                serde_path_to_error::Segment::Enum { variant } => Some(json!(variant)),
                serde_path_to_error::Segment::Unknown => None,
            })
            .collect();
        explain(place, path, &error.into_inner().to_string(), &shown)
    })
}

/// The 422 for what serde says about the value at `path`.
pub(super) fn explain(place: &str, mut path: Vec<Value>, said: &str, whole: &Value) -> ApiError {
    let (kind, message) = if let Some(field) = quoted(said, "missing field `") {
        path.push(json!(field));
        ("missing", "Field required".to_owned())
    } else if let Some(field) = quoted(said, "unknown field `") {
        // Serde stands at the field already where it can, at the object otherwise.
        if path.last().and_then(Value::as_str) != Some(field) {
            path.push(json!(field));
        }
        ("extra_forbidden", "Extra inputs are not permitted".to_owned())
    } else if said.starts_with("Input should be") {
        (bound_kind(said), said.to_owned())
    } else if let Some(expected) = said.strip_prefix("invalid type: ").and_then(|s| s.split_once(", expected ")) {
        type_error(expected.1)
    } else if said.contains("unknown variant") {
        ("literal_error", said.to_owned())
    } else {
        ("value_error", said.to_owned())
    };
    // A missing field's input is the object it is missing from.
    let depth = if kind == "missing" { path.len() - 1 } else { path.len() };
    let input = path[..depth].iter().try_fold(whole, |value, key| match key {
        Value::String(name) => value.get(name),
        key => value.get(usize::try_from(key.as_u64()?).ok()?),
    });
    let input = input.map_or(Value::Null, |value| shortened(value.clone()));
    let place = std::iter::once(json!(place)).chain(path).collect();
    ApiError::invalid(kind, Value::Array(place), message, input)
}

fn quoted<'a>(said: &'a str, before: &str) -> Option<&'a str> {
    said.split_once(before)?.1.split_once('`').map(|(name, _)| name)
}

fn bound_kind(said: &str) -> &'static str {
    match said {
        s if s.contains("less than or equal") => "less_than_equal",
        s if s.contains("greater than or equal") => "greater_than_equal",
        s if s.contains("valid integer") => "int_parsing",
        _ => "value_error",
    }
}

fn type_error(expected: &str) -> (&'static str, String) {
    let expected = expected.split(" at line").next().unwrap_or(expected);
    let (kind, what) = match expected {
        e if e.contains("string") => ("string_type", "string"),
        e if e.contains("boolean") => ("bool_type", "boolean"),
        e if e.contains("map") || e.starts_with("struct") => ("dict_type", "dictionary"),
        e if e.contains("sequence") => ("list_type", "list"),
        e if e.starts_with('f') => ("float_type", "number"),
        e if e.starts_with('u') || e.starts_with('i') => ("int_type", "integer"),
        e => return ("value_error", format!("Input should be {e}")),
    };
    (kind, format!("Input should be a valid {what}"))
}

/// Long texts are cut, so that an error is no echo of a huge body.
fn shortened(value: Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > SHOWN => {
            Value::String(text.chars().take(SHOWN).chain(['…']).collect())
        }
        value if value.is_object() || value.is_array() => {
            if value.to_string().len() > 4 * SHOWN {
                Value::Null
            } else {
                value
            }
        }
        value => value,
    }
}
