//! What of a conversation goes and what stays.

use deerflow_core::message::kwargs;
use deerflow_core::{Message, MessageKind, text};
use deerflow_tokens::TokenCounter;
use std::collections::HashSet;
use std::sync::Arc;

/// How much of the end stays, in one of two units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Messages(usize),
    Tokens(u64),
}

/// What becomes of a conversation.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Goes into the summary.
    pub(super) removed: Vec<Arc<Message>>,
    /// Stays, in order.
    pub(super) preserved: Vec<Arc<Message>>,
    /// Tool results among what stays as they were before they were cut.
    pub(super) shortened: Vec<Arc<Message>>,
}

/// Marks a tool result that was cut to make room.
pub(crate) const SHORTENED: &str = "deerflow_shortened";
/// Characters left of an old tool result when there is no other way.
const OLD_RESULT_CHARS: usize = 800;
/// Characters left of a result that the model has not seen yet.
const NEW_RESULT_CHARS: usize = 4000;

/// Splits a conversation. `ceiling` is the number of tokens that what stays should not exceed: newer turns go too, the last
/// one excepted, and then tool results are cut, the oldest first. `None` when there is nothing to do.
pub(super) fn plan(
    messages: &[Arc<Message>],
    keep: Keep,
    ceiling: Option<u64>,
    counter: &TokenCounter,
) -> Option<Plan> {
    let turns = Turns::of(messages);
    let mut cut = turns.before(by_keep(messages, keep, counter));
    if let Some(ceiling) = ceiling {
        // A quick sum of what stays; what is rescued counts as well, wherever it stands.
        let rescued = rescued(messages);
        let kept_tokens = |cut: usize| -> u64 {
            messages
                .iter()
                .enumerate()
                .filter(|(at, _)| *at >= cut || rescued.contains(at))
                .map(|(_, m)| counter.count(m))
                .sum()
        };
        let limit = turns.last(messages);
        while cut < limit && kept_tokens(cut) > ceiling {
            cut = turns.after(cut + 1).min(limit);
        }
    }
    let mut plan = split(messages, cut);
    if let Some(ceiling) = ceiling {
        shorten(&mut plan, ceiling, counter);
    }
    (!plan.removed.is_empty() || !plan.shortened.is_empty()).then_some(plan)
}

fn by_keep(messages: &[Arc<Message>], keep: Keep, counter: &TokenCounter) -> usize {
    match keep {
        Keep::Messages(count) => messages.len().saturating_sub(count.max(1)),
        Keep::Tokens(limit) => {
            let mut tokens = 0;
            let fits = messages.iter().rev().take_while(|message| {
                tokens += counter.count(message);
                tokens <= limit
            });
            messages.len().saturating_sub(fits.count().max(1))
        }
    }
}

/// Where a conversation may be cut: never between a call and its results.
struct Turns {
    /// Pairs of an assistant message and its last result.
    spans: Vec<(usize, usize)>,
}

impl Turns {
    fn of(messages: &[Arc<Message>]) -> Self {
        let mut spans: Vec<(usize, usize)> = Vec::new();
        let mut callers: Vec<usize> = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            if calls(message).next().is_some() {
                callers.push(at);
            }
            let Some(result) = message.as_tool() else { continue };
            // Ids may come again in a later turn: the nearest one counts.
            let owner =
                callers.iter().rev().find(|caller| calls(&messages[**caller]).any(|id| id == result.tool_call_id));
            let Some(owner) = owner else { continue };
            match spans.iter_mut().rev().find(|(caller, _)| caller == owner) {
                Some(span) => span.1 = at,
                None => spans.push((*owner, at)),
            }
        }
        Self { spans }
    }
    fn broken_by(&self, cut: usize) -> Option<&(usize, usize)> {
        self.spans.iter().find(|(caller, result)| *caller < cut && cut <= *result)
    }
    /// The last place to cut at or before this one.
    fn before(&self, mut cut: usize) -> usize {
        while let Some((caller, _)) = self.broken_by(cut) {
            cut = *caller;
        }
        cut
    }
    /// The first place to cut at or after this one.
    fn after(&self, mut cut: usize) -> usize {
        while let Some((_, result)) = self.broken_by(cut) {
            cut = result + 1;
        }
        cut
    }
    /// The last place to cut at all: the newest turn is not cut off before the model has answered it.
    fn last(&self, messages: &[Arc<Message>]) -> usize {
        let end = messages.len().saturating_sub(1);
        let newest_call = messages.iter().rposition(|m| calls(m).next().is_some());
        match newest_call {
            Some(at) if messages[at..].iter().skip(1).all(|m| m.as_ai().is_none() && !m.is_genuine_user()) => {
                self.before(at)
            }
            _ => self.before(end),
        }
    }
}

fn calls(message: &Message) -> impl Iterator<Item = &str> {
    let part = message.as_ai();
    let valid = part.into_iter().flat_map(|part| part.tool_calls.iter().map(|call| call.id()));
    let broken =
        part.into_iter().flat_map(|p| p.invalid_tool_calls.iter().map(|c| c.id.as_deref().unwrap_or_default()));
    valid.chain(broken)
}

/// What stays wherever it stands: the newest date and whatever else the server put in front, system messages, and what the
/// user said last.
fn rescued(messages: &[Arc<Message>]) -> HashSet<usize> {
    let dated =
        |m: &Message| m.flag(kwargs::DYNAMIC_CONTEXT) && m.additional_kwargs.contains_key(kwargs::REMINDER_DATE);
    let mut keep: HashSet<usize> = messages
        .iter()
        .enumerate()
        .filter(|(_, m)| !dated(m) && (m.flag(kwargs::DYNAMIC_CONTEXT) || matches!(m.kind, MessageKind::System)))
        .map(|(at, _)| at)
        .collect();
    // An older date is wrong by now, and one a day would add up over the weeks.
    keep.extend(messages.iter().rposition(|m| dated(m)));
    for said in [Message::is_real_user, Message::is_genuine_user] {
        if let Some(latest) = messages.iter().rev().find(|m| said(m)) {
            let same = messages.iter().enumerate().filter(|(_, m)| m.id == latest.id && m.is_human());
            keep.extend(same.map(|(at, _)| at));
        }
    }
    keep
}

fn split(messages: &[Arc<Message>], cut: usize) -> Plan {
    let rescued = rescued(messages);
    let mut plan = Plan::default();
    for (at, message) in messages.iter().enumerate() {
        let side = if at >= cut || rescued.contains(&at) { &mut plan.preserved } else { &mut plan.removed };
        side.push(message.clone());
    }
    plan
}

/// Cuts tool results among what stays until it fits.
fn shorten(plan: &mut Plan, ceiling: u64, counter: &TokenCounter) {
    let mut tokens = counter.total(&plan.preserved);
    let newest = plan.preserved.iter().rposition(|m| m.as_ai().is_some()).unwrap_or(0);
    for (at, message) in plan.preserved.iter_mut().enumerate() {
        if tokens <= ceiling {
            return;
        }
        let Some(short) = short_result(message, if at < newest { OLD_RESULT_CHARS } else { NEW_RESULT_CHARS }) else {
            continue;
        };
        tokens = tokens.saturating_sub(counter.count(message)) + deerflow_tokens::message_tokens(&short);
        plan.shortened.push(std::mem::replace(message, Arc::new(short)));
    }
}

/// The same tool result, cut; `None` when that would gain nothing.
fn short_result(message: &Message, max: usize) -> Option<Message> {
    message.as_tool()?;
    let whole = message.text();
    if whole.len() <= max + max / 4 && !message.content.has_non_text() {
        return None;
    }
    let cut = text::middle_cut(&whole, max);
    let note = "\n[cut to make room in the conversation; call the tool again for the rest]";
    let content = if message.content.has_non_text() {
        format!("{cut}\n[pictures left out]{note}")
    } else {
        format!("{cut}{note}")
    };
    let mut short = Message { content: content.into(), ..message.clone() };
    short.additional_kwargs.insert(SHORTENED.to_owned(), true.into());
    Some(short)
}

/// Cuts tool results and takes nothing away. `None` when there is nothing to cut.
pub(super) fn shorter(messages: &[Arc<Message>], ceiling: u64, counter: &TokenCounter) -> Option<Vec<Arc<Message>>> {
    let mut plan = Plan { preserved: messages.to_vec(), ..Plan::default() };
    shorten(&mut plan, ceiling, counter);
    (!plan.shortened.is_empty()).then_some(plan.preserved)
}
