//! A run that ended with a question.

use super::watch::Ended;
use crate::console::Console;
use crate::render::Renderer;
use deerflow_core::message::kwargs;
use deerflow_core::{Message, ThreadState};
use serde_json::{Value, json};
use std::sync::Arc;

/// The message with the question that the run ended with, if it did.
pub(crate) fn message(state: &ThreadState) -> Option<&Arc<Message>> {
    let results = state.answered_since_last_ai();
    results
        .into_iter()
        .find(|m| m.name.as_deref() == Some("ask_clarification") && m.as_tool().is_some_and(|t| t.artifact.is_some()))
}

/// The question that the run ended with, if it did.
pub(crate) fn question(state: &ThreadState) -> Option<&Value> {
    message(state)?.as_tool()?.artifact.as_ref()?.get("human_input")
}

/// Asks the user, and gives the reply as the next message. Without somebody to ask, says how to answer.
pub(crate) async fn answer(ended: &Ended, renderer: &mut Renderer, console: Option<&mut Console>) -> Option<Message> {
    let question = question(&ended.state)?;
    let Some(console) = console else {
        renderer.note(&format!(
            "it needs an answer; give it with: deerflow run \"your answer\" --thread {}",
            ended.thread_id
        ));
        return None;
    };
    let line = renderer.ask(console, "your answer (a number picks an option) > ").await;
    let line = line.trim();
    if line.is_empty() {
        renderer
            .note(&format!("no answer; give it later with: deerflow run \"your answer\" --thread {}", ended.thread_id));
        return None;
    }
    // A number picks an option.
    let options = question.get("options").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let picked = line.parse::<usize>().ok().and_then(|n| options.get(n.checked_sub(1)?));
    let value = picked.and_then(|o| o.get("value")).and_then(Value::as_str).unwrap_or(line).to_owned();
    let mut response = json!({
        "version": 1, "kind": "human_input_response", "source": "ask_clarification",
        "request_id": question.get("request_id"), "response_kind": if picked.is_some() { "option" } else { "text" }, "value": value,
    });
    if let Some(id) = picked.and_then(|o| o.get("id")) {
        response["option_id"] = id.clone();
    }
    Some(Message::human(value).hidden().with_kwarg(kwargs::HUMAN_INPUT_RESPONSE, response))
}
