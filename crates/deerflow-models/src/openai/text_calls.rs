//! Tool calls that a model writes as text, because its server has no parser for them or because its profile says so.
//!
//! On the way in, text is held back as long as it may be part of a call, so that nobody sees a call raw, however the
//! network cuts it. On the way out, [`write`] describes the tools and writes earlier calls and results as text.

mod body;
mod guess;
mod scan;
#[cfg(test)]
mod tests;
mod write;

pub(super) use write::as_text;

use crate::quirks::ToolCalls;
use deerflow_core::{ToolCallChunk, ToolSpec};
use guess::Guess;
use scan::Scanner;
use std::sync::Arc;

/// A call found in text.
#[derive(Debug, Clone, PartialEq)]
struct TextCall {
    /// The tool; `None` when the call names none.
    name: Option<String>,
    /// JSON text. What is no object makes the call an invalid one, which the model is told.
    args: String,
}

/// Reads calls out of the text of one reply.
#[derive(Debug)]
pub(super) struct TextCalls {
    /// Whether the whole text may be calls.
    guess: Option<Guess>,
    /// Finds calls among other text.
    scanner: Option<Scanner>,
    /// White space at the end of what may be shown: beside calls it means nothing.
    space: String,
    found: Vec<TextCall>,
}

impl TextCalls {
    /// Reads as `how` says, for a request that offered these tools.
    pub(super) fn new(how: ToolCalls, offered: Vec<Arc<ToolSpec>>) -> Self {
        let (guess, scanner) = match how {
            ToolCalls::Native => (None, None),
            ToolCalls::NativeOrText => ((!offered.is_empty()).then(|| Guess::new(offered)), None),
            // A history with calls may lead a model to write more of them, though no tool is offered.
            ToolCalls::Text(format) => Scanner::new(format, offered.clone()).map_or((None, None), |scanner| {
                ((!offered.is_empty()).then(|| Guess::bare_json(offered)), Some(scanner))
            }),
        };
        Self { guess, scanner, space: String::new(), found: Vec::new() }
    }

    /// Takes text; gives back what may be shown now.
    pub(super) fn push(&mut self, text: String) -> String {
        let text = match &mut self.guess {
            Some(guess) => match guess.push(text) {
                Some(released) => {
                    self.guess = None;
                    released
                }
                None => return String::new(),
            },
            None => text,
        };
        self.scan(text)
    }

    /// The server has given a call itself: what was only guessed at is text.
    pub(super) fn native(&mut self) -> String {
        let Some(guess) = self.guess.take() else { return String::new() };
        let held = guess.release();
        self.scan(held)
    }

    /// The end of the text: what was held back and is no call. Afterwards [`TextCalls::calls`] are complete. `cut` says that
    /// the text was cut off, so that a call without its end is half a call.
    pub(super) fn finish(&mut self, cut: bool) -> String {
        let mut shown = String::new();
        if let Some(guess) = self.guess.take() {
            match guess.finish(cut) {
                Ok(calls) => self.found.extend(calls),
                Err(held) => shown = self.scan(held),
            }
        }
        if let Some(scanner) = &mut self.scanner {
            let mut last = String::new();
            scanner.finish(cut, &mut last, &mut self.found);
            shown += &self.without_space(last);
            if self.found.is_empty() {
                shown += &std::mem::take(&mut self.space);
            }
        }
        shown
    }

    /// The calls found since this was asked last, the first of them at this index of the turn.
    pub(super) fn calls(&mut self, first: u32) -> Vec<ToolCallChunk> {
        let chunk = |(index, call): (u32, TextCall)| ToolCallChunk {
            name: call.name,
            args: Some(call.args),
            id: None,
            index: Some(index),
        };
        (first..).zip(std::mem::take(&mut self.found)).map(chunk).collect()
    }

    fn scan(&mut self, text: String) -> String {
        let Some(scanner) = &mut self.scanner else { return text };
        let mut shown = String::new();
        scanner.push(&text, &mut shown, &mut self.found);
        self.without_space(shown)
    }

    /// `text` with the white space that was held back before it, and without that at its end.
    fn without_space(&mut self, text: String) -> String {
        let end = text.trim_end().len();
        let mut shown = String::new();
        if end > 0 {
            shown = std::mem::take(&mut self.space);
            shown.push_str(&text[..end]);
        }
        self.space.push_str(&text[end..]);
        shown
    }
}
