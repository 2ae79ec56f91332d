//! The messages reducer: LangGraph's `add_messages`, in time linear in the write.

use crate::{Message, MessageKind, StateError};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What a null write is refused with; the gateway shows it to clients.
pub const MESSAGE_BOTH_SIDES: &str = "Must specify non-null arguments for both 'left' and 'right'.";

/// Folds one write into the conversation.
///
/// - A message without an id gets a UUID.
/// - A remove-all marker drops the history and everything of the write up to the last marker; what follows it becomes the
///   conversation as it is, duplicates included.
/// - A known id is replaced in place, at its latest position; an unknown one is appended.
/// - A removal takes effect at the end of the write, on every position of the id; a later replacement in the same write
///   cancels it.
///
/// # Errors
/// [`StateError::NoSuchMessage`] when a removal names an id that is not there. `messages` is unchanged then.
pub fn merge_messages(messages: &mut Vec<Arc<Message>>, write: &[Arc<Message>]) -> Result<(), StateError> {
    let is_marker = |m: &Arc<Message>| m.is_remove_all();
    if let Some(last) = write.iter().rposition(is_marker) {
        *messages = write[last + 1..].iter().map(with_id).collect();
        return Ok(());
    }

    // The common case, new messages at the end, must not index a long history: look at the write's ids only.
    let wanted: HashSet<&str> = write.iter().filter_map(|m| m.id.as_deref()).collect();
    let mut position: HashMap<String, usize> = HashMap::new();
    if !wanted.is_empty() {
        for (index, message) in messages.iter().enumerate() {
            if wanted.contains(message.id()) {
                position.insert(message.id().to_owned(), index);
            }
        }
    }
    // Plan first, so that a refused write changes nothing.
    enum Step {
        Replace(usize, Arc<Message>),
        Append(Arc<Message>),
    }
    let mut steps = Vec::with_capacity(write.len());
    let mut removed: HashSet<&str> = HashSet::new();
    let mut end = messages.len();
    for message in write {
        if matches!(message.kind, MessageKind::Remove) {
            let id = message.id.as_deref().filter(|id| position.contains_key(*id));
            let Some(id) = id else { return Err(StateError::NoSuchMessage { id: message.id().to_owned() }) };
            removed.insert(id);
        } else if let Some(index) = message.id.as_ref().and_then(|id| position.get(id)) {
            removed.remove(message.id());
            steps.push(Step::Replace(*index, message.clone()));
        } else {
            let message = with_id(message);
            position.insert(message.id().to_owned(), end);
            end += 1;
            steps.push(Step::Append(message));
        }
    }
    for step in steps {
        match step {
            Step::Replace(index, message) => messages[index] = message,
            Step::Append(message) => messages.push(message),
        }
    }
    if !removed.is_empty() {
        messages.retain(|m| !removed.contains(m.id()));
    }
    Ok(())
}

fn with_id(message: &Arc<Message>) -> Arc<Message> {
    if message.id.is_some() {
        return message.clone();
    }
    let mut owned = Message::clone(message);
    owned.ensure_id();
    Arc::new(owned)
}
