//! Options in any shape a model sends them.

use regex::Regex;
use serde_json::{Value, json};
use std::sync::LazyLock;

#[expect(clippy::expect_used, reason = "a literal pattern, compiled by the tests")]
static TAG: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"</?[A-Za-z][^<>]*>").expect("literal pattern"));

/// Nesting beyond which leaves are not looked for.
const MAX_DEPTH: usize = 16;

/// A list as it is, a JSON string parsed, an object's scalar leaves in order, a scalar alone. Tags are stripped; blanks and
/// repetitions are dropped.
pub(super) fn normalise(value: &Value) -> Vec<String> {
    let mut leaves = Vec::new();
    match value {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(parsed @ (Value::Array(_) | Value::Object(_))) => flatten(&parsed, &mut leaves, 0),
            _ => leaves.push(text.clone()),
        },
        other => flatten(other, &mut leaves, 0),
    }
    let mut options: Vec<String> = Vec::new();
    for leaf in leaves {
        let option = TAG.replace_all(&leaf, "").trim().to_owned();
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    options
}

fn flatten(value: &Value, leaves: &mut Vec<String>, depth: usize) {
    match value {
        Value::Null => {}
        Value::String(text) => leaves.push(text.clone()),
        Value::Number(number) => leaves.push(number.to_string()),
        Value::Bool(flag) => leaves.push(flag.to_string()),
        _ if depth >= MAX_DEPTH => {}
        Value::Array(list) => list.iter().for_each(|item| flatten(item, leaves, depth + 1)),
        Value::Object(map) => map.values().for_each(|item| flatten(item, leaves, depth + 1)),
    }
}

/// `[{id: <prefix>-N, label, value}]`, N from 1.
pub(super) fn with_ids(prefix: &str, options: &[String]) -> Value {
    let entry = |(index, option): (usize, &String)| json!({"id": format!("{prefix}-{}", index + 1), "label": option, "value": option});
    options.iter().enumerate().map(entry).collect()
}
