//! Reads tool calls that a model wrote as text, because its server has no parser for them.
//!
//! Only a text that is nothing but calls to offered tools counts. Until that is decided the text is held back, so that
//! nobody sees it raw.

use serde_json::Value;

/// More than this is no call but a document.
const LONGEST: usize = 256 * 1024;
const OPENERS: &[&str] = &["<tool_call>", "[TOOL_CALLS]"];
const FENCES: &[&str] = &["json", "tool_call", "tool_calls", "tool_code", "tool", "xml"];
/// Keys that a call as JSON may start with.
const KEYS: &[&str] =
    &["name", "tool", "tool_name", "function", "arguments", "parameters", "args", "input", "type", "id", "tool_calls"];

/// A call found in text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TextCall {
    pub(super) name: String,
    /// JSON text. What is no object makes the call an invalid one, which the model is told.
    pub(super) args: String,
}

/// Holds text back while it may still be a call.
#[derive(Debug)]
pub(super) struct TextCalls {
    offered: Vec<String>,
    /// `None` once the text is known to be plain.
    held: Option<String>,
}

impl TextCalls {
    pub(super) fn new(enabled: bool, offered: Vec<String>) -> Self {
        let held = (enabled && !offered.is_empty()).then(String::new);
        Self { offered, held }
    }

    /// Takes text; gives back what may be shown now.
    pub(super) fn push(&mut self, text: String) -> String {
        let Some(held) = &mut self.held else { return text };
        held.push_str(&text);
        if may_be_call(held) { String::new() } else { self.release() }
    }

    /// Gives up: what was held is plain text.
    pub(super) fn release(&mut self) -> String {
        self.held.take().unwrap_or_default()
    }

    /// The end of the text: the calls it consists of, or the text that was held back.
    pub(super) fn finish(&mut self) -> Result<Vec<TextCall>, String> {
        let held = self.release();
        match parse(held.trim(), &self.offered) {
            Some(calls) if !calls.is_empty() => Ok(calls),
            _ => Err(held),
        }
    }
}

fn may_be_call(text: &str) -> bool {
    if text.len() > LONGEST {
        return false;
    }
    let text = text.trim_start();
    if text.is_empty() || OPENERS.iter().any(|opener| opener.starts_with(text) || text.starts_with(opener)) {
        return true;
    }
    if "```".starts_with(text) {
        return true;
    }
    if let Some(fenced) = text.strip_prefix("```") {
        let Some((info, inner)) = fenced.split_once('\n') else {
            return FENCES.iter().any(|fence| fence.starts_with(fenced.trim_end()));
        };
        let info = info.trim();
        return (info.is_empty() || FENCES.contains(&info))
            && !inner.trim_start().starts_with("```")
            && may_be_call(inner);
    }
    may_be_json_call(text)
}

/// Whether a start of JSON may become a call: an object, or a list of them, whose first key is one of a call's.
fn may_be_json_call(text: &str) -> bool {
    let text = text.strip_prefix('[').unwrap_or(text).trim_start();
    if text.is_empty() {
        return true;
    }
    let Some(inner) = text.strip_prefix('{') else { return false };
    let inner = inner.trim_start();
    if inner.is_empty() {
        return true;
    }
    let Some(key) = inner.strip_prefix('"') else { return false };
    match key.split_once('"') {
        Some((key, _)) => KEYS.contains(&key),
        None => KEYS.iter().any(|known| known.starts_with(key)),
    }
}

fn parse(text: &str, offered: &[String]) -> Option<Vec<TextCall>> {
    if let Some(fenced) = text.strip_prefix("```") {
        let (_, inner) = fenced.split_once('\n')?;
        let inner = inner.trim_end();
        let inner = inner.strip_suffix("```").unwrap_or(inner).trim();
        return if inner.contains("\n```") { None } else { parse(inner, offered) };
    }
    if let Some(list) = text.strip_prefix("[TOOL_CALLS]") {
        return parse_json(list.trim(), offered);
    }
    if text.starts_with("<tool_call>") {
        let mut calls = Vec::new();
        let mut rest = text;
        while let Some(inner) = rest.strip_prefix("<tool_call>") {
            let (body, after) = inner.split_once("</tool_call>").unwrap_or((inner, ""));
            calls.extend(parse_json(body.trim(), offered)?);
            rest = after.trim_start();
        }
        return rest.is_empty().then_some(calls);
    }
    if text.starts_with('{') || text.starts_with('[') { parse_json(text, offered) } else { None }
}

fn parse_json(text: &str, offered: &[String]) -> Option<Vec<TextCall>> {
    let mut calls = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        collect(&value.ok()?, offered, &mut calls)?;
    }
    Some(calls)
}

fn collect(value: &Value, offered: &[String], calls: &mut Vec<TextCall>) -> Option<()> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| collect(item, offered, calls)),
        Value::Object(object) => {
            if let Some(list @ Value::Array(_)) = object.get("tool_calls") {
                return collect(list, offered, calls);
            }
            let (name_of, args_of) = match object.get("function") {
                Some(Value::Object(function)) => (function, function),
                _ => (object, object),
            };
            let name = ["name", "tool", "tool_name", "function"].iter().find_map(|key| name_of.get(*key)?.as_str())?;
            let args = ["arguments", "parameters", "args", "input"].iter().find_map(|key| args_of.get(*key))?;
            let args = match args {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            if !offered.iter().any(|tool| tool == name) {
                return None;
            }
            calls.push(TextCall { name: name.to_owned(), args });
            Some(())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    /// What is shown, and the names of the calls found.
    fn run(text: &str, size: usize) -> (String, Vec<String>) {
        let mut calls = TextCalls::new(true, vec!["bash".into(), "read_file".into()]);
        let chars: Vec<char> = text.chars().collect();
        let mut shown = String::new();
        for piece in chars.chunks(size.max(1)) {
            shown += &calls.push(piece.iter().collect());
        }
        match calls.finish() {
            Ok(found) => (
                shown,
                found.into_iter().map(|call| format!("{}{}", call.name, call.args.replace(": ", ":"))).collect(),
            ),
            Err(rest) => (shown + &rest, Vec::new()),
        }
    }

    #[test]
    fn calls_in_every_usual_spelling_are_read_and_never_shown() {
        let bash = r#"bash{"command":"ls"}"#;
        let one = r#"{"name": "bash", "arguments": {"command": "ls"}}"#;
        let texts = [
            one.to_owned(),
            format!("\n```json\n{one}\n```"),
            format!("```\n{one}\n```\n"),
            format!("<tool_call>\n{one}\n</tool_call>"),
            format!("<tool_call>{one}"),
            format!("[TOOL_CALLS][{one}]"),
            r#"{"function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}, "type": "function"}"#
                .replace(r#"{"function""#, r#"{"type": "function", "function""#)
                .replace(r#", "type": "function"}"#, "}"),
            r#"[{"name": "bash", "parameters": {"command": "ls"}}]"#.to_owned(),
            r#"{"tool": "bash", "args": {"command": "ls"}}"#.to_owned(),
        ];
        for text in texts {
            for size in [1, 4, 1000] {
                assert_eq!(run(&text, size), (String::new(), vec![bash.to_owned()]), "{text}");
            }
        }
        // Arguments that are no object: a call all the same, which the model is told is invalid.
        assert_eq!(run(r#"{"name": "bash", "arguments": ["ls"]}"#, 5).1, [r#"bash["ls"]"#]);
        let two = format!("<tool_call>{one}</tool_call>\n<tool_call>{one}</tool_call>");
        assert_eq!(run(&two, 3).1.len(), 2);
    }

    #[test]
    fn everything_else_is_shown_as_it_is() {
        for text in [
            "Hello.",
            r#"{"title": "Report", "name": "bash"}"#,
            r#"{"name": "rm", "arguments": {}}"#,
            r#"{"name": "bash"}"#,
            "```python\nprint(1)\n```",
            "```json\n{\"name\": \"bash\", \"arguments\": {}}\n```\nThat is how one would call it.",
            "{\"name\": \"bash\", \"arguments\": {}} is a call",
            "{",
            "",
            "<tool_call>nonsense</tool_call>",
            "[1, 2]",
        ] {
            for size in [1, 5, 1000] {
                assert_eq!(run(text, size), (text.to_owned(), Vec::new()));
            }
        }
    }

    #[test]
    fn plain_text_is_not_held_back() {
        let mut calls = TextCalls::new(true, vec!["bash".into()]);
        assert_eq!(calls.push("Hel".into()), "Hel");
        let mut calls = TextCalls::new(true, vec!["bash".into()]);
        assert_eq!(calls.push("{\"ti".into()), "{\"ti");
        let mut off = TextCalls::new(false, vec!["bash".into()]);
        assert_eq!(off.push("{\"name".into()), "{\"name");
    }

    proptest! {
        #[test]
        fn text_is_never_lost(text in "[`<{\\[\"a-z_>}\\] \n]{0,40}", size in 1usize..5) {
            let (shown, calls) = run(&text, size);
            prop_assert!(calls.is_empty());
            prop_assert_eq!(shown, text);
        }
    }
}
