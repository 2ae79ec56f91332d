//! Calls and their results: each call gets exactly one, in order, right behind.

use super::ids::{IdBook, safe_name};
use super::{Rules, content};
use deerflow_core::{InvalidToolCall, JsonMap, Message, MessageKind, ToolCall, text};
use std::collections::VecDeque;
use std::sync::Arc;

/// One call of an assistant turn, and the result found for it. Borrowed: histories hold large arguments.
struct Slot<'h> {
    id: &'h str,
    name: &'h str,
    source: Source<'h>,
    result: Option<&'h Arc<Message>>,
}

enum Source<'h> {
    Valid(&'h ToolCall),
    Broken(&'h InvalidToolCall),
}

/// An assistant turn with calls.
struct Turn<'h> {
    at: usize,
    slots: Vec<Slot<'h>>,
}

pub(super) fn settle(rules: &Rules, messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let (turns, orphans) = assign(messages);
    if orphans > 0 {
        tracing::warn!(orphans, "left tool results without a call out of the request");
    }
    let mut ids = IdBook::new(rules.ids);
    let mut turns = VecDeque::from(turns);
    let mut out = Vec::with_capacity(messages.len());
    for (at, message) in messages.iter().enumerate() {
        if message.as_tool().is_some() {
            continue;
        }
        if turns.front().is_some_and(|turn| turn.at == at)
            && let Some(turn) = turns.pop_front()
        {
            emit(rules, message, turn, &mut ids, &mut out);
        } else {
            out.push(Arc::clone(message));
        }
    }
    out
}

/// Finds the result of every call. Returns the turns and the number of results that belong to none.
fn assign(messages: &[Arc<Message>]) -> (Vec<Turn<'_>>, usize) {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    let mut orphans = 0;
    let mut nameless: Vec<&Arc<Message>> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        match &message.kind {
            MessageKind::Ai(part) => {
                orphans += pair_nameless(turns.last_mut(), &mut nameless);
                let valid = part.tool_calls.iter().map(|call| Slot {
                    id: call.id(),
                    name: &call.name,
                    source: Source::Valid(call),
                    result: None,
                });
                let broken = part.invalid_tool_calls.iter().map(|call| Slot {
                    id: call.id.as_deref().unwrap_or_default(),
                    name: call.name.as_deref().unwrap_or_default(),
                    source: Source::Broken(call),
                    result: None,
                });
                let slots: Vec<_> = valid.chain(broken).collect();
                if !slots.is_empty() {
                    turns.push(Turn { at, slots });
                }
            }
            MessageKind::Tool(part) if part.tool_call_id.is_empty() => nameless.push(message),
            MessageKind::Tool(part) => {
                // Ids may come again in a later turn (`call_0` each time): the nearest turn that has the id counts.
                let owner = turns.iter_mut().rev().find(|turn| turn.slots.iter().any(|s| s.id == part.tool_call_id));
                let open = owner
                    .and_then(|turn| turn.slots.iter_mut().find(|s| s.id == part.tool_call_id && s.result.is_none()));
                match open {
                    Some(slot) => slot.result = Some(message),
                    None => orphans += 1,
                }
            }
            _ => {}
        }
    }
    orphans += pair_nameless(turns.last_mut(), &mut nameless);
    (turns, orphans)
}

/// Pairs results without id with calls without id, when both are as many; otherwise nobody can tell, and they are dropped.
fn pair_nameless<'h>(turn: Option<&mut Turn<'h>>, nameless: &mut Vec<&'h Arc<Message>>) -> usize {
    let results = std::mem::take(nameless);
    let Some(turn) = turn else { return results.len() };
    let mut open: Vec<&mut Slot<'h>> =
        turn.slots.iter_mut().filter(|slot| slot.id.is_empty() && slot.result.is_none()).collect();
    let same_tool = |slot: &Slot<'_>, result: &Message| {
        slot.name.is_empty() || result.name.as_deref().is_none_or(|name| name.is_empty() || name == slot.name)
    };
    if open.len() != results.len() || open.iter().zip(&results).any(|(slot, result)| !same_tool(slot, result)) {
        return results.len();
    }
    for (slot, result) in open.iter_mut().zip(results) {
        slot.result = Some(result);
    }
    0
}

fn emit(rules: &Rules, message: &Arc<Message>, turn: Turn<'_>, ids: &mut IdBook, out: &mut Vec<Arc<Message>>) {
    let base = message.id.clone().unwrap_or_else(|| turn.at.to_string());
    let mut results = Vec::with_capacity(turn.slots.len());
    let mut images = Vec::new();
    let mut names = Vec::with_capacity(turn.slots.len());
    let mut same = true;
    for (position, slot) in turn.slots.iter().enumerate() {
        let id = ids.take(slot.id, &format!("{base}/{position}"));
        let result = match slot.result {
            Some(result) => Arc::clone(result),
            None => Arc::new(placeholder(slot)),
        };
        results.push(answer(rules, result, &id, &mut images));
        let name = safe_name(slot.name);
        same &= id == slot.id && name == slot.name && matches!(slot.source, Source::Valid(_));
        names.push((id, name));
    }
    if same {
        out.push(Arc::clone(message));
    } else {
        let calls = turn.slots.iter().zip(names).map(|(slot, (id, name))| {
            let args = match slot.source {
                Source::Valid(call) => call.args.clone(),
                Source::Broken(_) => JsonMap::new(),
            };
            ToolCall::new(id, name, args)
        });
        let mut changed = Message::clone(message);
        if let Some(part) = changed.as_ai_mut() {
            part.tool_calls = calls.collect();
            part.invalid_tool_calls.clear();
        }
        out.push(Arc::new(changed));
    }
    out.append(&mut results);
    if !images.is_empty() {
        out.push(Arc::new(content::images_of_tools(images)));
    }
}

/// The result as it is sent: under the id of its call, and without images where the provider takes none there.
fn answer(rules: &Rules, result: Arc<Message>, id: &str, images: &mut Vec<content::ToolImages>) -> Arc<Message> {
    let hoisted = if rules.vision && !rules.tool_images { content::hoist_images(&result) } else { None };
    let same_id = result.as_tool().is_some_and(|part| part.tool_call_id == id);
    if same_id && hoisted.is_none() {
        return result;
    }
    let mut changed = Message::clone(&result);
    if let Some(part) = changed.as_tool_mut() {
        id.clone_into(&mut part.tool_call_id);
    }
    if let Some((rest, found)) = hoisted {
        changed.content = rest;
        images.push(found);
    }
    Arc::new(changed)
}

/// The result of a call that has none.
fn placeholder(slot: &Slot<'_>) -> Message {
    let text = match slot.source {
        _ if slot.name.trim().is_empty() => NO_NAME.to_owned(),
        Source::Valid(_) => INTERRUPTED.to_owned(),
        Source::Broken(_) if slot.name == "write_file" => BROKEN_WRITE.to_owned(),
        Source::Broken(call) => format!(
            "Error: the arguments were not one JSON object, and the tool did not run: {}. Send the call again with valid \
             arguments.",
            text::ellipsis(call.error.as_deref().unwrap_or("they could not be read"), 500)
        ),
    };
    Message::tool_error(text, "", safe_name(slot.name).into_owned())
}

const INTERRUPTED: &str = "Error: the call was interrupted and returned no result.";
const NO_NAME: &str =
    "Error: the call named no tool, and nothing ran. Call one of the offered tools by its exact name.";
const BROKEN_WRITE: &str = "Error: the arguments of write_file were not valid JSON, most likely because the content was too \
     long for one reply; nothing was written. Do not send the same content again in one call: write the file in smaller \
     parts (append), or put the text in your answer.";
