//! What has happened so far, read from the messages alone.

use crate::lexicon::{cue, has};
use deerflow_core::{Message, ToolCall, ToolStatus, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Replies of a turn that may ask for more of a file.
const MAX_ROUNDS: usize = 20;
const MAX_FILES: usize = 20;

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
}

/// The last message of a person and what came since; what was read stays from before.
#[derive(Default)]
pub(crate) struct Turn {
    pub(crate) request: String,
    /// Files of this message.
    pub(crate) uploads: Vec<String>,
    /// By path.
    documents: BTreeMap<String, Document>,
    /// What stands beside an upload is no further one.
    texts: Vec<String>,
    /// What a listing of the uploads gave.
    pub(crate) listed: Option<Vec<String>>,
    /// Writes: path, and what went wrong.
    pub(crate) writes: Vec<(String, Option<String>)>,
    pub(crate) presented: bool,
    pub(crate) plans: usize,
    /// Whether something was said before.
    pub(crate) earlier: bool,
    /// Replies so far.
    pub(crate) steps: usize,
}

impl Turn {
    pub(crate) fn read(messages: &[Arc<Message>]) -> Self {
        let mut turn = Self::default();
        let mut calls: BTreeMap<&str, &ToolCall> = BTreeMap::new();
        for message in messages {
            if message.is_genuine_user() {
                let (request, uploads) = request_and_uploads(message);
                let mut texts = std::mem::take(&mut turn.texts);
                texts.extend(cue("text-version").captures_iter(&message.text()).map(|found| found[1].to_owned()));
                let earlier = turn.earlier || !turn.request.is_empty();
                // A new upload may have taken an old name.
                turn.documents.retain(|path, _| !uploads.contains(path));
                turn = Self { request, uploads, texts, documents: turn.documents, earlier, ..Self::default() };
            }
            turn.earlier |= message.name.as_deref() == Some("summary");
            turn.steps += usize::from(message.as_ai().is_some());
            calls.extend(message.tool_calls().iter().map(|call| (call.id(), call)));
            if let Some(part) = message.as_tool()
                && let Some(call) = calls.remove(part.tool_call_id.as_str())
            {
                let text = message.text();
                // A log may well open with "Error:"; a tool's message is short.
                let says_so = text.trim_start().starts_with("Error:") && text.lines().count() < 4;
                turn.take(call, &text, part.status == ToolStatus::Error || says_so);
            }
        }
        turn
    }

    fn take(&mut self, call: &ToolCall, text: &str, failed: bool) {
        let path = call.args.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
        match call.name.as_str() {
            // What was written is no source, and parts that another model has read stand for nothing.
            "read_file" if has("source", &path) && !call.args.contains_key("end_line") => {
                let start = call.args.get("start_line").and_then(Value::as_u64).and_then(|line| line.try_into().ok());
                self.documents.entry(path).or_default().take(start.unwrap_or(1), text, failed);
            }
            "write_file" => self.writes.push((path, failed.then(|| reason(text)))),
            "present_files" => self.presented = true,
            "write_todos" => self.plans += 1,
            "list_uploaded_files" => {
                let found = serde_json::from_str::<Value>(text).unwrap_or_default();
                let files = found["files"].as_array().into_iter().flatten();
                let paths = files.filter_map(|file| Some(file["path"].as_str()?.to_owned()));
                self.listed = Some(paths.filter(|path| !self.texts.contains(path)).take(MAX_FILES).collect());
            }
            _ => {}
        }
    }

    /// The files that have been read.
    pub(crate) fn known(&self) -> Vec<String> {
        self.documents.keys().cloned().collect()
    }

    /// The line from which each of these files must be read next, where it must.
    pub(crate) fn pending(&self, uploads: &[String]) -> Vec<(String, usize)> {
        let due = |path: &String| self.documents.get(path).map_or(Some(1), |document| document.next);
        let pending = uploads.iter().filter_map(|path| Some((path.clone(), due(path)?)));
        pending.filter(|_| self.steps < MAX_ROUNDS).collect()
    }

    /// What has been read of these files.
    pub(crate) fn documents(&self, uploads: &[String]) -> Vec<Document> {
        let read = |path: &String| {
            let mut document = self.documents.get(path).cloned().unwrap_or_default();
            document.name = file_name(path).to_owned();
            document.cut |= document.next.is_some();
            let empty = |(_, line): &(usize, String)| line.starts_with("<!--") || !line.contains(char::is_alphanumeric);
            if document.lines.iter().all(empty) {
                document.failure.get_or_insert("it has no text that could be read".to_owned());
            }
            document
        };
        uploads.iter().map(read).collect()
    }
}

impl Document {
    /// Takes in what the tool gave from line `start` on.
    pub(crate) fn take(&mut self, start: usize, text: &str, failed: bool) {
        if start == 1 {
            *self = Self::default();
        }
        self.next = None;
        let empty = text.trim().is_empty() || text == "(empty)";
        if failed || empty || text.starts_with("(start_line") {
            let why = if empty { "it is empty".to_owned() } else { reason(text) };
            self.failure = Some(why).filter(|_| self.lines.is_empty());
            self.cut |= failed;
            return;
        }
        let mut lines: Vec<&str> = text.lines().collect();
        let marker = lines.iter().rposition(|line| !has("note", line)).unwrap_or(0);
        if lines[marker].starts_with("... [truncated: ") {
            // Without a line to go on from the cut falls inside the last one; a line that fills a reply alone stays cut.
            let named = cue("go-on").captures(lines[marker]).and_then(|found| found[1].parse::<usize>().ok());
            let whole = named.map_or(marker - usize::from(marker > 1), |next| next.saturating_sub(start)).max(1);
            self.cut |= named.is_none() && marker < 2;
            lines.truncate(whole.min(marker));
            self.next = Some(start.saturating_add(whole));
        }
        self.lines.extend(lines.into_iter().enumerate().map(|(at, line)| (start.saturating_add(at), line.to_owned())));
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

/// What the person wrote, without what the server put around it, and the files that came with it or are named in it.
fn request_and_uploads(message: &Message) -> (String, Vec<String>) {
    let all = message.text();
    let (block, own) = all.rsplit_once("</current_uploads>").unwrap_or(("", &all));
    let own = own.split_once("--- BEGIN USER INPUT ---").map_or(own, |(_, own)| own);
    let own = own.rsplit_once("--- END USER INPUT ---").map_or(own, |(own, _)| own).trim();
    let found = cue("listed-path").captures_iter(block).chain(cue("typed-path").captures_iter(own));
    let mut uploads: Vec<String> = Vec::new();
    for path in found.filter_map(|found| found.iter().skip(1).flatten().next()).map(|path| path.as_str().to_owned()) {
        if uploads.len() < MAX_FILES && !uploads.contains(&path) {
            uploads.push(path);
        }
    }
    (own.to_owned(), uploads)
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
