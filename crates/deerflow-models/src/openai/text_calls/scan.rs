//! Finds calls among other text, character by character, so that it does not matter where the network cut.
//!
//! A mark inside inline code or a fenced block of code is text that talks about calls. A fence that holds nothing but calls
//! is not: models wrap their calls in one.

use super::{TextCall, body};
use deerflow_config::ToolCallFormat;
use deerflow_core::ToolSpec;
use std::sync::Arc;

/// A call longer than this, in bytes, is given up: its model is told that it cannot be read.
const LONGEST: usize = 4 * 1024 * 1024;
/// Most text that waits for what it begins: a fence, blank lines, a tag.
const LONGEST_BEGINNING: usize = 256;

/// How a call begins, and how it ends.
struct Mark {
    open: &'static str,
    close: &'static str,
    /// Whether the opening mark belongs to what is parsed.
    kept: bool,
}

const TAGS: &[Mark] = &[
    Mark { open: "<tool_call>", close: "</tool_call>", kept: false },
    Mark { open: "<minimax:tool_call>", close: "</minimax:tool_call>", kept: false },
    Mark { open: "<function_calls>", close: "</function_calls>", kept: false },
    Mark { open: "<function=", close: "</function>", kept: true },
    Mark { open: "<invoke name=", close: "</invoke>", kept: true },
];
/// Words behind a fence that may hold calls.
const FENCES: &[&str] = &["", "json", "tool_call", "tool_calls", "tool_code", "tool", "xml"];
/// Those that can hold nothing else.
const CALL_FENCES: &[&str] = &["tool_call", "tool_calls"];

/// Finds calls of one format.
#[derive(Debug)]
pub(super) struct Scanner {
    offered: Vec<Arc<ToolSpec>>,
    fenced_json: bool,
    state: State,
    code: Code,
}

#[derive(Debug)]
enum State {
    /// In text; its end that may begin a call.
    Text(String),
    /// In a call between tags.
    Call(Open),
    /// In a fenced block, which began with this line.
    Fence { head: String, word: String, inner: String },
    /// Behind a call that stood in a fence: its rest.
    Tail(String),
}

#[derive(Debug)]
struct Open {
    mark: &'static Mark,
    inner: String,
    depth: Depth,
    /// Calls of the same mark that began within it.
    nested: usize,
    /// The first line of the fence that it stands in; empty when it stands in none.
    fence: String,
}

impl Open {
    fn new(mark: &'static Mark, fence: String) -> Self {
        let inner = if mark.kept { mark.open.to_owned() } else { String::new() };
        Self { mark, inner, depth: Depth::default(), nested: 0, fence }
    }

    /// Takes a character; whether the call ends with it.
    fn take(&mut self, c: char) -> bool {
        self.inner.push(c);
        self.depth.take(c, &self.inner);
        if c == '>' || c == '=' {
            if !self.depth.is_outside() {
                return false;
            }
            if self.inner.ends_with(self.mark.open) {
                self.nested += 1;
            } else if self.inner.ends_with(self.mark.close) {
                if self.nested == 0 {
                    return true;
                }
                self.nested -= 1;
            }
        }
        false
    }
}

impl std::fmt::Debug for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.open)
    }
}

/// What a text may be the beginning of.
enum Beginning {
    /// A call; what stands before its mark is the fence around it.
    Call(&'static Mark),
    /// A block of fenced JSON: its first line and the word behind the fence.
    Fence(String),
    /// It cannot be told yet.
    Perhaps,
    Nothing,
}

impl Scanner {
    /// `None` for the native format, in which there is nothing to find.
    pub(super) fn new(format: ToolCallFormat, offered: Vec<Arc<ToolSpec>>) -> Option<Self> {
        let fenced_json = match format {
            ToolCallFormat::Native => return None,
            ToolCallFormat::FencedJson => true,
            ToolCallFormat::ToolCallTags | ToolCallFormat::Xml => false,
        };
        Some(Self { offered, fenced_json, state: State::Text(String::new()), code: Code::default() })
    }

    /// Takes text; what may be shown and what was called.
    pub(super) fn push(&mut self, text: &str, shown: &mut String, calls: &mut Vec<TextCall>) {
        for c in text.chars() {
            self.take(c, shown, calls);
        }
    }

    /// The end of the text. A call that was not closed is one all the same, unless the text was cut off or it ends within an
    /// argument: half an argument must not reach a tool.
    pub(super) fn finish(&mut self, cut: bool, shown: &mut String, calls: &mut Vec<TextCall>) {
        match std::mem::replace(&mut self.state, State::Text(String::new())) {
            State::Text(held) | State::Tail(held) => shown.push_str(&held),
            State::Call(open) if (cut || !open.depth.is_outside()) && body::resembles_call(&open.inner) => {
                calls.push(body::unreadable(open.inner.trim()));
            }
            State::Call(open) => drop(self.close(open, false, shown, calls)),
            State::Fence { head, word, inner } => self.close_fence(&head, &word, &inner, "", shown, calls),
        }
    }

    fn take(&mut self, c: char, shown: &mut String, calls: &mut Vec<TextCall>) {
        match &mut self.state {
            State::Text(held) => {
                held.push(c);
                self.settle(shown);
            }
            State::Call(open) => {
                let ends = open.take(c);
                if (ends || open.inner.len() > LONGEST)
                    && let State::Call(open) = std::mem::replace(&mut self.state, State::Text(String::new()))
                {
                    let fenced = !open.fence.is_empty();
                    if self.close(open, ends, shown, calls) && fenced {
                        self.state = State::Tail(String::new());
                    }
                }
            }
            State::Fence { inner, word, .. } => {
                inner.push(c);
                let ends = inner.ends_with("\n```") || inner == "```";
                let start = inner.trim_start();
                let json = start.is_empty() || start.starts_with(['{', '[', '`']);
                let other_code = !json && !CALL_FENCES.contains(&word.as_str());
                if !(ends || other_code || inner.len() > LONGEST) {
                    return;
                }
                let State::Fence { head, word, inner } = std::mem::replace(&mut self.state, State::Text(String::new()))
                else {
                    return;
                };
                if other_code && !ends {
                    // It need not wait for its end.
                    self.show(&head, shown);
                    return inner.chars().for_each(|c| self.take(c, shown, calls));
                }
                let (body, end) = if ends { inner.split_at(inner.len() - 3) } else { (inner.as_str(), "") };
                self.close_fence(&head, &word, body, end, shown, calls);
            }
            State::Tail(held) => {
                held.push(c);
                self.settle_tail(shown);
            }
        }
    }

    /// Decides about the held end of the text: shows what cannot begin a call.
    fn settle(&mut self, shown: &mut String) {
        let State::Text(held) = &mut self.state else { return };
        while !held.is_empty() {
            let beginning = if self.code.is_code() {
                Beginning::Nothing
            } else {
                begins(held, self.fenced_json, self.code.line_is_blank)
            };
            match beginning {
                Beginning::Perhaps if held.len() <= LONGEST_BEGINNING => return,
                Beginning::Call(mark) => {
                    let mut fence = std::mem::take(held);
                    fence.truncate(fence.len() - mark.open.len());
                    self.state = State::Call(Open::new(mark, fence));
                    return;
                }
                Beginning::Fence(word) => {
                    let head = std::mem::take(held);
                    self.state = State::Fence { head, word, inner: String::new() };
                    return;
                }
                Beginning::Nothing | Beginning::Perhaps => {
                    let c = held.remove(0);
                    self.code.take(c);
                    shown.push(c);
                }
            }
        }
    }

    /// Behind a call in a fence: more calls, the end of the fence, or text after all.
    fn settle_tail(&mut self, shown: &mut String) {
        let State::Tail(held) = &mut self.state else { return };
        let rest = held.trim_start();
        let waits = rest.is_empty() || ("```".starts_with(rest) && rest != "```");
        if waits && held.len() <= LONGEST_BEGINNING {
            return;
        }
        if rest == "```" {
            self.state = State::Text(String::new());
            return;
        }
        if let Some(mark) = TAGS.iter().find(|mark| mark.open == rest) {
            self.state = State::Call(Open::new(mark, "```\n".to_owned()));
        } else if !TAGS.iter().any(|mark| mark.open.starts_with(rest)) {
            let held = std::mem::take(held);
            self.state = State::Text(held);
            self.settle(shown);
        }
    }

    /// Ends a call; whether it was one.
    fn close(&mut self, open: Open, closed: bool, shown: &mut String, calls: &mut Vec<TextCall>) -> bool {
        let Open { mark, mut inner, fence, .. } = open;
        if closed {
            inner.truncate(inner.len() - mark.close.len());
        }
        match body::calls(&inner, &self.offered, false) {
            Some(found) => calls.extend(found),
            None if body::resembles_call(&inner) => calls.push(body::unreadable(inner.trim())),
            // Words between the marks: somebody writes about them.
            None => {
                let open = if mark.kept { "" } else { mark.open };
                for text in [fence.as_str(), open, &inner, if closed { mark.close } else { "" }] {
                    self.show(text, shown);
                }
                return false;
            }
        }
        true
    }

    fn show(&mut self, text: &str, shown: &mut String) {
        text.chars().for_each(|c| self.code.take(c));
        shown.push_str(text);
    }

    fn close_fence(
        &mut self,
        head: &str,
        word: &str,
        inner: &str,
        end: &str,
        shown: &mut String,
        calls: &mut Vec<TextCall>,
    ) {
        let of_calls = CALL_FENCES.contains(&word);
        let known =
            |call: &TextCall| call.name.as_ref().is_some_and(|name| self.offered.iter().any(|tool| tool.name == *name));
        match body::json(inner.trim(), !of_calls) {
            Some(found) if of_calls || found.iter().all(known) => calls.extend(found),
            _ if of_calls && !inner.trim().is_empty() => calls.push(body::unreadable(inner.trim())),
            // A block of JSON, or an empty one.
            _ => [head, inner, end].into_iter().for_each(|text| self.show(text, shown)),
        }
    }
}

/// What `text`, which follows on shown text, begins. With `line_start`, nothing but white space stands before it on its line.
fn begins(text: &str, fenced_json: bool, line_start: bool) -> Beginning {
    if !fenced_json {
        if let Some(mark) = TAGS.iter().find(|mark| text.starts_with(mark.open)) {
            return Beginning::Call(mark);
        }
        if TAGS.iter().any(|mark| mark.open.starts_with(text)) {
            return Beginning::Perhaps;
        }
    }
    if !line_start {
        return Beginning::Nothing;
    }
    if "```".starts_with(text) {
        return Beginning::Perhaps;
    }
    let Some(fenced) = text.strip_prefix("```") else { return Beginning::Nothing };
    let Some((info, inner)) = fenced.split_once('\n') else {
        let info = fenced.trim_end_matches('\r');
        return if FENCES.iter().any(|word| word.starts_with(info.trim_end())) {
            Beginning::Perhaps
        } else {
            Beginning::Nothing
        };
    };
    let word = info.trim();
    if !FENCES.contains(&word) {
        return Beginning::Nothing;
    }
    if fenced_json {
        return Beginning::Fence(word.to_owned());
    }
    let inner = inner.trim_start();
    if let Some(mark) = TAGS.iter().find(|mark| inner.starts_with(mark.open)) {
        return Beginning::Call(mark);
    }
    if TAGS.iter().any(|mark| mark.open.starts_with(inner)) { Beginning::Perhaps } else { Beginning::Nothing }
}

/// Whether the end of a call is its end, or a text within its arguments that looks like it.
#[derive(Debug, Default)]
struct Depth {
    /// Whether anything but white space has come, and whether that was the start of JSON.
    began: bool,
    json: bool,
    in_string: bool,
    escaped: bool,
    in_argument: bool,
}

impl Depth {
    /// Takes the last character of `inner`.
    fn take(&mut self, c: char, inner: &str) {
        if !self.began && !c.is_whitespace() {
            self.began = true;
            self.json = matches!(c, '{' | '[');
        }
        if self.json {
            match c {
                _ if self.escaped => self.escaped = false,
                '\\' if self.in_string => self.escaped = true,
                '"' => self.in_string = !self.in_string,
                _ => {}
            }
        } else if c == '=' && (inner.ends_with("<parameter=") || inner.ends_with("<parameter name=")) {
            self.in_argument = true;
        } else if c == '>' && inner.ends_with("</parameter>") {
            self.in_argument = false;
        }
    }

    fn is_outside(&self) -> bool {
        !self.in_string && !self.in_argument
    }
}

/// Where in Markdown the shown text ends.
#[derive(Debug)]
struct Code {
    fenced: bool,
    inline: bool,
    /// Backticks at the very end.
    ticks: usize,
    /// Whether those stand at the start of a line.
    ticks_lead: bool,
    /// Whether the line so far is white space.
    line_is_blank: bool,
}

impl Default for Code {
    fn default() -> Self {
        Self { fenced: false, inline: false, ticks: 0, ticks_lead: false, line_is_blank: true }
    }
}

impl Code {
    fn take(&mut self, c: char) {
        if c == '`' {
            if self.ticks == 0 {
                self.ticks_lead = self.line_is_blank;
            }
            self.ticks += 1;
            self.line_is_blank = false;
            return;
        }
        (self.fenced, self.inline) = self.effective();
        self.ticks = 0;
        if c == '\n' {
            // Code within a line ends with it: a forgotten tick must not hide every later call.
            self.inline = false;
            self.line_is_blank = true;
        } else if !c.is_whitespace() {
            self.line_is_blank = false;
        }
    }

    fn effective(&self) -> (bool, bool) {
        match self.ticks {
            0 => (self.fenced, self.inline),
            3.. if self.ticks_lead => (!self.fenced, false),
            _ if self.fenced => (true, false),
            _ => (false, !self.inline),
        }
    }

    fn is_code(&self) -> bool {
        let (fenced, inline) = self.effective();
        fenced || inline
    }
}
