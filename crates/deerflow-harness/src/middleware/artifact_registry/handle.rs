//! Handles: made from where a thing was found, found again in arguments.

use deerflow_core::JsonMap;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt::Write as _;

const PREFIX: &str = "art_";
const DIGITS: usize = 8;
const LENGTH: usize = PREFIX.len() + DIGITS;

/// The handle of the `ordinal`-th thing in one result. The message id tells results apart whose call ids repeat; a handle is
/// a name, not a secret.
pub(super) fn handle(thread: &str, call_id: &str, call_index: u32, ordinal: usize, message_id: Option<&str>) -> String {
    let mut seed = format!("{thread}:{call_id}:{call_index}:{ordinal}");
    if let Some(id) = message_id {
        seed.push(':');
        seed.push_str(id);
    }
    let digest = Sha256::digest(seed);
    digest.iter().take(DIGITS / 2).fold(PREFIX.to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether the whole text is a handle.
pub(in super::super) fn is_handle(text: &str) -> bool {
    text.len() == LENGTH
        && text.strip_prefix(PREFIX).is_some_and(|d| d.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

/// Where handles are in a text: the whole stretch, back-ticks included, and the handle.
fn find(text: &str) -> Vec<(std::ops::Range<usize>, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(PREFIX).map(|at| from + at) {
        from = at + PREFIX.len();
        let Some(handle) = text.get(at..at + LENGTH).filter(|handle| is_handle(handle)) else { continue };
        let (before, after) = (&text[..at], &text[at + LENGTH..]);
        if before.ends_with(is_word) || after.starts_with(is_word) {
            continue;
        }
        let quoted = before.ends_with('`') && after.starts_with('`');
        let range = if quoted { at - 1..at + LENGTH + 1 } else { at..at + LENGTH };
        from = range.end;
        found.push((range, handle));
    }
    found
}

/// The handles in all strings of a call's arguments, each once, in order. Keys are not looked at.
pub(in super::super) fn handles_in(args: &JsonMap) -> Vec<&str> {
    let mut found = Vec::new();
    args.values().for_each(|value| collect(value, &mut found));
    found
}

fn collect<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => {
            for (_, handle) in find(text) {
                if !found.contains(&handle) {
                    found.push(handle);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(map) => map.values().for_each(|item| collect(item, found)),
        _ => {}
    }
}

/// Puts in place of each handle what `real` says it stands for; unknown ones stay. What is put in is not looked at again.
pub(in super::super) fn substitute<'a>(value: &mut Value, real: &impl Fn(&str) -> Option<&'a str>) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(changed) = substitute_text(text, real) {
                *text = changed;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| substitute(item, real)),
        Value::Object(map) => map.values_mut().for_each(|item| substitute(item, real)),
        _ => {}
    }
}

fn substitute_text<'t, 'a>(text: &'t str, real: &impl Fn(&str) -> Option<&'a str>) -> Cow<'t, str> {
    let known: Vec<_> = find(text).into_iter().filter_map(|(range, handle)| Some((range, real(handle)?))).collect();
    if known.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut from) = (String::with_capacity(text.len()), 0);
    for (range, real) in known {
        out.push_str(&text[from..range.start]);
        out.push_str(real);
        from = range.end;
    }
    out.push_str(&text[from..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_handle_depends_on_everything_that_tells_results_apart() {
        let base = handle("t", "c", 0, 0, Some("m"));
        assert!(is_handle(&base));
        assert_eq!(base, handle("t", "c", 0, 0, Some("m")));
        for other in [
            handle("u", "c", 0, 0, Some("m")),
            handle("t", "d", 0, 0, Some("m")),
            handle("t", "c", 1, 0, Some("m")),
            handle("t", "c", 0, 1, Some("m")),
            handle("t", "c", 0, 0, Some("n")),
            handle("t", "c", 0, 0, None),
        ] {
            assert_ne!(base, other);
        }
        assert_eq!(handle("t", "c", 0, 0, None), "art_2a1562a2");
    }

    #[test]
    fn handles_stand_alone_or_in_back_ticks() {
        let value = json!({
            "a": "see `art_00000001`, art_00000002/x and art_00000001.",
            "art_0000000f": ["xart_00000003 art_000000045 art_0000000G art_5 界art_00000006 (art_00000007)", 8, null]
        });
        assert_eq!(handles_in(value.as_object().unwrap()), ["art_00000001", "art_00000002", "art_00000007"]);
    }

    #[test]
    fn known_handles_are_replaced_once_and_nothing_else_changes() {
        let real = |handle: &str| match handle {
            "art_00000001" => Some("/mnt/a `art_00000002`"),
            "art_00000002" => Some("/b"),
            _ => None,
        };
        let mut value =
            json!({"k": ["open `art_00000001` and art_00000002", {"n": "art_00000009 `art_00000009`"}], "n": 1});
        substitute(&mut value, &real);
        assert_eq!(
            value,
            json!({"k": ["open /mnt/a `art_00000002` and /b", {"n": "art_00000009 `art_00000009`"}], "n": 1})
        );
    }

    proptest! {
        #[test]
        fn any_text_survives(text in "[`a-z_art0-9界 ]{0,60}") {
            let mut value = json!(text);
            substitute(&mut value, &|_| None);
            prop_assert_eq!(value, json!(text));
            for (range, handle) in find(&text) {
                prop_assert!(text[range].trim_matches('`') == handle && is_handle(handle));
            }
        }
    }
}
