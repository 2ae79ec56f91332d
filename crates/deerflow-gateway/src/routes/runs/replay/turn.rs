//! Finds the last turn of a conversation and the checkpoint before it.

use crate::error::ApiError;
use deerflow_core::message::kwargs;
use deerflow_core::ports::StepLog;
use deerflow_core::{CheckpointId, Lineage, Message, RunId, ThreadId, ThreadState};
use serde_json::Value;

/// Checkpoints looked through at a time.
const PAGE: u32 = 100;

/// Positions of a turn's messages.
#[derive(Debug, PartialEq)]
pub(super) struct Found {
    question: usize,
    answer: Option<usize>,
}

/// A turn, with the run that made it and the checkpoint before it.
pub(super) struct Turn {
    pub(super) question: usize,
    pub(super) answer: Option<usize>,
    pub(super) run_id: RunId,
    pub(super) place: CheckpointId,
}

/// The turn whose answer this is; it must be the last one that people see.
pub(super) fn of_answer(state: &ThreadState, id: &str) -> Result<Found, ApiError> {
    let missing = || ApiError::not_found(format!("Message {id} not found"));
    let answer = state.messages.iter().position(|message| message.id() == id).ok_or_else(missing)?;
    if !is_visible_answer(&state.messages[answer]) {
        return Err(ApiError::conflict("Only visible assistant messages can be regenerated"));
    }
    if state.messages.iter().rposition(|message| is_visible_answer(message)) != Some(answer) {
        return Err(ApiError::conflict("Only the latest assistant message can be regenerated"));
    }
    let question = state.messages[..answer].iter().rposition(|message| message.is_real_user());
    let question =
        question.ok_or_else(|| ApiError::conflict("Could not find the user message for this assistant response"))?;
    Ok(Found { question, answer: Some(answer) })
}

/// The turn whose question this is; it must be the last one, and answered with a text.
pub(super) fn of_question(state: &ThreadState, id: &str) -> Result<Found, ApiError> {
    let missing = || ApiError::not_found(format!("Message {id} not found"));
    let asked = |message: &Message| message.id() == id || message.id().strip_suffix(super::USER_COPY) == Some(id);
    let question =
        state.messages.iter().position(|message| message.is_real_user() && asked(message)).ok_or_else(missing)?;
    if state.messages.iter().rposition(|message| message.is_real_user()) != Some(question) {
        return Err(ApiError::conflict("Only the latest completed user turn can be edited"));
    }
    let answer = state.messages.iter().rposition(|message| is_visible_answer(message));
    match answer.filter(|answer| *answer > question) {
        Some(answer) if state.messages[answer].tool_calls().is_empty() => Ok(Found { question, answer: Some(answer) }),
        _ => Err(ApiError::conflict("Only completed assistant text turns can be edited")),
    }
}

fn is_visible_answer(message: &Message) -> bool {
    message.as_ai().is_some() && !message.flag(kwargs::HIDE_FROM_UI)
}

/// The run of a turn, and the head before that run began.
pub(super) async fn locate(
    log: &(impl StepLog + ?Sized),
    thread_id: &ThreadId,
    state: &ThreadState,
    found: Found,
) -> Result<Turn, ApiError> {
    let question = &state.messages[found.question];
    if question.id.is_none() {
        return Err(ApiError::conflict("The source user message is missing an id"));
    }
    let run_id = question.additional_kwargs.get("run_id").and_then(Value::as_str);
    let run_id = run_id.and_then(|id| RunId::parse(id).ok());
    let run_id = run_id.ok_or_else(|| ApiError::conflict("Could not find source run for assistant message"))?;
    let place = before(log, thread_id, &run_id).await?;
    let place = place
        .ok_or_else(|| ApiError::conflict("Could not find an addressable checkpoint before the target user message"))?;
    Ok(Turn { question: found.question, answer: found.answer, run_id, place })
}

/// The checkpoint that a run began on: the parent of its first one. What begins a thread stands on
/// [`CheckpointId::EMPTY`].
async fn before(
    log: &(impl StepLog + ?Sized),
    thread_id: &ThreadId,
    run_id: &RunId,
) -> Result<Option<CheckpointId>, ApiError> {
    let lineage = Lineage::root(thread_id.clone());
    let mut cursor: Option<CheckpointId> = None;
    let mut first = None;
    loop {
        let page = log.history(&lineage, cursor.as_ref(), PAGE).await?;
        let Some(last) = page.last() else { break };
        cursor = Some(last.id.clone());
        let mut of_run = page.iter().filter(|entry| entry.run_id.as_ref() == Some(run_id)).peekable();
        // Newest first: once seen, a page without the run is before it.
        if of_run.peek().is_none() && first.is_some() {
            break;
        }
        first = of_run.next_back().or(None).map(|entry| entry.parent.clone()).or(first);
    }
    Ok(first.map(|parent| parent.unwrap_or_else(CheckpointId::empty)))
}
