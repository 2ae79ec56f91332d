//! Hands the model what the user says while the run works.
//!
//! An input waits in the store's queue. Before a model turn, when every call has its result, what waits becomes part of the
//! conversation, and `applied_run_inputs` names it in the same write. The store takes these rows off the queue in the
//! transaction of that step, so an input is applied exactly once, wherever a process dies.

use async_trait::async_trait;
use deerflow_agent::middleware::HookResult;
use deerflow_agent::{Hook, JumpTarget, Middleware, RunContext};
use deerflow_core::message::kwargs;
use deerflow_core::ports::{InputQueue, InputRow};
use deerflow_core::{AgentError, JsonMap, Message, StateUpdate, ThreadState};
use serde_json::{Value, json};
use std::sync::Arc;

/// Names the input that a message came from.
pub const RUN_INPUT_ID: &str = "run_input_id";

/// Owns `applied_run_inputs`.
pub struct SteeringMiddleware {
    queue: Arc<dyn InputQueue>,
}

impl SteeringMiddleware {
    /// Inputs from this queue.
    #[must_use]
    pub fn new(queue: Arc<dyn InputQueue>) -> Self {
        Self { queue }
    }
}

/// What waits for this run and is not in the conversation yet.
pub(super) async fn waiting(
    queue: &dyn InputQueue,
    ctx: &RunContext,
    state: &ThreadState,
) -> Result<Vec<InputRow>, AgentError> {
    if ctx.is_subagent() {
        return Ok(Vec::new());
    }
    let mut rows = queue.queued(&ctx.run_id).await?;
    let applied = applied(ctx, state);
    rows.retain(|row| !applied.iter().any(|id| id == &row.run_input_id));
    Ok(rows)
}

/// Ids that this run has applied, in order.
fn applied(ctx: &RunContext, state: &ThreadState) -> Vec<String> {
    let Some(applied) = &state.applied_run_inputs else { return Vec::new() };
    if applied.get("run_id").and_then(Value::as_str) != Some(ctx.run_id.as_str()) {
        return Vec::new();
    }
    let ids = applied.get("ids").and_then(Value::as_array).into_iter().flatten();
    ids.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn message(ctx: &RunContext, row: &InputRow) -> Message {
    let text = row.content.text().into_owned();
    let mut message = row.content.clone();
    // The id of the input: should it ever be delivered again, it replaces itself.
    message.id = Some(row.run_input_id.clone());
    message
        .with_kwarg(RUN_INPUT_ID, row.run_input_id.clone())
        .with_kwarg("run_id", ctx.run_id.as_str())
        .with_kwarg(kwargs::ORIGINAL_USER_CONTENT, text)
}

#[async_trait]
impl Middleware for SteeringMiddleware {
    fn name(&self) -> &'static str {
        "SteeringMiddleware"
    }

    async fn before_model(&self, ctx: &RunContext, state: &ThreadState) -> HookResult {
        let rows = waiting(self.queue.as_ref(), ctx, state).await?;
        let Some(last) = rows.last() else { return Ok(Hook::none()) };
        let mut ids = applied(ctx, state);
        ids.extend(rows.iter().map(|row| row.run_input_id.clone()));
        let applied: JsonMap = [
            ("run_id".to_owned(), json!(ctx.run_id.as_str())),
            ("ids".to_owned(), json!(ids)),
            ("last_seq".to_owned(), json!(last.seq)),
        ]
        .into_iter()
        .collect();
        let messages = StateUpdate::messages(rows.iter().map(|row| message(ctx, row)));
        Ok(Hook::update(StateUpdate { applied_run_inputs: Some(applied), ..messages }))
    }

    /// What was said during the last answer is answered too, before anything judges the turn. A question to the user, a
    /// failure or a limit ends the run all the same; the next run gets what waits then.
    async fn after_agent(&self, ctx: &RunContext, state: &ThreadState) -> HookResult {
        let answered = state
            .messages
            .last()
            .is_some_and(|m| m.as_ai().is_some() && m.tool_calls().is_empty() && !m.flag(kwargs::ERROR_FALLBACK));
        if !answered || ctx.stop_reason().is_some() || waiting(self.queue.as_ref(), ctx, state).await?.is_empty() {
            return Ok(Hook::none());
        }
        Ok(Hook::jump(StateUpdate::none(), JumpTarget::Model))
    }
}
