//! What has happened so far, read from the messages alone.

use crate::lexicon::{cue, has};
use deerflow_core::{Message, ToolCall, ToolStatus, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Files of a message that are read.
const MAX_FILES: usize = 20;

/// A file as far as it has been read.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) path: String,
    pub(crate) lines: Vec<String>,
    /// Why there is nothing to quote.
    pub(crate) failure: Option<String>,
    /// A part of it could not be read.
    pub(crate) cut: bool,
    /// The number of the line to go on from, while there is more.
    pub(crate) next: Option<usize>,
}

/// The last message of a person and what came since; the files stay from before.
#[derive(Default)]
pub(crate) struct Turn {
    /// What the person wrote, without what the server put around it.
    pub(crate) request: String,
    /// Files that came with a message or are named in it, the newest last.
    pub(crate) documents: Vec<Document>,
    /// How many of them are of this message.
    pub(crate) fresh: usize,
    /// Where the report was written, or why that failed.
    pub(crate) written: Option<Result<String, String>>,
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
                turn = Self::asked(&message.text(), turn.documents);
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

    /// A message of a person, after these files.
    fn asked(text: &str, mut documents: Vec<Document>) -> Self {
        let own = cue("own-words").captures(text).and_then(|found| found.get(1)).map_or(text, |own| own.as_str());
        let paths = cue("path").captures_iter(text).filter_map(|found| found.iter().skip(1).flatten().next());
        let mut seen = BTreeSet::new();
        let fresh = paths.map(|path| path.as_str()).filter(|path| seen.insert(*path)).take(MAX_FILES);
        let fresh: Vec<Document> = fresh.map(Document::new).collect();
        // A new upload may have taken an old name.
        documents.retain(|document| !seen.contains(document.path.as_str()));
        let count = fresh.len();
        documents.extend(fresh);
        Self { request: own.to_owned(), documents, fresh: count, ..Self::default() }
    }

    fn take(&mut self, call: &ToolCall, text: &str, failed: bool) {
        let path = call.args.get("path").and_then(Value::as_str).unwrap_or_default();
        match call.name.as_str() {
            // A part that another model has read stands for nothing.
            "read_file" if !call.args.contains_key("end_line") => {
                let start = call.args.get("start_line").and_then(Value::as_u64).unwrap_or(1) as usize;
                let document = self.documents.iter_mut().find(|document| document.path == path);
                document.into_iter().for_each(|document| document.take(start, text, failed));
            }
            "write_file" => self.written = Some(if failed { Err(reason(text)) } else { Ok(path.to_owned()) }),
            "present_files" => self.presented = true,
            _ => {}
        }
    }
}

impl Document {
    /// A file of which nothing has been read.
    pub(crate) fn new(path: &str) -> Self {
        let failure = Some("it has no text that could be read".to_owned());
        Self { path: path.to_owned(), lines: Vec::new(), failure, cut: false, next: Some(1) }
    }

    /// Takes in what the tool gave from line `start` on.
    pub(crate) fn take(&mut self, start: usize, text: &str, failed: bool) {
        self.lines.truncate(start.saturating_sub(1));
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
        self.lines.extend(lines.into_iter().map(str::to_owned));
    }

    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// The first line of an error, without the word.
fn reason(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    text::ellipsis(line.trim_start_matches("Error:").trim(), 200)
}
