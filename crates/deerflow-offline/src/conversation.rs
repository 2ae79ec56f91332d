//! What has happened so far, read from the messages alone.

use crate::lexicon::patterns;
use deerflow_core::{JsonMap, Message, ToolStatus, message::kwargs, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Calls for one file, and for one turn.
const MAX_READS: usize = 20;
const MAX_READS_IN_TURN: usize = 40;
const MAX_FILES: usize = 20;

patterns! {
    BLOCKS = r"(?s)<(current_uploads|uploaded_files|system-reminder|system_reminder|memory|slash_skill_activation)>.*?</(?:current_uploads|uploaded_files|system-reminder|system_reminder|memory|slash_skill_activation)>";
    UPLOADS = r"(?s)<(?:current_uploads|uploaded_files)>(.*?)(?:</(?:current_uploads|uploaded_files)>|--- BEGIN USER INPUT|$)";
    INPUT = r"(?s)--- BEGIN USER INPUT ---\n?(.*?)\n?--- END USER INPUT ---";
    BULLET = r"(?m)^\s*[-*] (.+?) \([\d.,]+ ?[KMG]?i?B";
    NAMED_THEN_NOTE = r"^(.*?\.\w{1,8}) \(.*\)$";
    MARKER = r"(?is)^\W*(?:\w+ ){0,4}truncated.*\d.*(?:start_line|chars|characters|lines)";
}

/// A file as far as it has been read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Document {
    pub(crate) name: String,
    /// Lines with their numbers from 1.
    pub(crate) lines: Vec<(usize, String)>,
    /// Why there is nothing to quote.
    pub(crate) failure: Option<String>,
    /// Some of the file was not read.
    pub(crate) cut: bool,
    /// The line to go on from, while there is more.
    next: Option<usize>,
    reads: usize,
    current: bool,
}

struct Exchange {
    name: String,
    args: JsonMap,
    result: Option<(String, bool)>,
    current: bool,
}

/// The conversation; "current" is what came since the last message of a person.
#[derive(Default)]
pub(crate) struct Turn {
    pub(crate) request: String,
    pub(crate) uploads: Vec<String>,
    documents: BTreeMap<String, Document>,
    /// Paths in the order in which they were first read.
    pub(crate) known: Vec<String>,
    /// What a listing of the uploads gave in this turn.
    pub(crate) listed: Option<Vec<String>>,
    /// Writes of this turn: path, and what went wrong.
    pub(crate) writes: Vec<(String, Option<String>)>,
    /// Whether presenting worked, once tried.
    pub(crate) presented: Option<bool>,
    pub(crate) todo_calls: usize,
    /// Whether a person said something before, or a summary stands for it.
    pub(crate) earlier: bool,
    /// Assistant messages of this turn.
    pub(crate) steps: usize,
    reads: usize,
}

impl Turn {
    pub(crate) fn read(messages: &[Arc<Message>]) -> Self {
        let mut turn = Self::default();
        let start = messages.iter().rposition(|message| message.is_genuine_user());
        if let Some(message) = start.map(|at| &messages[at]) {
            turn.request = request_text(message);
            turn.uploads = uploads_of(message, &turn.request);
        }
        let start = start.unwrap_or(0);
        turn.earlier = messages[..start].iter().any(|m| m.is_genuine_user() || m.name.as_deref() == Some("summary"));
        let mut exchanges: Vec<Exchange> = Vec::new();
        let mut open: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, message) in messages.iter().enumerate() {
            turn.steps += usize::from(at >= start && message.as_ai().is_some());
            for call in message.tool_calls() {
                open.insert(call.id(), exchanges.len());
                let (name, args) = (call.name.clone(), call.args.clone());
                exchanges.push(Exchange { name, args, result: None, current: at >= start });
            }
            if let Some(part) = message.as_tool()
                && let Some(call) = open.remove(part.tool_call_id.as_str())
            {
                let text = message.text().into_owned();
                // A log may well open with "Error:"; a tool's message is short.
                let says_so = text.trim_start().starts_with("Error:") && text.lines().count() < 4;
                let failed = part.status == ToolStatus::Error || says_so;
                exchanges[call].result = Some((text, failed));
            }
        }
        let written: BTreeSet<String> =
            exchanges.iter().filter(|e| e.name == "write_file").filter_map(|e| string(&e.args, "path")).collect();
        for exchange in &exchanges {
            turn.take(exchange, &written);
        }
        turn
    }

    fn take(&mut self, exchange: &Exchange, written: &BTreeSet<String>) {
        let (text, failed) = match &exchange.result {
            Some((text, failed)) => (text.as_str(), *failed),
            None => ("Error: the tool gave no result", true),
        };
        match exchange.name.as_str() {
            "read_file" => {
                self.reads += usize::from(exchange.current);
                if let Some(path) = string(&exchange.args, "path").filter(|p| is_source(p) && !written.contains(p)) {
                    if !self.documents.contains_key(&path) {
                        self.known.push(path.clone());
                    }
                    let line = exchange.args.get("start_line").and_then(Value::as_u64).unwrap_or(1);
                    let document = self.documents.entry(path.clone()).or_default();
                    document.name = file_name(&path).to_owned();
                    document.take(usize::try_from(line).unwrap_or(1).max(1), text, failed);
                    document.current |= exchange.current;
                }
            }
            "write_file" if exchange.current => {
                let error = failed.then(|| reason(text));
                self.writes.extend(string(&exchange.args, "path").map(|path| (path, error)));
            }
            "present_files" if exchange.current => self.presented = Some(!failed),
            "write_todos" if exchange.current => self.todo_calls += 1,
            "list_uploaded_files" if exchange.current => {
                self.listed = Some(if failed { Vec::new() } else { listing(text) });
            }
            _ => {}
        }
    }

    /// The line from which each of these files must be read next, where it must.
    pub(crate) fn pending(&self, uploads: &[String], anew: bool) -> Vec<(String, usize)> {
        let due = |path: &String| match self.documents.get(path) {
            Some(document) if document.current || !anew => document.next.filter(|_| document.reads < MAX_READS),
            _ => Some(1),
        };
        let pending = uploads.iter().filter_map(|path| due(path).map(|line| (path.clone(), line)));
        pending.take(MAX_READS_IN_TURN.saturating_sub(self.reads)).collect()
    }

    /// What has been read of these files.
    pub(crate) fn documents(&self, uploads: &[String]) -> Vec<Document> {
        let read = |path: &String| {
            let mut document = self.documents.get(path).cloned().unwrap_or_default();
            document.name = file_name(path).to_owned();
            document.cut |= document.next.is_some();
            if document.failure.is_none() && document.lines.is_empty() {
                document.failure = Some("it was not read".to_owned());
            }
            document
        };
        uploads.iter().map(read).collect()
    }
}

impl Document {
    /// A document that is all there.
    pub(crate) fn whole(name: &str, text: &str) -> Self {
        let mut document = Self { name: name.to_owned(), ..Self::default() };
        document.take(1, text, false);
        document
    }

    fn take(&mut self, start: usize, text: &str, failed: bool) {
        if start == 1 {
            *self = Self { name: std::mem::take(&mut self.name), ..Self::default() };
        }
        self.reads += 1;
        let expected = self.next.take().unwrap_or(start);
        let nothing = ["(empty)", "(start_line", "(end_line"].iter().any(|note| text.trim().starts_with(note));
        if failed || nothing || text.trim().is_empty() {
            if self.lines.is_empty() {
                let empty = !failed || text.trim().is_empty();
                self.failure = Some(if empty { "it is empty".to_owned() } else { reason(text) });
            }
            self.cut |= failed;
            return;
        }
        if start < expected {
            return;
        }
        let (shown, more) = without_marker(text);
        let mut lines: Vec<&str> = shown.split('\n').map(|line| line.trim_end_matches('\r')).collect();
        if more {
            // The cut falls inside the last line: read that one again, unless it alone fills a reply.
            if lines.len() > 1 {
                lines.pop();
            } else {
                self.cut = true;
            }
            self.next = Some(start.saturating_add(lines.len()));
        }
        self.lines.extend(lines.iter().enumerate().map(|(at, line)| (start.saturating_add(at), (*line).to_owned())));
        let letters = |line: &str| !line.trim_start().starts_with("<!--") && line.chars().any(char::is_alphanumeric);
        if self.next.is_none() && !self.lines.iter().any(|(_, line)| letters(line)) {
            self.failure = Some("it has no text that could be read".to_owned());
        }
    }
}

/// The text before the tool's truncation marker, and whether there was one.
fn without_marker(text: &str) -> (&str, bool) {
    let tail = text::tail(text, 600);
    let offset = text.len() - tail.len();
    let Some(word) = tail.rfind("truncated") else { return (text, false) };
    let at = tail[..word].rfind('\n').map_or(0, |at| at + 1);
    if !MARKER.is_match(&tail[at..]) {
        return (text, false);
    }
    (text[..offset + at].trim_end_matches('\n'), true)
}

fn string(args: &JsonMap, key: &str) -> Option<String> {
    args.get(key).and_then(Value::as_str).map(str::to_owned)
}
fn is_source(path: &str) -> bool {
    path.starts_with("/mnt/user-data/")
}
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
/// The first line of an error, without the word.
fn reason(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    text::ellipsis(line.trim_start_matches("Error:").trim_start_matches("Error").trim(), 200)
}

/// What the person wrote, without what the server put around it.
fn request_text(message: &Message) -> String {
    let all = message.text();
    if let Some(found) = INPUT.captures_iter(&all).last() {
        return found[1].trim().to_owned();
    }
    if let Some(Value::String(original)) = message.additional_kwargs.get(kwargs::ORIGINAL_USER_CONTENT) {
        return original.trim().to_owned();
    }
    BLOCKS.replace_all(&all, "").trim().to_owned()
}

fn uploads_of(message: &Message, request: &str) -> Vec<String> {
    let all = message.text();
    let block: String = UPLOADS.captures_iter(&all).map(|found| format!("{}\n", &found[1])).collect();
    let bullets: BTreeSet<&str> = BULLET.captures_iter(&block).filter_map(|c| c.get(1)).map(|m| m.as_str()).collect();
    let mut listed = paths_in(&block);
    listed.extend(paths_in(request));
    distinct(listed, &bullets)
}

/// Drops repeated paths, and `a.md` beside `a.pdf` unless it is an upload of its own: it is the same text once more.
fn distinct(listed: Vec<String>, own: &BTreeSet<&str>) -> Vec<String> {
    let mut uploads: Vec<String> = Vec::new();
    for path in listed {
        let stem = path.strip_suffix(".md").filter(|_| !own.contains(file_name(&path)));
        let copy = |other: &String| other.rsplit_once('.').is_some_and(|(other, _)| Some(other) == stem);
        if uploads.len() < MAX_FILES && !uploads.contains(&path) && !uploads.iter().any(copy) {
            uploads.push(path);
        }
    }
    uploads
}

fn listing(text: &str) -> Vec<String> {
    let listed = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(map)) => {
            let files = map.get("files").and_then(Value::as_array).into_iter().flatten();
            files.filter_map(|file| file.get("path").and_then(Value::as_str)).map(str::to_owned).collect()
        }
        _ => paths_in(text),
    };
    distinct(listed, &BTreeSet::new())
}

/// The paths of uploads and workspace files in a text: quoted, at the end of a line of their own, or up to a space.
fn paths_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut from = 0;
        while let Some(at) = line[from..].find("/mnt/user-data/").map(|at| from + at) {
            let (before, rest) = line.split_at(at);
            let closing = before.chars().next_back().and_then(|open| {
                let pairs = [('"', '"'), ('\'', '\''), ('`', '`'), ('<', '>'), ('“', '”'), ('「', '」')];
                pairs.iter().find(|(left, _)| *left == open).map(|(_, right)| *right)
            });
            let own_line = matches!(before.trim_end().chars().next_back(), None | Some(':' | '：' | '-' | '*'));
            let path = match closing {
                Some(close) => rest.split(close).next().unwrap_or(rest),
                None if own_line => NAMED_THEN_NOTE.captures(rest).and_then(|c| c.get(1)).map_or(rest, |m| m.as_str()),
                None => rest
                    .split([' ', '\t', ',', '，', '。'])
                    .next()
                    .unwrap_or(rest)
                    .trim_end_matches(['.', ';', ':', ')', '?', '!']),
            };
            let name = file_name(path).trim();
            let usable = !path.contains("/outputs/") && !name.is_empty() && !name.contains(['*', '?', '…']);
            if usable
                && ["/mnt/user-data/uploads/", "/mnt/user-data/workspace/"].iter().any(|dir| path.starts_with(dir))
            {
                found.push(path.trim().to_owned());
            }
            from = at + path.len().max("/mnt/user-data/".len());
        }
    }
    found
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
