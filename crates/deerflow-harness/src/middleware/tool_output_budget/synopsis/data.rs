//! JSON and YAML.

use super::{KEYS, Kind, Synopsis, VALUE_CHARS, code, one_line};
use serde::de::IgnoredAny;
use serde_json::Value;

/// Values shown.
const SCALARS: usize = 6;
/// Containers listed, and how deep they are looked for.
const PATHS: usize = 24;
const PATH_DEPTH: usize = 4;
/// Larger texts, in characters, are not tried as YAML: it is slow to read.
const MAX_YAML_CHARS: usize = 500_000;
const MAX_YAML_DEPTH: usize = 64;
const MAX_YAML_NODES: usize = 100_000;

/// An object or a list, more of them line by line, or one with a little text after it.
pub(super) fn json(text: &str) -> Option<Synopsis> {
    let text = text.trim();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    let end = values.byte_offset();
    let rest = text.get(end..).unwrap_or_default().trim();

    let mut synopsis = describe(&value, Kind::Json, "JSON output");
    if rest.is_empty() {
        return Some(synopsis);
    }
    let more: Result<Vec<IgnoredAny>, _> = serde_json::Deserializer::from_str(rest).into_iter().collect();
    match more {
        Ok(more) => {
            let count = format!("{} JSON values one after another; this describes the first.", more.len() + 1);
            synopsis.summary.insert(0, count);
        }
        // A log line may begin with `[1]`.
        Err(_) if end < text.len() / 2 => return None,
        Err(_) => {
            synopsis.notable.push(format!("After the JSON come {} characters of other text.", rest.chars().count()))
        }
    }
    Some(synopsis)
}

/// One or more documents that are maps or lists. A map of nothing but strings is refused: that is how log lines and
/// tracebacks read as YAML.
pub(super) fn yaml(text: &str) -> Option<Synopsis> {
    if text.chars().nth(MAX_YAML_CHARS).is_some() || !looks_like_yaml(text) {
        return None;
    }
    let mut options = serde_saphyr::Options::default();
    options.with_snippet = false;
    options.alias_limits.max_total_replayed_events = MAX_YAML_NODES;
    if let Some(budget) = &mut options.budget {
        budget.max_depth = MAX_YAML_DEPTH;
        budget.max_nodes = MAX_YAML_NODES;
    }
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options).ok()?;
    let structured = |value: &Value| match value {
        Value::Object(map) => map.values().any(|value| !value.is_string()),
        other => other.is_array(),
    };
    if !documents.iter().all(structured) {
        return None;
    }
    let mut synopsis = describe(documents.first()?, Kind::Yaml, "YAML output");
    if documents.len() > 1 {
        synopsis.summary.insert(0, format!("{} YAML documents; this describes the first.", documents.len()));
    }
    Some(synopsis)
}

/// Begins a document, or has three keys near its start. `INFO: …` is a log line.
fn looks_like_yaml(text: &str) -> bool {
    if text.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| line.trim_end() == "---") {
        return true;
    }
    let is_key_line = |line: &&str| {
        let Some((key, value)) = line.trim_start().trim_start_matches("- ").split_once(':') else { return false };
        let shouted = !key.contains('_') && key.chars().all(|c| !c.is_lowercase());
        let name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
        (value.is_empty() || value.starts_with(' ')) && !key.is_empty() && key.chars().all(name) && !shouted
    };
    text.lines().take(80).filter(is_key_line).take(3).count() == 3 && !code::looks_like_code(text)
}

fn describe(value: &Value, kind: Kind, title: &'static str) -> Synopsis {
    let label = if kind == Kind::Json { "JSON" } else { "YAML" };
    let mut synopsis = match value {
        Value::Object(map) => {
            let mut synopsis = Synopsis::new(kind, title, format!("{label} object with {} top-level keys.", map.len()));
            synopsis.summary.push(format!("Top-level keys: {}", keys(map)));
            synopsis
        }
        Value::Array(items) => Synopsis::new(kind, title, format!("{label} array with {} items.", items.len())),
        other => Synopsis::new(kind, title, format!("{label} {}.", type_name(other))),
    };
    synopsis.structure.push(format!("$: {}", container(value)));
    containers(value, "$", 0, &mut synopsis.structure);
    scalars(value, "$", 0, &mut synopsis.notable);
    synopsis
}

fn containers(value: &Value, path: &str, depth: usize, out: &mut Vec<String>) {
    if depth >= PATH_DEPTH {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, child) in map.iter().take(KEYS).filter(|(_, child)| child.is_object() || child.is_array()) {
                // The first line is about the value itself.
                if out.len() > PATHS {
                    return;
                }
                let path = child_path(path, key);
                out.push(format!("{path}: {}", container(child)));
                containers(child, &path, depth + 1, out);
            }
        }
        Value::Array(items) => {
            if let Some(first) = items.first() {
                containers(first, &format!("{path}[]"), depth + 1, out);
            }
        }
        _ => {}
    }
}

fn scalars(value: &Value, path: &str, depth: usize, out: &mut Vec<String>) {
    if out.len() >= SCALARS || depth > PATH_DEPTH {
        return;
    }
    match value {
        Value::Object(map) => {
            map.iter().take(KEYS).for_each(|(key, child)| scalars(child, &child_path(path, key), depth + 1, out));
        }
        Value::Array(items) => {
            items
                .iter()
                .take(2)
                .enumerate()
                .for_each(|(n, child)| scalars(child, &format!("{path}[{n}]"), depth + 1, out));
        }
        Value::String(text) => out.push(format!("{path}: {}", quoted(text))),
        other => out.push(format!("{path}: {other}")),
    }
}

fn container(value: &Value) -> String {
    match value {
        Value::Object(map) if map.is_empty() => "empty object".to_owned(),
        Value::Object(map) => format!("object, {} keys: {}", map.len(), keys(map)),
        Value::Array(items) => match items.first() {
            None => "empty array".to_owned(),
            Some(Value::Object(first)) => {
                format!("array of {}, first an object with keys {}", items.len(), keys(first))
            }
            Some(first) => format!("array of {}, first a {}", items.len(), type_name(first)),
        },
        other => type_name(other).to_owned(),
    }
}

fn keys(map: &deerflow_core::JsonMap) -> String {
    let shown: Vec<String> = map.keys().take(KEYS).map(|key| one_line(key, VALUE_CHARS / 2)).collect();
    let more = if map.len() > KEYS { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

fn child_path(path: &str, key: &str) -> String {
    let mut chars = key.chars();
    let plain = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && key.len() <= VALUE_CHARS / 2
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain { format!("{path}.{key}") } else { format!("{path}[{}]", quoted(&one_line(key, VALUE_CHARS / 2))) }
}

fn quoted(text: &str) -> String {
    Value::from(deerflow_core::text::ellipsis(text, VALUE_CHARS)).to_string()
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
