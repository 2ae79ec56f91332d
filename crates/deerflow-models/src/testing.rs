//! For tests of this and other crates: an independent statement of what a legal request is.

use crate::legalise::{IdRule, Rules, is_image};
use deerflow_core::{Content, ContentBlock, Message, MessageKind};
use std::collections::HashSet;
use std::sync::Arc;

/// Panics with the reason unless `messages` is legal by `rules`.
///
/// # Panics
/// When it is not.
#[track_caller]
pub fn assert_legal(rules: &Rules, messages: &[Arc<Message>]) {
    if let Err(reason) = check_legal(rules, messages) {
        let shape: Vec<String> = messages.iter().map(|message| describe(message)).collect();
        panic!("{reason}\n{rules:?}\n{}", shape.join("\n"));
    }
}

/// Whether `messages` is legal by `rules`: written from the providers' rules, not from the code that mends.
///
/// # Errors
/// The first rule that is broken, and where.
pub fn check_legal(rules: &Rules, messages: &[Arc<Message>]) -> Result<(), String> {
    let mut ids = HashSet::new();
    let mut waiting: Vec<String> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let fail = |reason: &str| Err(format!("message {at}: {reason}"));
        if waiting.is_empty() == message.as_tool().is_some() {
            return if waiting.is_empty() {
                fail("a result without a call before it")
            } else {
                fail("a call is unanswered")
            };
        }
        match &message.kind {
            MessageKind::Remove => return fail("a removal marker"),
            MessageKind::System if at > 0 => return fail("a system message that is not the first"),
            MessageKind::System => {}
            MessageKind::Human => {}
            MessageKind::Tool(part) => {
                if waiting.remove(0) != part.tool_call_id {
                    return fail("a result out of order");
                }
            }
            MessageKind::Ai(part) => {
                if !part.invalid_tool_calls.is_empty() {
                    return fail("an invalid call");
                }
                for call in &part.tool_calls {
                    let safe = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    if call.name.is_empty() || call.name.len() > 64 || !call.name.chars().all(safe) {
                        return fail("a tool name that is not 1 to 64 of A-Z a-z 0-9 _ -");
                    }
                    let id = call.id();
                    let shaped = match rules.ids {
                        IdRule::Any => !id.is_empty(),
                        IdRule::Safe { max } => !id.is_empty() && id.len() <= max && id.chars().all(safe),
                        IdRule::Exactly(length) => id.len() == length && id.chars().all(|c| c.is_ascii_alphanumeric()),
                    };
                    if !shaped {
                        return fail("a call id of the wrong shape");
                    }
                    if !ids.insert(id.to_owned()) {
                        return fail("a call id that was used before");
                    }
                    waiting.push(id.to_owned());
                }
            }
        }
        check_content(rules, message).or_else(|reason| fail(&reason))?;
    }
    if !waiting.is_empty() {
        return Err("the last calls are unanswered".to_owned());
    }
    check_roles(rules, messages)
}

fn check_content(rules: &Rules, message: &Message) -> Result<(), String> {
    let tool_turn = !message.tool_calls().is_empty();
    let assistant = message.as_ai().is_some();
    match &message.content {
        Content::Text(text) if tool_turn && text.is_empty() => Ok(()),
        Content::Text(text) if text.trim().is_empty() => Err("empty text".to_owned()),
        Content::Text(_) => Ok(()),
        Content::Blocks(blocks) if blocks.is_empty() => Err("no blocks".to_owned()),
        Content::Blocks(blocks) => {
            for block in blocks {
                match block {
                    ContentBlock::Text(text) if text.trim().is_empty() => return Err("an empty text block".to_owned()),
                    ContentBlock::Text(_) => {}
                    image if is_image(image) => {
                        if !rules.vision {
                            return Err("an image for a model that cannot see".to_owned());
                        }
                        if message.as_tool().is_some() && !rules.tool_images {
                            return Err("an image in a tool result".to_owned());
                        }
                        if assistant || matches!(message.kind, MessageKind::System) {
                            return Err("an image in an assistant or system message".to_owned());
                        }
                    }
                    other if !rules.blocks.contains(&other.kind()) => return Err(format!("a {} block", other.kind())),
                    _ => {}
                }
            }
            let text = blocks.iter().any(|block| block.text().is_some());
            if assistant && !tool_turn && !text {
                Err("an assistant turn without text or call".to_owned())
            } else {
                Ok(())
            }
        }
    }
}

fn check_roles(rules: &Rules, messages: &[Arc<Message>]) -> Result<(), String> {
    let body: Vec<&Message> =
        messages.iter().map(AsRef::as_ref).filter(|m| !matches!(m.kind, MessageKind::System)).collect();
    if rules.first_user && !body.first().is_some_and(|message| message.is_human()) {
        return Err("the first message is not the user's".to_owned());
    }
    if rules.not_last_assistant && body.last().is_some_and(|message| message.as_ai().is_some()) {
        return Err("the last message is the assistant's".to_owned());
    }
    for pair in body.windows(2) {
        let [first, second] = pair else { continue };
        if rules.alternate && first.role() == second.role() && first.as_tool().is_none() {
            return Err(format!("two {} messages in a row", first.role()));
        }
        if rules.assistant_after_tools && first.as_tool().is_some() && second.is_human() {
            return Err("a user message right after tool results".to_owned());
        }
    }
    Ok(())
}

fn describe(message: &Message) -> String {
    let calls: Vec<String> = message.tool_calls().iter().map(|call| format!("{}={}", call.id(), call.name)).collect();
    let answers = message.as_tool().map(|part| part.tool_call_id.as_str()).unwrap_or_default();
    format!("{} {:?} calls={calls:?} answers={answers:?}", message.role(), message.content)
}
