//! Whether the model knows the file that it wants to change.

use super::{READ, READ_MARK, Target};
use deerflow_agent::{RunContext, ToolRequest};
use deerflow_core::{Message, ThreadState, ToolCall};
use deerflow_sandbox::{SandboxError, VirtualPath};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const WRITE: &str = "write_file";
const REPLACE: &str = "str_replace";
/// Lines from the end that a refusal proposes to read.
const LAST_LINES: usize = 30;
/// A shorter first line of an addition may well stand in the file already.
const TELLING_LINE_CHARS: usize = 4;

/// How a call changes a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// All of it: what is there afterwards is what the model wrote.
    Whole,
    /// More at its end; the text that is added.
    Append(String),
    /// A part of it.
    Part,
}

impl Change {
    pub(super) fn of(call: &ToolCall) -> Option<Self> {
        match call.name.as_str() {
            WRITE if appends(call) => {
                Some(Self::Append(call.args.get("content").and_then(Value::as_str).unwrap_or_default().to_owned()))
            }
            WRITE => Some(Self::Whole),
            REPLACE => Some(Self::Part),
            _ => None,
        }
    }
}

/// As lenient as the tool: models send flags as text and as numbers.
fn appends(call: &ToolCall) -> bool {
    match call.args.get("append") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !matches!(text.trim().to_ascii_lowercase().as_str(), "false" | "no" | "0"),
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(_) => true,
    }
}

/// The hash of a whole file, kept on the result that showed or made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    path: String,
    hash: String,
    /// `write` when the model made the file rather than read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

impl Mark {
    pub(super) fn read(path: &VirtualPath, hash: String) -> Self {
        Self { path: path.to_string(), hash, source: None }
    }
    pub(super) fn written(path: &VirtualPath, hash: String) -> Self {
        Self { source: Some("write".to_owned()), ..Self::read(path, hash) }
    }
    pub(super) fn put(self, message: &mut Message) {
        message.additional_kwargs.insert(READ_MARK.to_owned(), json!(self));
    }
    fn of(message: &Message) -> Option<Self> {
        message.as_tool()?;
        // A tool from outside could forge one.
        matches!(message.name.as_deref(), Some(READ | WRITE | REPLACE)).then_some(())?;
        Self::deserialize(message.additional_kwargs.get(READ_MARK)?).ok()
    }
    fn newest(state: &ThreadState, path: &VirtualPath) -> Option<Self> {
        state.messages.iter().rev().filter_map(|m| Self::of(m)).find(|mark| mark.path == path.as_str())
    }
    fn is_own(&self) -> bool {
        self.source.as_deref() == Some("write")
    }
}

/// What stands behind a change.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// The file as the newest mark has it.
    Known,
    /// Nothing that could be lost.
    Missing,
    /// Something that cannot be read as text. The tool says what is wrong with it.
    Unjudged,
    /// A file that the model does not know; why, and what to do.
    Unknown(String),
}

/// Judges a change of the file, whose lock is held.
pub(super) async fn judge(ctx: &RunContext, request: &ToolRequest, target: &Target, change: &Change) -> Base {
    let state = &request.context.state;
    let now = match target.hash(ctx).await {
        Ok(now) => now,
        Err(SandboxError::NotFound { .. }) => return Base::Missing,
        Err(error) => {
            tracing::debug!(%error, path = %target.path, "a file cannot be judged before a write");
            return Base::Unjudged;
        }
    };
    let mark = Mark::newest(state, &target.path);
    let known = mark.as_ref().is_some_and(|mark| mark.hash == now);
    let repeats = match (change, &mark) {
        (Change::Append(text), Some(mark)) if known && mark.is_own() => first_line(text),
        _ => None,
    };
    if known && repeats.is_none() {
        return Base::Known;
    }
    let file = match target.sandbox.read_text(&target.path).await {
        Ok(file) if file.size == 0 => return Base::Missing,
        Ok(file) => file,
        Err(SandboxError::NotFound { .. }) => return Base::Missing,
        Err(_) => return if known { Base::Known } else { Base::Unjudged },
    };
    let path = &target.path;
    let lines = file.text.lines().count();
    let read = format!(
        "Read it first (read_file, for example with start_line={} and end_line={lines})",
        lines.saturating_sub(LAST_LINES - 1).max(1)
    );
    if known {
        return match repeats.and_then(|line| file.text.lines().position(|l| l.trim() == line).map(|at| (line, at + 1)))
        {
            Some((line, at)) => Base::Unknown(format!(
                "the text to add begins with \"{}\", and line {at} of {path} says the same. {read} and add only what is not there.",
                deerflow_core::text::ellipsis(line, 80)
            )),
            None => Base::Known,
        };
    }
    let why = if changed_by_sibling(request, target) {
        "another call of the same turn changed it"
    } else if mark.is_some() {
        "it has changed since you last read or wrote it"
    } else {
        "you have not read it"
    };
    Base::Unknown(format!(
        "{path} exists ({lines} {}) and {why}. {read}, look at what is there, then call again.",
        if lines == 1 { "line" } else { "lines" }
    ))
}

/// The line that an addition begins with, if it is long enough to mean something.
fn first_line(text: &str) -> Option<&str> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    (line.chars().filter(|c| c.is_alphanumeric()).count() >= TELLING_LINE_CHARS).then_some(line)
}

/// Whether another call of the same message changes the same file.
fn changed_by_sibling(request: &ToolRequest, target: &Target) -> bool {
    let Some(message) = request.context.state.last_ai() else { return false };
    message.tool_calls().iter().any(|call| {
        let path = call.args.get("path").and_then(Value::as_str).unwrap_or_default();
        call.id != request.call.id
            && Change::of(call).is_some()
            && target.sandbox.parse_path(path).is_ok_and(|path| path == target.path)
    })
}
