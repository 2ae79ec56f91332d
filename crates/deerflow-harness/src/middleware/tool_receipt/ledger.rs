//! The receipts as a model sees them.

use super::receipt::{Receipt, receipts};
use deerflow_core::Message;
use deerflow_tools::neutralise::neutralise;
use serde::Deserialize;
use std::sync::Arc;

/// `additional_kwargs` key of a reply: the receipts that its request showed.
pub const RECEIPT_LEDGER: &str = "deerflow_receipt_ledger";
/// `additional_kwargs` key of a delegation's result: the sub-agent's own receipts, numbered.
pub const SUBAGENT_RECEIPTS: &str = "deerflow_subagent_tool_receipts";

/// Characters of a rendered ledger.
const MAX_CHARS: usize = 2000;
/// Receipts of one sub-agent that are read.
const MAX_DELEGATED: usize = 256;

const HEADER: &str = "\
## Tool receipts (what was executed)
For every claim about something you did, cite its receipt, for example [r1 bash].
Evidence of execution only: a receipt says that a call was made and how it ended, not that a claim is right or a task done.";
const OMITTED: &str = "- … older receipts left out";
const DELEGATED_HEADER: &str = "\
## Receipts of sub-agents (what was executed)
[task:CALL/rN] is receipt rN of the sub-agent started by call CALL; its report cites it as [rN].
Evidence of execution only, not that a claim is right or a task done.";

/// A ledger within its budget.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) text: String,
    /// The own receipts that it shows: the newest, without gaps.
    pub(super) shown: Vec<Receipt>,
}

impl Ledger {
    /// `None` when there is no receipt to show.
    pub(super) fn render(messages: &[Arc<Message>]) -> Option<Self> {
        Self::within(messages, MAX_CHARS)
    }

    /// What sub-agents did comes first when room is short: it can be seen nowhere else.
    fn within(messages: &[Arc<Message>], max: usize) -> Option<Self> {
        let (own, delegated) = (receipts(messages), delegated_lines(messages));
        let (lower, _) = newest(DELEGATED_HEADER, &delegated, max);
        let room = if lower.is_empty() { max } else { max.saturating_sub(lower.chars().count() + 2) };
        let lines: Vec<String> = own.iter().map(|r| line(&r.id, r)).collect();
        let (upper, count) = newest(HEADER, &lines, room);
        let text = [upper, lower].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n");
        let shown = own[own.len() - count..].to_vec();
        (!text.is_empty()).then_some(Self { text, shown })
    }
}

/// The header and as many of the last lines as fit, and how many those are; nothing when not even one fits.
fn newest(header: &str, lines: &[String], max: usize) -> (String, usize) {
    let size = |text: &str| text.chars().count() + 1;
    let all: usize = lines.iter().map(|line| size(line)).sum();
    let mut room = max.saturating_sub(header.chars().count());
    if all > room {
        room = room.saturating_sub(size(OMITTED));
    }
    let mut count = 0;
    for line in lines.iter().rev() {
        let Some(left) = room.checked_sub(size(line)) else { break };
        (room, count) = (left, count + 1);
    }
    if count == 0 {
        return (String::new(), 0);
    }
    let mut text = header.to_owned();
    let omitted = (count < lines.len()).then_some(OMITTED);
    for line in omitted.into_iter().chain(lines[lines.len() - count..].iter().map(String::as_str)) {
        text.push('\n');
        text.push_str(line);
    }
    (text, count)
}

fn line(id: &str, receipt: &Receipt) -> String {
    let Receipt { tool_name, status, args_sha256, output_sha256, output_bytes, .. } = receipt;
    let line =
        format!("- [{id}] {tool_name} status={status} args={args_sha256} output={output_sha256} bytes={output_bytes}");
    neutralise(&line).into_owned()
}

fn delegated_lines(messages: &[Arc<Message>]) -> Vec<String> {
    let mut lines = Vec::new();
    for message in messages {
        let Some(part) = message.as_tool() else { continue };
        let Some(list) = message.additional_kwargs.get(SUBAGENT_RECEIPTS).and_then(|v| v.as_array()) else { continue };
        let read = list.iter().take(MAX_DELEGATED).filter_map(Receipt::read).filter(|r| r.number().is_some());
        lines.extend(read.map(|receipt| line(&format!("task:{}/{}", part.tool_call_id, receipt.id), &receipt)));
    }
    lines
}

/// The receipts that the request behind `reply` showed: what its citations mean, whatever was compacted since. `None` when
/// it carries none, or not what the harness puts there: sound receipts numbered without gaps.
#[must_use]
pub fn ledger_of(reply: &Message) -> Option<Vec<Receipt>> {
    let shown = Vec::<Receipt>::deserialize(reply.additional_kwargs.get(RECEIPT_LEDGER)?).ok()?;
    let numbers: Option<Vec<u32>> = shown.iter().map(|r| r.is_sound().then(|| r.number()).flatten()).collect();
    let consecutive = numbers?.windows(2).all(|pair| pair[1] == pair[0] + 1);
    consecutive.then_some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("- [r{}] line", n + 1)).collect()
    }

    #[test]
    fn the_newest_stay_and_the_rest_is_said_to_be_missing() {
        assert_eq!(newest("H", &lines(2), 100), ("H\n- [r1] line\n- [r2] line".into(), 2));
        let (text, count) = newest("H", &lines(9), 60);
        assert_eq!((text.as_str(), count), ("H\n- … older receipts left out\n- [r8] line\n- [r9] line", 2));
        assert_eq!(newest("a long header", &lines(2), 15), (String::new(), 0));
        assert_eq!(newest("H", &[], 100), (String::new(), 0));
    }

    proptest! {
        #[test]
        fn never_over_the_budget(count in 0usize..60, max in 0usize..400) {
            let lines = lines(count);
            let (text, shown) = newest(HEADER, &lines, max);
            prop_assert!(text.chars().count() <= max);
            prop_assert_eq!(text.matches("] line").count(), shown);
        }
    }
}
