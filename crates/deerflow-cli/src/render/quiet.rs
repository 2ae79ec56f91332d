//! The answer only.

use super::{Show, answer};
use crate::commands::{Ended, say};
use deerflow_core::AgentEvent;

pub(super) struct Quiet;

impl Show for Quiet {
    fn event(&mut self, _event: &AgentEvent) {}
    fn finished(&mut self, ended: &Ended) {
        if let Some(text) = answer(ended) {
            say(&text);
        }
    }
    fn note(&mut self, _text: &str) {}
}
