//! Tokens of a thread.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Flag, Path, Query};
use axum::Json;
use axum::extract::State;
use deerflow_core::ports::{StepLog as _, ThreadRepo as _, UsageRepo as _};
use deerflow_core::{Lineage, ThreadId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct InThread {
    /// The thread.
    #[param(value_type = String)]
    thread_id: ThreadId,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
pub(super) struct Which {
    /// Count runs that live, too.
    #[param(value_type = Option<bool>)]
    include_active: Flag,
}

/// Tokens of a thread.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TokenUsage {
    thread_id: String,
    total_tokens: u64,
    total_input_tokens: u64,
    total_output_tokens: u64,
    total_runs: u64,
    by_model: BTreeMap<String, OfModel>,
    by_caller: ByCaller,
    context_usage: Option<ContextUsage>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ThreadModel)]
struct OfModel {
    tokens: u64,
    runs: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct ByCaller {
    lead_agent: u64,
    subagent: u64,
    middleware: u64,
}

/// How full the model's context is.
#[derive(Debug, Serialize, ToSchema)]
struct ContextUsage {
    token_count: u64,
    max_context_tokens: u64,
    /// One decimal.
    percentage: f64,
}

/// Show the tokens of a thread
#[utoipa::path(get, path = "/threads/{thread_id}/token-usage", tag = "usage", params(InThread, Which),
    responses((status = 200, body = TokenUsage), (status = 404, description = "No such thread")))]
pub(super) async fn token_usage(
    caller: Caller,
    State(app): State<AppState>,
    Path(InThread { thread_id }): Path<InThread>,
    Query(which): Query<Which>,
) -> Result<Json<TokenUsage>, ApiError> {
    if app.store.thread(&caller.user_id, &thread_id).await?.is_none() {
        return Err(ApiError::no_thread(&thread_id));
    }
    let used = app.store.thread_usage(&caller.user_id, &thread_id, which.include_active.0).await?;
    let sum = |part: fn(&deerflow_core::ports::ModelUsage) -> u64| used.by_model.values().map(part).sum();
    Ok(Json(TokenUsage {
        total_tokens: sum(|model| model.total_tokens),
        total_input_tokens: sum(|model| model.input_tokens),
        total_output_tokens: sum(|model| model.output_tokens),
        total_runs: used.total_runs,
        by_caller: ByCaller {
            lead_agent: used.by_caller.lead_agent,
            subagent: used.by_caller.subagent,
            middleware: used.by_caller.middleware,
        },
        context_usage: context(&app, &thread_id).await?,
        by_model: used
            .by_model
            .into_iter()
            .map(|(name, model)| (name, OfModel { tokens: model.total_tokens, runs: model.runs }))
            .collect(),
        thread_id: thread_id.to_string(),
    }))
}

/// What the last answer's provider counted, against the window of its model, where both are known.
async fn context(app: &AppState, thread_id: &ThreadId) -> Result<Option<ContextUsage>, ApiError> {
    let Some(head) = app.store.load(&Lineage::root(thread_id.clone()), None).await? else { return Ok(None) };
    let last = head.state.messages.iter().rev().find_map(|message| message.as_ai()?.usage_metadata.as_ref());
    let Some(usage) = last.filter(|usage| usage.total_tokens > 0) else { return Ok(None) };
    let window = app.harness.models().get(None).ok().and_then(|model| model.info().context_window);
    let Some(window) = window.filter(|window| *window > 0) else { return Ok(None) };
    #[expect(clippy::cast_precision_loss, reason = "a percentage with one decimal")]
    let percentage = (usage.total_tokens as f64 / window as f64 * 1000.0).round() / 10.0;
    Ok(Some(ContextUsage { token_count: usage.total_tokens, max_context_tokens: window, percentage }))
}
