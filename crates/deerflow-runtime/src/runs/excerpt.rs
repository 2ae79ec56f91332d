//! Short texts about a run.

use deerflow_core::{StateUpdate, text};

/// Longest excerpt of a message in a run's row, in characters.
const EXCERPT: usize = 2000;

pub(crate) fn beginning(text: &str) -> String {
    text::head(text, EXCERPT).to_owned()
}

pub(crate) fn first_human(input: &StateUpdate) -> Option<String> {
    input.messages.iter().find(|message| message.role() == "human").map(|message| beginning(&message.text()))
}
