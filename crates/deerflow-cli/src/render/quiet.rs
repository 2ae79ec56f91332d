//! The answer only.

use super::{Show, answer, printable};
use crate::commands::{Ended, describe_questions, say};
use deerflow_core::{AgentEvent, Interrupt};
use std::io::IsTerminal;

pub(super) struct Quiet;

impl Show for Quiet {
    fn event(&mut self, _event: &AgentEvent) {}
    fn finished(&mut self, ended: &Ended) {
        if let Some(text) = answer(ended) {
            // A file or a program gets the words as they are; a terminal would obey them.
            let shown = if std::io::stdout().is_terminal() { printable(&text) } else { text.as_str().into() };
            say(&shown);
        }
    }
    fn note(&mut self, _text: &str) {}
    fn question(&mut self, questions: &[Interrupt]) {
        say(&printable(&describe_questions(questions)));
    }
}
