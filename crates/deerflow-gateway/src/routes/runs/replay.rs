//! Prepares a run that answers the last turn again: the same question, or an edited one, from the checkpoint before it.
//!
//! The client then creates an ordinary run with what it gets here.

mod turn;

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Json, Path};
use axum::Json as Answer;
use axum::extract::State;
use deerflow_core::message::kwargs;
use deerflow_core::ports::{RunRepo as _, StepLog as _, ThreadRepo as _};
use deerflow_core::{JsonMap, Lineage, Message, RunStatus, ThreadId, ThreadState};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use turn::Turn;
use utoipa::{IntoParams, ToSchema};

/// What of an edited question's extras stays.
const KEPT: [&str; 2] = ["files", "referenced_message_contexts"];
/// Suffix that the dynamic context gives to the visible copy of the first question.
const USER_COPY: &str = "__user";

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct Thread {
    /// The thread.
    #[param(value_type = String)]
    thread_id: ThreadId,
}

/// Which answer.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Regenerate {
    /// Id of the assistant's message.
    message_id: String,
}

/// Which question, and what it says now.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TurnEdit)]
pub(super) struct Edit {
    /// Id of the question.
    human_message_id: String,
    /// What it says now.
    replacement_text: String,
}

/// What to create a run with.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Prepared {
    /// The question.
    #[schema(value_type = Object)]
    input: Value,
    /// Where to begin.
    checkpoint: Place,
    /// Metadata for the run.
    #[schema(value_type = Object)]
    metadata: Value,
    /// The run that answered before.
    target_run_id: String,
    /// Id of the edited question.
    #[serde(skip_serializing_if = "Option::is_none")]
    replacement_human_message_id: Option<String>,
    /// Messages that the new run takes the place of.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_message_ids: Option<Vec<String>>,
}

/// A checkpoint as LangGraph writes it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Place {
    checkpoint_ns: String,
    checkpoint_id: String,
    #[schema(value_type = Option<Object>)]
    checkpoint_map: Option<Value>,
}

/// Prepare to answer the last question again
#[utoipa::path(post, path = "/threads/{thread_id}/runs/regenerate/prepare", tag = "runs", params(Thread),
    request_body = Regenerate, responses((status = 200, body = Prepared),
    (status = 404, description = "No such thread or message"), (status = 409, description = "Not the last answer")))]
pub(super) async fn regenerate(
    caller: Caller,
    State(app): State<AppState>,
    Path(Thread { thread_id }): Path<Thread>,
    Json(wanted): Json<Regenerate>,
) -> Result<Answer<Prepared>, ApiError> {
    let (state, turn) = load(&app, &caller, &thread_id, |state| turn::of_answer(state, &wanted.message_id)).await?;
    let question = &state.messages[turn.question];
    let mut input = json!({"messages": [asked(question, None, None)]});
    if let Some(title) = &state.title {
        input["title"] = json!(title);
    }
    let place = turn.place.to_string();
    let metadata = json!({
        "regenerate_from_message_id": wanted.message_id,
        "regenerate_from_run_id": turn.run_id,
        "regenerate_checkpoint_id": place,
    });
    Ok(Answer(Prepared {
        input,
        checkpoint: Place { checkpoint_ns: String::new(), checkpoint_id: place, checkpoint_map: None },
        metadata,
        target_run_id: turn.run_id.to_string(),
        replacement_human_message_id: None,
        source_message_ids: None,
    }))
}

/// Prepare to answer an edited question
#[utoipa::path(post, path = "/threads/{thread_id}/runs/edit-regenerate/prepare", tag = "runs", params(Thread),
    request_body = Edit, responses((status = 200, body = Prepared),
    (status = 404, description = "No such thread or message"), (status = 409, description = "It cannot be edited")))]
pub(super) async fn edit(
    caller: Caller,
    State(app): State<AppState>,
    Path(Thread { thread_id }): Path<Thread>,
    Json(wanted): Json<Edit>,
) -> Result<Answer<Prepared>, ApiError> {
    let text = wanted.replacement_text.trim();
    if text.is_empty() {
        return Err(ApiError::conflict("Edited message cannot be empty"));
    }
    let (state, turn) =
        load(&app, &caller, &thread_id, |state| turn::of_question(state, &wanted.human_message_id)).await?;
    if state.goal.is_some() {
        return Err(ApiError::conflict("Cannot edit while a goal is active"));
    }
    let question = &state.messages[turn.question];
    if original_text(question).trim() == text {
        return Err(ApiError::conflict("Edited message is unchanged"));
    }
    let run = app.store.run(&turn.run_id).await?;
    if run.is_none_or(|run| run.status != RunStatus::Success) {
        return Err(ApiError::conflict("Only successful assistant runs can be edited and rerun"));
    }
    let replacement = deerflow_core::ids::message_id();
    let place = turn.place.to_string();
    let group = question.additional_kwargs.get("edit_version_group_id").and_then(Value::as_str);
    let metadata = json!({
        "regenerate_from_message_id": turn.answer.map(|answer| state.messages[answer].id()),
        "regenerate_from_run_id": turn.run_id,
        "regenerate_checkpoint_id": place,
        "replay_kind": "edit",
        "edit_from_message_id": visible_id(question),
        "edit_message_id": replacement,
        "edit_version_group_id": group.unwrap_or_else(|| visible_id(question)),
    });
    let sources = state.messages[turn.question..].iter().map(|message| message.id().to_owned()).collect();
    Ok(Answer(Prepared {
        input: json!({"messages": [asked(question, Some(text), Some(&replacement))]}),
        checkpoint: Place { checkpoint_ns: String::new(), checkpoint_id: place, checkpoint_map: None },
        metadata,
        target_run_id: turn.run_id.to_string(),
        replacement_human_message_id: Some(replacement),
        source_message_ids: Some(sources),
    }))
}

async fn load(
    app: &AppState,
    caller: &Caller,
    thread_id: &ThreadId,
    find: impl FnOnce(&ThreadState) -> Result<turn::Found, ApiError>,
) -> Result<(ThreadState, Turn), ApiError> {
    if app.store.thread(&caller.user_id, thread_id).await?.is_none() {
        return Err(ApiError::no_thread(thread_id));
    }
    let head = app.store.load(&Lineage::root(thread_id.clone()), None).await?;
    let head = head.ok_or_else(|| ApiError::not_found(format!("Thread {thread_id} has no checkpoint")))?;
    let found = find(&head.state)?;
    let turn = turn::locate(app.store.as_ref(), thread_id, &head.state, found).await?;
    Ok((head.state, turn))
}

/// The question as the user asked it: what the server wrapped around it is gone.
fn asked(question: &Message, text: Option<&str>, id: Option<&str>) -> Value {
    let edited = text.is_some();
    let text = text.map_or_else(|| original_text(question), str::to_owned);
    let mut extras: JsonMap = question.additional_kwargs.clone();
    extras.retain(|key, _| {
        if edited {
            KEPT.contains(&key.as_str())
        } else {
            ![kwargs::HIDE_FROM_UI, kwargs::ORIGINAL_USER_CONTENT].contains(&key.as_str())
        }
    });
    let mut message = json!({
        "type": "human",
        "content": [{"type": "text", "text": text}],
        "additional_kwargs": extras,
        "id": id.unwrap_or_else(|| visible_id(question)),
    });
    if let Some(name) = &question.name {
        message["name"] = json!(name);
    }
    message
}

fn original_text(question: &Message) -> String {
    match question.additional_kwargs.get(kwargs::ORIGINAL_USER_CONTENT).and_then(Value::as_str) {
        Some(original) => original.to_owned(),
        None => question.text().into_owned(),
    }
}

fn visible_id(question: &Message) -> &str {
    question.id().strip_suffix(USER_COPY).unwrap_or(question.id())
}
