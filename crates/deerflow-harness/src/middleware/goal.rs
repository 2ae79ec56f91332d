//! Keeps a run going until its goal is met, or until going on makes no sense.

use super::{Redactor, steering};
use crate::goal::{self, evaluator, evidence};
use async_trait::async_trait;
use deerflow_agent::middleware::HookResult;
use deerflow_agent::{Hook, JumpTarget, Middleware, RunContext};
use deerflow_core::message::kwargs;
use deerflow_core::ports::InputQueue;
use deerflow_core::state::{GoalEvaluation, GoalState};
use deerflow_core::{AgentError, ChatModel, Message, StateUpdate, ThreadState};
use serde_json::{Value, json};
use std::sync::Arc;

/// Marks the hidden message of an automatic turn.
pub const GOAL_CONTINUATION: &str = "deerflow_goal_continuation";

/// Judges the thread's goal at the end of each turn. The verdict, the counters and the message that asks for more are one
/// step with the end of the turn, so that a crash never counts a turn twice.
///
/// Outermost of those that act at the end: the turn is over when it judges.
pub struct GoalMiddleware {
    model: Arc<dyn ChatModel>,
    redactor: Redactor,
    inputs: Option<Arc<dyn InputQueue>>,
}

impl GoalMiddleware {
    /// Goals judged by `model`.
    #[must_use]
    pub fn new(model: Arc<dyn ChatModel>) -> Self {
        Self { model, redactor: Redactor::off(), inputs: None }
    }
    /// Yields to what users say while it judges: a verdict on a conversation that goes on is none.
    #[must_use]
    pub fn yielding_to(mut self, inputs: Arc<dyn InputQueue>) -> Self {
        self.inputs = Some(inputs);
        self
    }
    /// Hides personal data from the evaluator and in what it hands on.
    #[must_use]
    pub fn redacting(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }
}

#[async_trait]
impl Middleware for GoalMiddleware {
    fn name(&self) -> &'static str {
        "GoalMiddleware"
    }

    async fn after_agent(&self, ctx: &RunContext, state: &ThreadState) -> HookResult {
        let Some(goal) = state.goal.as_ref().filter(|goal| goal.status == "active") else { return Ok(Hook::none()) };
        if state.last_ai().is_some_and(|m| m.flag(kwargs::ERROR_FALLBACK)) {
            return Ok(Hook::none());
        }
        if !evidence::ends_with_answer(state) {
            let evaluation = evaluator::verdict(false, "run_failed", "the turn did not end with an answer");
            return Ok(stand_down(ctx, goal, evaluation, "no_durable_end_of_turn").await);
        }
        let redactor = self.redactor.for_thread(&ctx.thread_id);
        let evaluation = evaluator::evaluate(ctx, &self.model, &redactor, goal, state).await;
        if ctx.stop_reason().is_none()
            && let Some(inputs) = &self.inputs
            && !steering::waiting(inputs.as_ref(), ctx, state).await?.is_empty()
        {
            // The user spoke meanwhile. They are answered first; the turn that does so is judged.
            return Ok(Hook::jump(StateUpdate::none(), JumpTarget::Model));
        }
        let evaluation = match evaluation {
            Ok(evaluation) => evaluation,
            Err(evaluator::EvaluationError::Call(error)) if error.is_cancelled() => return Err(AgentError::Cancelled),
            Err(error) => {
                tracing::warn!(thread_id = %ctx.thread_id, %error, "the goal was not evaluated");
                ctx.events
                    .custom(json!({"type": "goal", "phase": "evaluation_failed", "reason": error.to_string()}))
                    .await;
                return Ok(Hook::none());
            }
        };
        let reply = evidence::latest_answer(state).and_then(|(_, id)| id);
        if let Some(achieved) = goal::achieve(goal, &evaluation, reply.as_deref()) {
            announce(ctx, "achieved", &evaluation.reason, goal).await;
            return Ok(Hook::update(achieved));
        }
        let signature = evidence::signature(state);
        Ok(decide(ctx, goal, evaluation, &signature, &redactor).await)
    }
}

/// What follows from a goal that is not met.
async fn decide(
    ctx: &RunContext,
    goal: &GoalState,
    evaluation: GoalEvaluation,
    signature: &str,
    redactor: &Redactor,
) -> Hook {
    // Not keyed on the evaluator's prose, which is never twice the same.
    let key =
        json!({"satisfied": evaluation.satisfied, "blocker": evaluation.blocker, "evidence_signature": signature});
    let key = key.to_string();
    let before = goal.last_evaluation.as_ref().and_then(|e| e.extra.get("progress_key")).and_then(Value::as_str);
    let mut goal = goal.clone();
    goal.no_progress_count = if before == Some(key.as_str()) { goal.no_progress_count + 1 } else { 0 };
    let mut evaluation = evaluation;
    evaluation.extra.insert("progress_key".into(), json!(key));
    if evaluation.blocker != "goal_not_met_yet" {
        let reason = format!("blocked:{}", evaluation.blocker);
        return stand_down(ctx, &goal, evaluation, &reason).await;
    }
    if goal.continuation_count >= goal.max_continuations {
        return stand_down(ctx, &goal, evaluation, "max_continuations_reached").await;
    }
    if goal.no_progress_count >= goal.max_no_progress_continuations {
        return stand_down(ctx, &goal, evaluation, "no_progress_detected").await;
    }
    if let Some(limit) = ctx.stop_reason() {
        return stand_down(ctx, &goal, evaluation, &limit).await;
    }
    goal.continuation_count += 1;
    announce(ctx, "continue", &evaluation.reason, &goal).await;
    let message = continuation(&goal, &evaluation, redactor);
    let update = StateUpdate { goal: Some(judged(ctx, goal, evaluation)), ..StateUpdate::messages([message]) };
    Hook::jump(update, JumpTarget::Model)
}

async fn stand_down(ctx: &RunContext, goal: &GoalState, mut evaluation: GoalEvaluation, reason: &str) -> Hook {
    announce(ctx, "stand_down", reason, goal).await;
    evaluation.extra.insert("stand_down_reason".into(), json!(reason));
    Hook::update(StateUpdate { goal: Some(judged(ctx, goal.clone(), evaluation)), ..StateUpdate::none() })
}

fn judged(ctx: &RunContext, mut goal: GoalState, mut evaluation: GoalEvaluation) -> GoalState {
    let now = goal::now();
    evaluation.extra.insert("run_id".into(), json!(ctx.run_id.as_str()));
    evaluation.extra.insert("evaluated_at".into(), json!(now));
    goal.updated_at = now;
    goal.last_evaluation = Some(evaluation);
    goal
}

async fn announce(ctx: &RunContext, phase: &str, reason: &str, goal: &GoalState) {
    let (count, max) = (goal.continuation_count, goal.max_continuations);
    let event = json!({"type": "goal", "phase": phase, "reason": reason, "continuation_count": count, "max_continuations": max});
    ctx.events.custom(event).await;
}

fn continuation(goal: &GoalState, evaluation: &GoalEvaluation, redactor: &Redactor) -> Message {
    let escape = |text: &str| redactor.redact(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let evidence = evaluation.extra.get("evidence_summary").and_then(Value::as_str).unwrap_or("none");
    let text = format!(
        "<goal_continuation>\nThe goal is not reached yet.\nGoal: {}\nBlocker: {}\nWhy: {}\nEvidence so far: {}\n\
         Keep working towards the goal now. Do not repeat what is done; do the next thing that is missing, and end with an answer \
         that shows the evidence.\n</goal_continuation>",
        escape(&goal.objective),
        evaluation.blocker,
        escape(&evaluation.reason),
        escape(evidence)
    );
    Message::human(text).with_name("goal_continuation").hidden().with_kwarg(GOAL_CONTINUATION, true)
}

#[cfg(test)]
mod tests;
