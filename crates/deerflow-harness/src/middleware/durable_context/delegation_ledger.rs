//! Which sub-agents were sent out, and what became of them.

use deerflow_agent::RunContext;
use deerflow_core::state::DelegationEntry;
use deerflow_core::{Message, ThreadState, ToolCall, ToolStatus, text};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The tool that sends one out.
const TASK: &str = "task";
const DESCRIPTION_CHARS: usize = 200;
const BRIEF_CHARS: usize = 2000;

/// What the ledger lacks: the calls of the current turn as they stand now, and earlier ones that a new turn has left behind.
pub(super) fn capture(ctx: &RunContext, state: &ThreadState) -> Vec<DelegationEntry> {
    let known = state.delegations.as_deref().unwrap_or_default();
    let (start, run_id, fresh) = turn(ctx, state);
    let tail = &state.messages[start..];
    // Some providers number the calls of every turn from zero: of one id the last outcome counts, as in the reducer.
    let mut seen: Vec<DelegationEntry> = Vec::new();
    for (at, message) in tail.iter().enumerate() {
        for call in message.tool_calls().iter().filter(|call| call.name == TASK) {
            let mut entry = entry(call, result_of(call.id(), &tail[at + 1..]));
            entry.run_id = Some(run_id.clone());
            match seen.iter_mut().find(|other| other.id == entry.id) {
                Some(other) if other.is_terminal() && !entry.is_terminal() => {}
                Some(other) => *other = entry,
                None => seen.push(entry),
            }
        }
    }
    let mut changed: Vec<DelegationEntry> = Vec::new();
    for mut entry in seen {
        let same =
            |held: &&DelegationEntry| held.id == entry.id && held.run_id.as_deref().is_none_or(|run| run == run_id);
        let held = known.iter().rev().find(same);
        match held {
            // The result has left the conversation; the ledger remembers it.
            Some(held) if held.is_terminal() && !entry.is_terminal() => continue,
            Some(held) => entry.created_at.clone_from(&held.created_at),
            None => entry.created_at = Some(jiff::Timestamp::now().to_string()),
        }
        if held != Some(&entry) {
            changed.push(entry);
        }
    }
    if fresh {
        // Nobody waits for these any more. A run that is resumed has no new message, and its own are not touched.
        let abandoned =
            known.iter().filter(|held| !held.is_terminal() && held.run_id.as_deref().is_some_and(|run| run != run_id));
        changed.extend(abandoned.map(|held| DelegationEntry { status: "cancelled".to_owned(), ..held.clone() }));
    }
    changed
}

/// Where the current turn begins, the run it belongs to, and whether the user began it with this run.
fn turn(ctx: &RunContext, state: &ThreadState) -> (usize, String, bool) {
    let stamp = |m: &Message| m.additional_kwargs.get("run_id").and_then(Value::as_str).map(str::to_owned);
    let own = state.messages.iter().position(|m| m.is_human() && stamp(m).as_deref() == Some(ctx.run_id.as_str()));
    if let Some(at) = own {
        return (at, ctx.run_id.to_string(), true);
    }
    match state.messages.iter().rposition(|m| m.is_genuine_user()) {
        Some(at) => (at, stamp(&state.messages[at]).unwrap_or_else(|| ctx.run_id.to_string()), false),
        None => (0, ctx.run_id.to_string(), false),
    }
}

fn result_of<'m>(id: &str, after: &'m [Arc<Message>]) -> Option<&'m Message> {
    let results = after.iter().take_while(|m| m.as_ai().is_none());
    results.map(AsRef::as_ref).find(|m| m.as_tool().is_some_and(|part| part.tool_call_id == id))
}

fn entry(call: &ToolCall, result: Option<&Message>) -> DelegationEntry {
    let argument = |name: &str| call.args.get(name).and_then(Value::as_str).unwrap_or_default();
    let described = argument("description").split_whitespace().collect::<Vec<_>>().join(" ");
    let mut entry = DelegationEntry {
        id: call.id().to_owned(),
        description: text::ellipsis(&described, DESCRIPTION_CHARS),
        subagent_type: argument("subagent_type").to_owned(),
        status: "in_progress".to_owned(),
        ..DelegationEntry::default()
    };
    let Some(result) = result else { return entry };
    let said = |key: &str| result.additional_kwargs.get(key).and_then(Value::as_str).map(str::to_owned);
    let brief = said("subagent_result_brief");
    entry.stop_reason = said("subagent_stop_reason");
    entry.status = match said("subagent_status").as_deref() {
        Some("max_turns_reached") => {
            entry.stop_reason.get_or_insert_with(|| "turn_capped".to_owned());
            if brief.is_some() { "completed" } else { "failed" }.to_owned()
        }
        Some(status @ ("completed" | "failed" | "cancelled" | "timed_out" | "polling_timed_out")) => status.to_owned(),
        // A call that a gate refused has no sub-agent behind it.
        _ if result.as_tool().is_some_and(|part| part.status == ToolStatus::Error) => "failed".to_owned(),
        // Not told, and a text is not asked.
        _ => return entry,
    };
    let whole = result.text();
    let brief = brief.or_else(|| said("subagent_error")).unwrap_or_else(|| whole.into_owned());
    entry.result_brief = (!brief.trim().is_empty()).then(|| shorten(&brief, BRIEF_CHARS));
    entry.result_sha256 = said("subagent_result_sha256").or_else(|| {
        let hash = Sha256::digest(result.text().as_bytes());
        (entry.status == "completed").then(|| hash.iter().map(|byte| format!("{byte:02x}")).collect())
    });
    let file = result.additional_kwargs.get(deerflow_tools::FULL_OUTPUT).and_then(|full| full.get("path"));
    entry.result_ref = said("subagent_result_ref").or_else(|| file.and_then(Value::as_str).map(str::to_owned));
    entry.receipt_verdict = result.additional_kwargs.get("receipt_verdict").cloned();
    entry.acceptance_verdict = result.additional_kwargs.get("acceptance_verdict").cloned();
    entry
}

/// Two thirds of the room for the start, the rest for the end.
fn shorten(whole: &str, max: usize) -> String {
    const GAP: &str = "\n…\n";
    if whole.chars().nth(max).is_none() {
        return whole.to_owned();
    }
    let room = max - GAP.chars().count();
    let front = room * 2 / 3;
    format!("{}{GAP}{}", text::head(whole, front), text::tail(whole, room - front))
}
