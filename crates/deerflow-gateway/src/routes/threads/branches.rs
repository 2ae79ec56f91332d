//! Goes on from an earlier answer, in a thread of its own.

use super::copy::{copy_files, forked};
use super::{ThreadPath, own_thread};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Json, Path};
use crate::wire::iso;
use axum::extract::State;
use deerflow_core::message::kwargs;
use deerflow_core::ports::{Checkpoint, StepLog as _, ThreadFork};
use deerflow_core::run::Next;
use deerflow_core::{JsonMap, Lineage, Message, StateUpdate, ThreadId, ThreadState};
use deerflow_runtime::StateEdit;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use utoipa::ToSchema;

/// Checkpoints looked through for the end of a turn.
const LOOKED_AT: usize = 5000;
/// The same at a time.
const PAGE: u32 = 200;

/// Where to branch.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Branch {
    /// The answer to go on from: the last message of a turn.
    message_id: String,
    /// Further messages of that answer.
    #[serde(default)]
    message_ids: Vec<String>,
    /// Name of the new thread; the parent's when absent. At most 256 characters.
    title: Option<String>,
}

/// The new thread.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Branched {
    thread_id: String,
    parent_thread_id: String,
    parent_checkpoint_id: String,
    branched_from_message_id: String,
    /// `current_thread_best_effort`, `not_found`, `failed` or `skipped_historical_turn`.
    workspace_clone_mode: &'static str,
    /// `seeded`.
    history_seed_mode: &'static str,
}

/// Branch a thread
///
/// Makes a thread whose history ends with an answer of this one. Files are copied only from the last answer: earlier ones had
/// other files.
#[utoipa::path(post, path = "/threads/{thread_id}/branches", tag = "threads", params(ThreadPath), request_body = Branch,
    responses((status = 200, body = Branched), (status = 404, description = "There is no such thread"),
        (status = 409, description = "No turn ends there")))]
pub(super) async fn branch(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
    Json(branch): Json<Branch>,
) -> Result<axum::Json<Branched>, ApiError> {
    check(&branch)?;
    let parent = own_thread(&app, &caller, &thread_id).await?;
    if parent.metadata.get("deerflow_sidecar") == Some(&json!(true)) {
        return Err(ApiError::conflict("Branching is only available in the main conversation."));
    }
    let gone = || ApiError::conflict("This turn can no longer be branched from.");
    let lineage = Lineage::root(thread_id.clone());
    let head = app.store.load(&lineage, None).await?.ok_or_else(gone)?;
    if !ends_turn(&head.state.messages, &branch.message_id)
        || !branch.message_ids.iter().all(|id| ends_turn(&head.state.messages, id))
    {
        return Err(gone());
    }
    let is_last = head.next == Next::Done && last_answer(&head.state) == Some(branch.message_id.as_str());
    let at = if is_last { head } else { end_of(&app, &lineage, &branch.message_id).await?.ok_or_else(gone)? };

    let new = ThreadId::random();
    let workspace_clone_mode = if !is_last {
        "skipped_historical_turn"
    } else {
        match copy_files(&app, &caller, &thread_id, &new).await {
            Ok(0) => "not_found",
            Ok(_) => "current_thread_best_effort",
            Err(error) => {
                tracing::warn!(%error, %thread_id, "the files of a thread cannot be copied to its branch");
                "failed"
            }
        }
    };
    let was_branch = parent.metadata.get("deerflow_branch") == Some(&json!(true));
    let title = branch.title.filter(|title| !title.trim().is_empty()).or_else(|| {
        parent.title.map(|title| match title.strip_prefix("branch:") {
            Some(rest) if was_branch => rest.trim_start().to_owned(),
            _ => title,
        })
    });
    let metadata = JsonMap::from_iter([
        ("deerflow_branch".to_owned(), json!(true)),
        ("branch_parent_message_id".to_owned(), json!(branch.message_id)),
        ("branch_created_at".to_owned(), Value::String(iso(jiff::Timestamp::now().as_microsecond()))),
    ]);
    let fork = ThreadFork { from: thread_id.clone(), at: Some(at.id.clone()), new_thread_id: new.clone(), metadata };
    forked(&app, &caller, fork).await?;
    if let Some(title) = title.filter(|title| at.state.title.as_ref() != Some(title)) {
        let update = StateUpdate { title: Some(title), ..StateUpdate::none() };
        app.service.commit(&caller.user_id, &new, StateEdit { update, ..StateEdit::default() }).await?;
    }
    Ok(axum::Json(Branched {
        thread_id: new.into(),
        parent_thread_id: thread_id.into(),
        parent_checkpoint_id: at.id.into(),
        branched_from_message_id: branch.message_id,
        workspace_clone_mode,
        history_seed_mode: "seeded",
    }))
}

fn check(branch: &Branch) -> Result<(), ApiError> {
    if branch.message_id.is_empty() {
        let message = "String should have at least 1 character";
        return Err(ApiError::invalid("string_too_short", json!(["body", "message_id"]), message, json!("")));
    }
    if branch.title.as_ref().is_some_and(|title| title.chars().count() > 256) {
        let message = "String should have at most 256 characters";
        return Err(ApiError::invalid("string_too_long", json!(["body", "title"]), message, json!(null)));
    }
    Ok(())
}

/// Whether this is an answer after which the conversation ends, or a person speaks.
fn ends_turn(messages: &[Arc<Message>], id: &str) -> bool {
    let Some(at) = messages.iter().position(|message| message.id() == id) else { return false };
    let is_answer = messages[at].as_ai().is_some_and(|part| part.tool_calls.is_empty());
    let next = messages[at + 1..].iter().find(|message| !message.flag(kwargs::HIDE_FROM_UI));
    is_answer && next.is_none_or(|next| next.is_human())
}

/// Id of the answer that a conversation ends with.
fn last_answer(state: &ThreadState) -> Option<&str> {
    let last = state.messages.iter().rev().find(|message| !message.flag(kwargs::HIDE_FROM_UI))?;
    last.as_ai().map(|_| last.id())
}

/// The newest checkpoint after a run whose conversation ends with this answer.
async fn end_of(app: &AppState, lineage: &Lineage, message_id: &str) -> Result<Option<Checkpoint>, ApiError> {
    let (mut before, mut seen) = (None, 0);
    while seen < LOOKED_AT {
        let page = app.store.history(lineage, before.as_ref(), PAGE).await?;
        let Some(oldest) = page.last() else { break };
        before = Some(oldest.id.clone());
        seen += page.len();
        for entry in page.iter().filter(|entry| entry.next == Next::Done) {
            let Some(checkpoint) = app.store.load(lineage, Some(&entry.id)).await? else { continue };
            if last_answer(&checkpoint.state) == Some(message_id) {
                return Ok(Some(checkpoint));
            }
        }
    }
    Ok(None)
}
