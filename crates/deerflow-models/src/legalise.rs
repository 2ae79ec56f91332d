//! Makes a history valid for its provider. One step, used by every adapter before every request.
//!
//! The stored history stays as it is. What providers refuse with a 400, which then kills the thread for every later turn, is
//! mended here: calls without results, results without calls, broken calls, several system messages, empty turns, roles that
//! do not alternate. [`crate::testing::check_legal`] says the same rules a second time, independently.

mod calls;
mod content;
mod ids;
mod roles;
mod rules;
mod system;

pub use content::{image_url, is_image};
pub use rules::{IdRule, Rules};

use deerflow_core::{ChatRequest, Message, MessageKind};
use std::sync::Arc;

/// The messages to send for `request`: its system prompt first, then the conversation, legal by `rules`.
#[must_use]
pub fn legalise_request(rules: &Rules, request: &ChatRequest) -> Vec<Arc<Message>> {
    legalise(rules, request.system.as_deref(), &request.messages)
}

/// Makes `messages`, with `system` in front, legal by `rules`.
///
/// - Every tool call has exactly one result, right after its message and in call order. Missing results are replaced by a
///   short error; results of no call are left out, with one log line.
/// - Invalid calls become calls with empty arguments. Names and ids have the shape the provider wants; ids are unique.
/// - One system message at most, in front. No empty text, no empty turn.
/// - Roles as the provider wants them; user turns are joined block by block, so that their boundaries stay visible.
///
/// A message that is legal as it is comes back as the same `Arc`. Doing it twice changes nothing.
#[must_use]
pub fn legalise(rules: &Rules, system: Option<&str>, messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let head = system::merge(system, messages);
    let body: Vec<Arc<Message>> = messages
        .iter()
        .filter(|message| !matches!(message.kind, MessageKind::System | MessageKind::Remove))
        .cloned()
        .collect();
    let body = calls::settle(rules, &body);
    let body = body.into_iter().map(|message| content::clean(rules, message)).collect();
    let body = roles::arrange(rules, body);
    head.into_iter().chain(body).collect()
}

/// Only the first of those rules: each call has exactly one result, right after its message; nothing else is touched. For
/// middlewares, whose history still has system messages that belong to others.
#[must_use]
pub fn settle_calls(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    calls::settle(&Rules::openai(), messages)
}

#[cfg(test)]
pub(crate) mod tests;
