//! When two requests are the same, and where they differ when they are not.

use deerflow_core::text;
use regex::Regex;
use serde_json::Value;
use std::sync::LazyLock;

/// What differs from run to run and means nothing: UUIDs, then times, then dates.
static VOLATILE: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?", "<time>"),
        (r"\b\d{4}-\d\d-\d\d(, (Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)?\b", "<date>"),
    ]
    .into_iter()
    .filter_map(|(pattern, name)| Some((Regex::new(pattern).ok()?, name)))
    .collect()
});

/// The body with sorted keys and without what differs from run to run.
pub(super) fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            Value::Object(entries.into_iter().map(|(key, value)| (key.clone(), canonical(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        Value::String(text) => {
            let blanked = VOLATILE.iter().fold(std::borrow::Cow::Borrowed(text.as_str()), |text, (pattern, name)| {
                std::borrow::Cow::Owned(pattern.replace_all(&text, *name).into_owned())
            });
            Value::String(blanked.into_owned())
        }
        other => other.clone(),
    }
}

/// The first place where two canonical bodies differ, and what stands there.
pub(super) fn difference(recorded: &Value, now: &Value) -> Option<String> {
    find(recorded, now, &mut String::new())
}

fn find(recorded: &Value, now: &Value, path: &mut String) -> Option<String> {
    let length = path.len();
    match (recorded, now) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                let place = if path.is_empty() { key.clone() } else { format!(".{key}") };
                path.push_str(&place);
                match b.get(key) {
                    None => return Some(format!("`{path}` was recorded and is missing now")),
                    Some(other) => {
                        if let Some(found) = find(value, other, path) {
                            return Some(found);
                        }
                    }
                }
                path.truncate(length);
            }
            let new = b.keys().find(|key| !a.contains_key(*key))?;
            Some(format!("`{path}{}{new}` is new", if path.is_empty() { "" } else { "." }))
        }
        (Value::Array(a), Value::Array(b)) => {
            for (at, (one, other)) in a.iter().zip(b).enumerate() {
                path.push_str(&format!("[{at}]"));
                if let Some(found) = find(one, other, path) {
                    return Some(found);
                }
                path.truncate(length);
            }
            (a.len() != b.len()).then(|| format!("`{path}` had {} items and has {} now", a.len(), b.len()))
        }
        (a, b) if a == b => None,
        (Value::String(a), Value::String(b)) => {
            let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
            let skip = same.saturating_sub(20);
            let around = |text: &str| text::head(text.get(byte_at(text, skip)..).unwrap_or_default(), 80).to_owned();
            Some(format!("`{path}` differs at character {same}: recorded {:?}, now {:?}", around(a), around(b)))
        }
        (a, b) => {
            let short = |value: &Value| text::ellipsis(&value.to_string(), 80);
            Some(format!("`{path}` was {} and is {} now", short(a), short(b)))
        }
    }
}

fn byte_at(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn key_order_dates_times_and_uuids_do_not_matter() {
        let a = json!({"b": 1, "a": "on 2026-01-02, Friday at 2026-01-02T03:04:05.123Z in 6f1b0f0e-0000-4000-8000-000000000001"});
        let b =
            json!({"a": "on 2027-11-30, Tuesday at 2027-11-30 09:00 in AAAAAAAA-BBBB-4CCC-8DDD-EEEEEEEEEEEE", "b": 1});
        assert_eq!(canonical(&a).to_string(), canonical(&b).to_string());
        assert_eq!(canonical(&a)["a"], "on <date> at <time> in <uuid>");
        assert_eq!(VOLATILE.len(), 3);
    }

    #[test]
    fn the_first_difference_is_named_with_its_place() {
        let base = json!({"messages": [{"content": "你好 a"}], "model": "x"});
        let of = |now: Value| difference(&base, &now).unwrap();
        assert_eq!(
            of(json!({"messages": [{"content": "你好 b"}], "model": "x"})),
            "`messages[0].content` differs at character 3: recorded \"你好 a\", now \"你好 b\""
        );
        assert_eq!(of(json!({"messages": [], "model": "x"})), "`messages` had 1 items and has 0 now");
        assert_eq!(of(json!({"messages": [{"content": "你好 a"}]})), "`model` was recorded and is missing now");
        assert_eq!(of(json!({"messages": [{"content": "你好 a"}], "model": "x", "n": 1})), "`n` is new");
        assert_eq!(difference(&base, &base), None);
    }
}
