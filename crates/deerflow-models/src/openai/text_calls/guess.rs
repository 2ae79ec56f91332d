//! Whether a whole text is nothing but calls to offered tools. Only then is it read as that: the model was not told to
//! write calls so.

use super::{TextCall, body};
use deerflow_core::ToolSpec;
use std::sync::Arc;

/// More than this is no call but a document.
const LONGEST: usize = 256 * 1024;
const OPENERS: &[&str] = &["<tool_call>", "[TOOL_CALLS]", "<function=", "<minimax:tool_call>"];
const FENCES: &[&str] = &["json", "tool_call", "tool_calls", "tool_code", "tool", "xml"];
/// Keys that a call as JSON may start with.
const KEYS: &[&str] =
    &["name", "tool", "tool_name", "function", "arguments", "parameters", "args", "input", "type", "id", "tool_calls"];

/// Holds text back while it may still be a call.
#[derive(Debug)]
pub(super) struct Guess {
    offered: Vec<Arc<ToolSpec>>,
    held: String,
    /// Whether only JSON without fence or tag counts, since somebody else looks for those.
    bare: bool,
}

impl Guess {
    pub(super) fn new(offered: Vec<Arc<ToolSpec>>) -> Self {
        Self { offered, held: String::new(), bare: false }
    }
    pub(super) fn bare_json(offered: Vec<Arc<ToolSpec>>) -> Self {
        Self { offered, held: String::new(), bare: true }
    }

    /// Takes text; gives everything back once it is known to be plain.
    pub(super) fn push(&mut self, text: String) -> Option<String> {
        self.held.push_str(&text);
        let may_be = self.held.len() <= LONGEST
            && if self.bare { may_be_json_call(self.held.trim_start()) } else { may_be_call(&self.held) };
        (!may_be).then(|| std::mem::take(&mut self.held))
    }

    /// Gives up: what was held is plain text.
    pub(super) fn release(self) -> String {
        self.held
    }

    /// The end of the text: the calls it consists of, or the text that was held back. With `cut`, a tag without its end is no
    /// call.
    pub(super) fn finish(self, cut: bool) -> Result<Vec<TextCall>, String> {
        match parse(self.held.trim(), &self.offered, cut) {
            Some(calls) if !calls.is_empty() && calls.iter().all(|call| self.offers(call)) => Ok(calls),
            _ => Err(self.held),
        }
    }

    fn offers(&self, call: &TextCall) -> bool {
        call.name.as_ref().is_some_and(|name| self.offered.iter().any(|tool| tool.name == *name))
    }
}

fn may_be_call(text: &str) -> bool {
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

fn parse(text: &str, offered: &[Arc<ToolSpec>], cut: bool) -> Option<Vec<TextCall>> {
    if let Some(fenced) = text.strip_prefix("```") {
        let (_, inner) = fenced.split_once('\n')?;
        let inner = inner.trim_end();
        let inner = inner.strip_suffix("```").unwrap_or(inner).trim();
        return if inner.contains("\n```") { None } else { parse(inner, offered, cut) };
    }
    if let Some(list) = text.strip_prefix("[TOOL_CALLS]") {
        return body::json(list.trim(), true);
    }
    if text.starts_with('<') {
        return tagged(text, offered, cut);
    }
    if text.starts_with('{') || text.starts_with('[') { body::json(text, true) } else { None }
}

/// Tagged calls in a row, the last of them perhaps without its end.
fn tagged(text: &str, offered: &[Arc<ToolSpec>], cut: bool) -> Option<Vec<TextCall>> {
    let mut calls = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (open, close) = [
            ("<tool_call>", "</tool_call>"),
            ("<minimax:tool_call>", "</minimax:tool_call>"),
            // The name stands in the tag.
            ("<function=", "</function>"),
        ]
        .into_iter()
        .find(|(open, _)| rest.starts_with(open))?;
        let (inside, after) = match rest.split_once(close) {
            Some(found) => found,
            None if cut || rest.rfind("<parameter") > rest.rfind("</parameter>") => return None,
            None => (rest, ""),
        };
        let inside = if open == "<function=" { inside } else { &inside[open.len()..] };
        calls.extend(body::calls(inside.trim(), offered, true)?);
        rest = after.trim_start();
    }
    Some(calls)
}
