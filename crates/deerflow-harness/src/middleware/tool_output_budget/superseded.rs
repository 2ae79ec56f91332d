//! Leaves out what a model once wrote to a file when the file was read or changed since.
//!
//! After a successful write the file is what counts, and it can be read. The rule only ever adds to what is left out: more
//! history never brings a content back, so the start of a request stays the same for the provider's cache.

use deerflow_core::message::kwargs;
use deerflow_core::{Message, ToolCall, ToolStatus};
use deerflow_sandbox::VirtualPath;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

const WRITE: &str = "write_file";
/// After one of these the model knows, or has changed, what the file holds.
const TOUCHES: [&str; 3] = [WRITE, "str_replace", "read_file"];

/// Replaces the contents of superseded writes of at least `min_chars` characters, except those of the newest `keep` writes.
/// A write is superseded when a later turn read or changed the same path with success; calls of one turn run side by side.
pub(super) fn elide(messages: &mut [Arc<Message>], min_chars: usize, keep: usize) {
    let worth_it =
        |call: &ToolCall| content_of(call).is_some_and(|content| placeholder_for(content, min_chars).is_some());
    if !messages.iter().flat_map(|message| message.tool_calls()).any(worth_it) {
        return;
    }
    let mut last_touch: HashMap<String, usize> = HashMap::new();
    let mut writes = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        for (position, call) in message.tool_calls().iter().enumerate() {
            if !TOUCHES.contains(&call.name.as_str()) || !succeeded(&messages[index + 1..], call.id()) {
                continue;
            }
            let Some(path) = path_of(call) else { continue };
            if call.name == WRITE {
                writes.push((index, position, path.clone()));
            }
            last_touch.insert(path, index);
        }
    }
    writes.truncate(writes.len().saturating_sub(keep));
    for (index, position, path) in writes {
        if last_touch.get(&path).is_none_or(|touch| *touch <= index) {
            continue;
        }
        let call = &messages[index].tool_calls()[position];
        let Some(placeholder) = content_of(call).and_then(|content| placeholder_for(content, min_chars)) else {
            continue;
        };
        if let Some(part) = Arc::make_mut(&mut messages[index]).as_ai_mut() {
            part.tool_calls[position].args.insert("content".to_owned(), placeholder.into());
        }
    }
}

fn content_of(call: &ToolCall) -> Option<&str> {
    if call.name == WRITE { call.args.get("content").and_then(Value::as_str) } else { None }
}

/// What stands for `content`, if it is long enough and this is shorter.
fn placeholder_for(content: &str, min_chars: usize) -> Option<String> {
    let chars = content.chars().count();
    let placeholder = format!(
        "[{chars} characters not shown again: this write succeeded, and the file was read or changed since. read_file shows \
         what it holds now.]"
    );
    (chars >= min_chars && chars > placeholder.len()).then_some(placeholder)
}

/// The same file under all spellings of its path.
fn path_of(call: &ToolCall) -> Option<String> {
    let path = call.args.get("path")?.as_str()?;
    Some(VirtualPath::parse(path).map_or_else(|_| path.to_owned(), String::from))
}

/// Whether the call has a result, before the next turn, that is no error.
fn succeeded(after: &[Arc<Message>], call_id: &str) -> bool {
    let results = after.iter().take_while(|message| message.as_ai().is_none());
    let result = results
        .filter_map(|message| message.as_tool().map(|part| (message, part)))
        .find(|(_, part)| part.tool_call_id == call_id);
    result.is_some_and(|(message, part)| {
        let meta = message.additional_kwargs.get(kwargs::TOOL_META).and_then(|meta| meta.get("status"));
        part.status == ToolStatus::Success
            && meta.and_then(Value::as_str) != Some("error")
            && !message.text().starts_with("Error:")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn turn(calls: &[(&str, Value, &str)]) -> Vec<Arc<Message>> {
        let call = |n: usize, name: &str, args: &Value| {
            ToolCall::new(format!("c{n}"), name, args.as_object().cloned().unwrap())
        };
        let calls_of = calls.iter().enumerate().map(|(n, (name, args, _))| call(n, name, args)).collect();
        let results =
            calls.iter().enumerate().map(|(n, (name, _, result))| Message::tool(*result, format!("c{n}"), *name));
        std::iter::once(Message::ai_calls("", calls_of)).chain(results).map(Arc::new).collect()
    }
    fn write(path: &str, content: &str) -> (&'static str, Value, &'static str) {
        (WRITE, json!({"path": path, "content": content}), "OK")
    }
    fn read(path: &str, result: &'static str) -> (&'static str, Value, &'static str) {
        ("read_file", json!({"path": path}), result)
    }
    /// Characters of each write's content that stays; 0 where it is left out.
    fn kept(turns: &[Vec<Arc<Message>>], keep: usize) -> Vec<usize> {
        let before: Vec<_> = turns.iter().flatten().cloned().collect();
        let mut messages = before.clone();
        elide(&mut messages, 2000, keep);
        for (now, then) in messages.iter().zip(&before) {
            assert!(Arc::ptr_eq(now, then) || now.tool_calls() != then.tool_calls(), "only what changes is copied");
        }
        let calls = messages.iter().flat_map(|m| m.tool_calls());
        calls
            .filter_map(content_of)
            .map(|c| if c.starts_with("[3000 characters not shown") { 0 } else { c.len() })
            .collect()
    }

    #[test]
    fn a_write_goes_once_its_file_was_read_or_changed_in_a_later_turn() {
        let long = "x".repeat(3000);
        let w = || turn(&[write("a.md", &long)]);
        let replace = ("str_replace", json!({"path": "a.md", "old_str": "x", "new_str": "y"}), "OK");
        assert_eq!(kept(&[w()], 0), [3000], "nothing came after it");
        assert_eq!(kept(&[w(), turn(&[read("/mnt/user-data/workspace/./a.md", "xxx")])], 0), [0]);
        assert_eq!(kept(&[w(), turn(&[replace])], 0), [0]);
        assert_eq!(kept(&[w(), w()], 0), [0, 3000]);
        assert_eq!(kept(&[w(), turn(&[read("b.md", "xxx")])], 0), [3000], "another file");
        assert_eq!(kept(&[w(), turn(&[read("a.md", "Error: no such file")])], 0), [3000], "a read that failed");
        assert_eq!(kept(&[turn(&[write("a.md", &long), read("a.md", "xxx")])], 0), [3000], "the same turn");
        assert_eq!(kept(&[turn(&[write("a.md", "short")]), turn(&[read("a.md", "short")])], 0), [5]);
    }

    #[test]
    fn a_failed_write_and_the_newest_ones_stay() {
        let long = "x".repeat(3000);
        let failed = (WRITE, json!({"path": "a.md", "content": long}), "Error: read the file first");
        assert_eq!(kept(&[turn(&[failed]), turn(&[read("a.md", "old")])], 0), [3000]);
        let reads = || turn(&[read("a", "xxx"), read("b", "xxx"), read("c", "xxx")]);
        let history = [turn(&[write("a", &long)]), turn(&[write("b", &long)]), turn(&[write("c", &long)]), reads()];
        assert_eq!(kept(&history, 1), [0, 0, 3000]);
        assert_eq!(kept(&history, 2), [0, 3000, 3000]);
        assert_eq!(kept(&history, 9), [3000, 3000, 3000]);
    }

    /// Some providers number the calls of every turn from zero.
    #[test]
    fn results_are_matched_within_their_turn() {
        let long = "x".repeat(3000);
        let unanswered = vec![turn(&[write("a.md", &long)]).remove(0)];
        assert_eq!(kept(&[unanswered, turn(&[read("a.md", "xxx")])], 0), [3000]);
    }
}
