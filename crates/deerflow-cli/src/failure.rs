//! How a command ends when it does not end well, and its exit code.

use owo_colors::{OwoColorize, Stream};
use std::process::ExitCode;

/// The run failed.
pub(crate) const RUN: u8 = 1;
/// Wrong usage or configuration.
pub(crate) const USAGE: u8 = 2;
/// The agent asked something and nobody can answer here.
pub(crate) const NEEDS_USER: u8 = 3;
/// Interrupted by the user.
pub(crate) const INTERRUPTED: u8 = 130;

/// A message for people and an exit code. A message that was shown already is empty.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) code: u8,
}

impl Failure {
    pub(crate) fn run(message: impl ToString) -> Self {
        Self { message: message.to_string(), code: RUN }
    }
    pub(crate) fn usage(message: impl ToString) -> Self {
        Self { message: message.to_string(), code: USAGE }
    }
    pub(crate) fn silent(code: u8) -> Self {
        Self { message: String::new(), code }
    }

    /// Prints the message, hints on lines of their own, and gives the exit code.
    #[expect(clippy::print_stderr, reason = "the edge where errors become text")]
    pub(crate) fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            let label = "error:";
            let label = label.if_supports_color(Stream::Stderr, |t| t.red());
            let text = crate::render::printable(&self.message).replace("; hint: ", "\n  hint: ");
            eprintln!("{label} {}", text.trim_end());
        }
        ExitCode::from(self.code)
    }
}
