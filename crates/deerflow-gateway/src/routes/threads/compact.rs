//! Makes room in a long conversation.

use super::{ThreadPath, own_thread};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{OptionalJson, Path};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use deerflow_core::ports::StepLog as _;
use deerflow_core::{Lineage, StoreError};
use deerflow_harness::LeadOptions;
use deerflow_harness::middleware::{CompactError, CompactOptions, ContextSize, SizeKind};
use deerflow_runtime::{RuntimeError, compact_thread};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

/// How to compact.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct How {
    /// Also when the conversation is not long enough for it to happen by itself.
    #[schema(default = true)]
    force: bool,
    /// How much of the newest conversation stays: `{type: "fraction"|"tokens"|"messages", value}`.
    #[schema(value_type = Option<Object>, example = json!({"type": "messages", "value": 10}))]
    keep: Option<ContextSize>,
    /// Model that writes the summary, by its configured name.
    model_name: Option<String>,
    /// Custom agent of the conversation.
    agent_name: Option<String>,
}

impl Default for How {
    fn default() -> Self {
        Self { force: true, keep: None, model_name: None, agent_name: None }
    }
}

/// What the compaction came to.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Compacted {
    thread_id: String,
    /// Whether anything was done.
    compacted: bool,
    /// `not_enough_messages` when nothing was.
    reason: Option<&'static str>,
    removed_message_count: usize,
    preserved_message_count: usize,
    summary_updated: bool,
    /// The new head.
    checkpoint_id: Option<String>,
    /// Estimated tokens of the conversation now.
    total_tokens: u64,
}

/// Compact a thread
///
/// Its older messages make room for a summary. The history keeps them.
#[utoipa::path(post, path = "/threads/{thread_id}/compact", tag = "threads", params(ThreadPath), request_body = How,
    responses((status = 200, body = Compacted), (status = 404, description = "There is no such thread"),
        (status = 409, description = "A run is live on it")))]
pub(super) async fn compact(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
    OptionalJson(how): OptionalJson<How>,
) -> Result<Json<Compacted>, ApiError> {
    for (name, value) in [("model_name", &how.model_name), ("agent_name", &how.agent_name)] {
        if value.as_ref().is_some_and(|value| value.chars().count() > 128) {
            let message = "String should have at most 128 characters";
            return Err(ApiError::invalid("string_too_long", json!(["body", name]), message, json!(null)));
        }
    }
    if let Some(keep) = how.keep
        && !fits(keep)
    {
        let message = "Input should be a fraction up to 1, or a whole number of tokens or messages from 0";
        return Err(ApiError::invalid("value_error", json!(["body", "keep", "value"]), message, json!(keep.value)));
    }
    own_thread(&app, &caller, &thread_id).await?;
    let lead = LeadOptions { model: how.model_name, agent: how.agent_name, ..LeadOptions::default() };
    let options = CompactOptions { force: how.force, keep: how.keep };
    let done = compact_thread(app.store.as_ref(), &app.harness, &caller.user_id, &thread_id, &lead, options).await;
    let id = thread_id.to_string();
    match done {
        Ok((compaction, committed)) => Ok(Json(Compacted {
            thread_id: id,
            compacted: true,
            reason: None,
            removed_message_count: compaction.removed_messages,
            preserved_message_count: compaction.preserved_messages,
            summary_updated: compaction.update.summary_text.is_some(),
            checkpoint_id: committed.checkpoint_id.map(Into::into),
            total_tokens: compaction.tokens_after,
        })),
        Err(RuntimeError::Compact(CompactError::NothingToCompact)) => {
            let head = app.store.load(&Lineage::root(thread_id), None).await?;
            Ok(Json(Compacted {
                thread_id: id,
                compacted: false,
                reason: Some("not_enough_messages"),
                removed_message_count: 0,
                preserved_message_count: head.as_ref().map_or(0, |head| head.state.messages.len()),
                summary_updated: false,
                checkpoint_id: head.map(|head| head.id.into()),
                total_tokens: 0,
            }))
        }
        Err(RuntimeError::Store(StoreError::ThreadBusy { .. })) => {
            Err(ApiError::conflict("Thread has a run in flight. Compact it after the run finishes."))
        }
        Err(RuntimeError::Store(error)) => Err(error.into()),
        Err(RuntimeError::NoThread(id)) => Err(ApiError::no_thread(&id)),
        Err(RuntimeError::Lead(error)) => Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())),
        Err(RuntimeError::Edit(error)) => Err(ApiError::conflict(error.to_string())),
        Err(error) => Err(ApiError::internal(&error)),
    }
}

fn fits(keep: ContextSize) -> bool {
    match keep.kind {
        SizeKind::Fraction => (0.0..=1.0).contains(&keep.value),
        SizeKind::Tokens | SizeKind::Messages => {
            keep.value >= 0.0 && keep.value.fract() == 0.0 && keep.value <= f64::from(u32::MAX)
        }
    }
}
