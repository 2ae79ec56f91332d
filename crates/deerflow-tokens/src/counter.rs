//! Estimates that are remembered per message.

use crate::message_tokens;
use deerflow_core::{Content, Message};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Remembers the estimate of each message it has seen, so that looking at a long thread before every model call costs what
/// is new and not what is old. Cheap to share; the lock is never held while counting.
#[derive(Debug, Default)]
pub struct TokenCounter {
    known: Mutex<HashMap<String, (usize, u64)>>,
}

/// Entries kept. Beyond it everything is forgotten at once, which is rare and only costs time.
const CAPACITY: usize = 50_000;

impl TokenCounter {
    /// The estimate for one message. A message without an id is counted anew each time.
    #[must_use]
    pub fn count(&self, message: &Message) -> u64 {
        let Some(id) = message.id.as_deref().filter(|id| !id.is_empty()) else { return message_tokens(message) };
        let size = size(message);
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known_size, tokens)) = lock().get(id)
            && *known_size == size
        {
            return *tokens;
        }
        let tokens = message_tokens(message);
        let mut known = lock();
        if known.len() >= CAPACITY {
            known.clear();
        }
        known.insert(id.to_owned(), (size, tokens));
        tokens
    }
    /// The sum over messages.
    pub fn total<M: AsRef<Message>>(&self, messages: impl IntoIterator<Item = M>) -> u64 {
        messages.into_iter().map(|message| self.count(message.as_ref())).sum()
    }
}

/// Bytes of content, calls and thinking: changes whenever a message of the same id was replaced by a longer or shorter one,
/// which is what makes a remembered estimate wrong.
fn size(message: &Message) -> usize {
    let content = match &message.content {
        Content::Text(text) => text.len(),
        Content::Blocks(blocks) => {
            blocks.iter().map(|block| 1 + block.text().map_or_else(|| block.kind().len(), str::len)).sum()
        }
    };
    let calls = message.as_ai().map_or(0, |part| part.tool_calls.len() + part.invalid_tool_calls.len());
    let arguments: usize = message
        .tool_calls()
        .iter()
        .flat_map(|call| call.args.values())
        .map(|value| value.as_str().map_or(8, str::len))
        .sum();
    let thinking = message
        .additional_kwargs
        .get(deerflow_core::message::kwargs::REASONING_CONTENT)
        .and_then(serde_json::Value::as_str)
        .map_or(0, str::len);
    content + calls + arguments + thinking
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_message_that_was_replaced_under_its_id_is_counted_anew() {
        let counter = TokenCounter::default();
        let long = Arc::new(Message::human("hello ".repeat(100)).with_id("m"));
        let short = Arc::new(Message::human("hello").with_id("m"));
        assert_eq!(counter.count(&long), message_tokens(&long));
        assert_eq!(counter.count(&long), message_tokens(&long));
        assert_eq!(counter.count(&short), message_tokens(&short));
        assert_eq!(counter.total([&long, &short]), message_tokens(&long) + message_tokens(&short));
    }
}
