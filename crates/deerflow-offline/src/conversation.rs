//! What has happened so far, read from the messages alone.

use crate::lexicon::{cue, has};
use deerflow_core::{Message, ToolCall, ToolStatus, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Files of a turn that are read.
const MAX_FILES: usize = 20;

/// A file as far as it has been read.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) path: String,
    /// Lines with their numbers from 1.
    pub(crate) lines: Vec<(usize, String)>,
    /// Why there is nothing to quote.
    pub(crate) failure: Option<String>,
    /// A part of it could not be read.
    pub(crate) cut: bool,
    /// The line to go on from, while there is more.
    pub(crate) next: Option<usize>,
}

/// The last message of a person and what came since; what was read stays from before.
#[derive(Default)]
pub(crate) struct Turn {
    /// What the person wrote, without what the server put around it.
    pub(crate) request: String,
    /// Files that came with this message or are named in it.
    pub(crate) uploads: Vec<String>,
    /// By path.
    documents: BTreeMap<String, Document>,
    /// What a listing of the uploads gave.
    pub(crate) listed: Option<Vec<String>>,
    /// Writes: path, and what went wrong.
    pub(crate) writes: Vec<(String, Option<String>)>,
    pub(crate) presented: bool,
    /// Replies so far.
    pub(crate) steps: usize,
}

impl Turn {
    pub(crate) fn read(messages: &[Arc<Message>]) -> Self {
        let mut turn = Self::default();
        let mut calls: BTreeMap<&str, &ToolCall> = BTreeMap::new();
        for message in messages {
            if message.is_genuine_user() {
                turn = Self { documents: turn.documents, ..Self::asked(&message.text()) };
                // A new upload may have taken an old name.
                turn.documents.retain(|path, _| !turn.uploads.contains(path));
            }
            turn.steps += usize::from(message.as_ai().is_some());
            calls.extend(message.tool_calls().iter().map(|call| (call.id(), call)));
            if let Some(part) = message.as_tool()
                && let Some(call) = calls.remove(part.tool_call_id.as_str())
            {
                turn.take(call, &message.text(), part.status == ToolStatus::Error);
            }
        }
        turn
    }

    fn asked(text: &str) -> Self {
        let own = cue("own-words").captures(text).and_then(|found| found.get(1)).map_or(text, |own| own.as_str());
        let mut seen = BTreeSet::new();
        let paths = cue("path").captures_iter(text).filter_map(|found| found.iter().skip(1).flatten().next());
        let paths = paths.map(|path| path.as_str().to_owned()).filter(|path| seen.insert(path.clone()));
        Self { request: own.to_owned(), uploads: paths.take(MAX_FILES).collect(), ..Self::default() }
    }

    fn take(&mut self, call: &ToolCall, text: &str, failed: bool) {
        let path = call.args.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
        match call.name.as_str() {
            // What was written is no source, and parts that another model has read stand for nothing.
            "read_file" if has("source", &path) && !call.args.contains_key("end_line") => {
                let start = call.args.get("start_line").and_then(Value::as_u64).unwrap_or(1) as usize;
                self.documents.entry(path.clone()).or_insert(Document::new(path)).take(start, text, failed);
            }
            "write_file" => self.writes.push((path, failed.then(|| reason(text)))),
            "present_files" => self.presented = true,
            "list_uploaded_files" => {
                let found = serde_json::from_str::<Value>(text).unwrap_or_default();
                let paths = found["files"].as_array().into_iter().flatten().filter_map(|file| file["path"].as_str());
                self.listed = Some(paths.map(str::to_owned).take(MAX_FILES).collect());
            }
            _ => {}
        }
    }

    /// The files that have been read.
    pub(crate) fn known(&self) -> Vec<String> {
        self.documents.keys().cloned().collect()
    }

    /// These files, as far as they have been read.
    pub(crate) fn documents(&self, paths: &[String]) -> Vec<Document> {
        paths.iter().map(|path| self.documents.get(path).cloned().unwrap_or(Document::new(path.clone()))).collect()
    }
}

impl Document {
    /// A file of which nothing has been read.
    pub(crate) fn new(path: String) -> Self {
        let failure = Some("it has no text that could be read".to_owned());
        Self { path, lines: Vec::new(), failure, cut: false, next: Some(1) }
    }

    /// Takes in what the tool gave from line `start` on.
    pub(crate) fn take(&mut self, start: usize, text: &str, failed: bool) {
        if start == 1 {
            *self = Self::new(std::mem::take(&mut self.path));
        }
        self.next = None;
        self.cut |= failed;
        if failed || text == "(empty)" || text.starts_with("(start_line") {
            if self.lines.is_empty() {
                self.failure = Some(if failed { reason(text) } else { "it is empty".to_owned() });
            }
            return;
        }
        let mut lines: Vec<&str> = text.lines().collect();
        let marker = lines.iter().rposition(|line| !has("note", line)).unwrap_or(0);
        if let Some(line) = lines.get(marker).filter(|line| line.starts_with("... [truncated: ")) {
            // A line that fills a reply alone stays cut, and names none to go on from.
            let named = cue("go-on").captures(line).and_then(|found| found[1].parse::<usize>().ok());
            let whole = named.map_or(1, |next| next.saturating_sub(start)).max(1);
            self.cut |= named.is_none();
            self.next = Some(start.saturating_add(whole));
            lines.truncate(whole.min(marker));
        }
        let says = |line: &&str| !line.starts_with("<!--") && line.contains(char::is_alphanumeric);
        self.failure.take_if(|_| lines.iter().any(says));
        self.lines.extend(lines.into_iter().enumerate().map(|(at, line)| (start.saturating_add(at), line.to_owned())));
    }

    pub(crate) fn name(&self) -> &str {
        file_name(&self.path)
    }
}

pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The first line of an error, without the word.
fn reason(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    text::ellipsis(line.trim_start_matches("Error:").trim(), 200)
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
