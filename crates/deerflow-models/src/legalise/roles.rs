//! The order of roles.

use super::Rules;
use deerflow_core::message::kwargs;
use deerflow_core::{Content, Message};
use std::sync::Arc;

const BEGIN: &str = "(the conversation goes on)";
const CONTINUE: &str = "(continue)";
const BRIDGE: &str = "(noted)";

pub(super) fn arrange(rules: &Rules, messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    let mut out: Vec<Arc<Message>> = Vec::with_capacity(messages.len() + 2);
    if rules.first_user && !messages.first().is_some_and(|message| message.is_human()) {
        out.push(Arc::new(Message::human(BEGIN)));
    }
    for message in messages {
        if rules.assistant_after_tools && message.is_human() && out.last().is_some_and(|last| last.as_tool().is_some())
        {
            out.push(Arc::new(Message::ai(BRIDGE)));
        }
        if rules.alternate
            && let Some(last) = out.last_mut()
            && same_side(last, &message)
        {
            *last = Arc::new(join(last, &message));
            continue;
        }
        out.push(message);
    }
    if rules.not_last_assistant && out.last().is_some_and(|last| last.as_ai().is_some()) {
        out.push(Arc::new(Message::human(CONTINUE)));
    }
    out
}

/// Whether two messages in a row are one turn. An assistant turn with calls is followed by its results, never by another.
fn same_side(first: &Message, second: &Message) -> bool {
    (first.is_human() && second.is_human()) || (first.as_ai().is_some() && second.as_ai().is_some())
}

/// Two turns as one. Each keeps its own blocks, so that the model sees where one ends and the next begins.
fn join(first: &Message, second: &Message) -> Message {
    let mut joined = first.clone();
    let mut blocks = first.content.to_blocks();
    blocks.extend(second.content.to_blocks());
    joined.content = Content::Blocks(blocks);
    if let (Some(part), Some(more)) = (joined.as_ai_mut(), second.as_ai()) {
        part.tool_calls.extend(more.tool_calls.iter().cloned());
        let thinking = |message: &Message| {
            message
                .additional_kwargs
                .get(kwargs::REASONING_CONTENT)
                .and_then(serde_json::Value::as_str)
                .map(str::to_owned)
        };
        let all: Vec<String> = [thinking(first), thinking(second)].into_iter().flatten().collect();
        if !all.is_empty() {
            joined.additional_kwargs.insert(kwargs::REASONING_CONTENT.to_owned(), all.join("\n\n").into());
        }
        for (key, value) in &second.additional_kwargs {
            match (joined.additional_kwargs.get_mut(key), value) {
                // What is kept of each turn in the order of its parts is kept of both.
                (Some(serde_json::Value::Array(list)), serde_json::Value::Array(more)) => list.extend(more.clone()),
                (Some(_), _) => {}
                (None, value) => drop(joined.additional_kwargs.insert(key.clone(), value.clone())),
            }
        }
    }
    joined
}
