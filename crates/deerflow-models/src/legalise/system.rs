//! One system message, in front.

use deerflow_core::message::kwargs;
use deerflow_core::{Message, MessageKind};
use std::sync::Arc;

/// The one system message: the static prompt, then all system messages in their order, blank lines between. Of several
/// reminders with date and memory only the last is still true.
pub(super) fn merge(prompt: Option<&str>, messages: &[Arc<Message>]) -> Option<Arc<Message>> {
    let found: Vec<&Arc<Message>> =
        messages.iter().filter(|message| matches!(message.kind, MessageKind::System)).collect();
    let last_reminder = found.iter().rposition(|message| message.flag(kwargs::DYNAMIC_CONTEXT));
    let kept: Vec<&Arc<Message>> = found
        .into_iter()
        .enumerate()
        .filter(|(at, message)| !message.flag(kwargs::DYNAMIC_CONTEXT) || Some(*at) == last_reminder)
        .map(|(_, message)| message)
        .filter(|message| !message.text().trim().is_empty())
        .collect();
    let prompt = prompt.filter(|text| !text.trim().is_empty());
    if let (None, [only]) = (prompt, kept.as_slice())
        && matches!(only.content, deerflow_core::Content::Text(_))
    {
        return Some(Arc::clone(only));
    }
    let parts: Vec<std::borrow::Cow<'_, str>> =
        prompt.map(Into::into).into_iter().chain(kept.iter().map(|message| message.text())).collect();
    if parts.is_empty() {
        return None;
    }
    let mut merged = Message::system(parts.join("\n\n"));
    merged.id = kept.iter().find_map(|message| message.id.clone());
    Some(Arc::new(merged))
}
