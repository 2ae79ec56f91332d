//! A limit on what a run may cost in tokens: near it the model is told to finish, at it no more tools are called.
//!
//! What the run has used is kept with the thread, so that neither a resume nor a compaction forgets it. Turns that a goal adds are
//! turns of the same run. Usage that grows later (that of sub-agents is added to the message that sent them out) counts
//! by as much as it grew. Calls beside the conversation count too, those that a process made after the budget last looked
//! and before it died aside.

use super::closing::without_calls;
use super::decided::Decided;
use async_trait::async_trait;
use deerflow_agent::middleware::HookResult;
use deerflow_agent::{Hook, Middleware, ModelNext, RunContext};
use deerflow_config::{Problems, Section};
use deerflow_core::{AgentError, ChatRequest, Message, StateSlot, StateUpdate, ThreadState, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

/// What a run may cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenBudgetConfig {
    /// Whether there is a budget.
    pub enabled: bool,
    /// Tokens in all.
    #[schemars(range(min = 1000))]
    pub max_tokens: u64,
    /// Prompt tokens; only the total counts when null.
    #[schemars(range(min = 1))]
    pub max_input_tokens: Option<u64>,
    /// Reply tokens; only the total counts when null.
    #[schemars(range(min = 1))]
    pub max_output_tokens: Option<u64>,
    /// Share of any of these at which the model is told, once a run.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub warn_threshold: f64,
    /// Share of any of these at which no more tools are called.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub hard_stop_threshold: f64,
}

impl Default for TokenBudgetConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            max_tokens: 200_000,
            max_input_tokens: None,
            max_output_tokens: None,
            warn_threshold: 0.8,
            hard_stop_threshold: 1.0,
        }
    }
}

impl TokenBudgetConfig {
    /// The budget of a sub-agent for which none is configured: 1,000,000 tokens, or twice that when its history is not
    /// compacted; a warning at 0.7.
    #[must_use]
    pub fn for_subagent(compacted: bool) -> Self {
        let max_tokens = if compacted { 1_000_000 } else { 2_000_000 };
        Self { enabled: true, max_tokens, warn_threshold: 0.7, ..Self::default() }
    }
}

impl Section for TokenBudgetConfig {
    const KEY: &'static str = "token_budget";

    fn validate(&self, problems: &mut Problems) {
        if self.warn_threshold > self.hard_stop_threshold {
            let message = "`warn_threshold` is above `hard_stop_threshold`: runs would be stopped without a warning";
            problems.error("warn_threshold", message, None);
        }
    }
}

const NAME: &str = "TokenBudgetMiddleware";
/// Newest assistant messages whose usage may still grow.
const WATCHED: usize = 4;

/// Input, output, total.
type Tokens = [u64; 3];

/// Private state: what a run has used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Spent {
    run_id: String,
    tokens: Tokens,
    /// The newest assistant messages, oldest first, with what was counted of each.
    counted: Vec<(String, Tokens)>,
    /// What was counted of the calls beside the conversation (titles, summaries, judgements), and in which life of the run.
    #[serde(default)]
    beside: (String, Tokens),
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    warn_next: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    warned: bool,
}

const SLOT: StateSlot<Spent> = StateSlot::new(NAME);

/// Warns, then stops.
pub struct TokenBudgetMiddleware {
    config: TokenBudgetConfig,
}

fn tokens_of(message: &Message) -> Option<Tokens> {
    Some(tokens(&message.as_ai()?.usage_metadata.clone().unwrap_or_default()))
}

fn tokens(usage: &Usage) -> Tokens {
    let sum = usage.input_tokens.saturating_add(usage.output_tokens);
    [usage.input_tokens, usage.output_tokens, usage.total_tokens.max(sum)]
}

/// Counts what has come since `counted`.
fn count_up(sum: &mut Tokens, counted: &mut Tokens, now: Tokens) {
    for (unit, now) in now.into_iter().enumerate() {
        sum[unit] = sum[unit].saturating_add(now.saturating_sub(counted[unit]));
        counted[unit] = counted[unit].max(now);
    }
}

/// Takes note of the assistant messages so far as somebody else's.
fn opened(ctx: &RunContext, messages: &[Arc<Message>]) -> Spent {
    let mut counted: Vec<_> =
        messages.iter().rev().filter_map(|m| Some((m.id().to_owned(), tokens_of(m)?))).take(WATCHED).collect();
    counted.reverse();
    Spent { run_id: ctx.run_id.to_string(), counted, ..Spent::default() }
}

impl TokenBudgetMiddleware {
    /// Limits come from the configuration.
    #[must_use]
    pub fn new(config: TokenBudgetConfig) -> Self {
        Self { config }
    }

    /// What the run has used up to now.
    fn spent(ctx: &RunContext, state: &ThreadState) -> Spent {
        let messages = &state.messages;
        let last = messages.iter().rposition(|m| m.as_ai().is_some());
        let mut spent = SLOT
            .get(state)
            .filter(|spent| spent.run_id == ctx.run_id.as_str())
            // A run that began with an answer has had no `before_agent`: only its first reply is its own.
            .unwrap_or_else(|| opened(ctx, &messages[..last.unwrap_or(0)]));
        let known = |id: &str| messages.iter().position(|m| m.id() == id && !id.is_empty());
        let newest = spent.counted.iter().rev().find_map(|(id, _)| known(id));
        // Nothing of what was counted is left: all that is older than the last reply was.
        let from = newest.map_or_else(|| if spent.counted.is_empty() { 0 } else { last.unwrap_or(0) }, |at| at + 1);
        for (id, counted) in &mut spent.counted {
            if let Some(now) = known(id).and_then(|at| tokens_of(&messages[at])) {
                count_up(&mut spent.tokens, counted, now);
            }
        }
        let (calls, used) = ctx.side_calls();
        let (attempt, counted) = &mut spent.beside;
        if calls > 0 && attempt != ctx.attempt() {
            (*attempt, *counted) = (ctx.attempt().to_owned(), Tokens::default());
        }
        count_up(&mut spent.tokens, counted, tokens(&used));
        for message in messages.iter().skip(from) {
            let Some(tokens) = tokens_of(message) else { continue };
            for (sum, more) in spent.tokens.iter_mut().zip(tokens) {
                *sum = sum.saturating_add(more);
            }
            spent.counted.push((message.id().to_owned(), tokens));
        }
        let surplus = spent.counted.len().saturating_sub(WATCHED);
        spent.counted.drain(..surplus);
        spent
    }

    fn record(&self, ctx: &RunContext, action: &str, spent: &Spent) {
        let (limit, used, max, _) = self.closest(spent);
        let changes = json!({"limit": limit, "used": used, "max": max});
        Decided { tag: "token_budget", name: NAME, hook: "after_model", action, changes }.record(ctx);
    }

    /// The limit that is closest, and how much of it is used.
    fn closest(&self, spent: &Spent) -> (&'static str, u64, u64, f64) {
        let [input, output, total] = spent.tokens;
        let limits = [
            ("tokens", total, Some(self.config.max_tokens)),
            ("input tokens", input, self.config.max_input_tokens),
            ("output tokens", output, self.config.max_output_tokens),
        ];
        let used = limits.into_iter().filter_map(|(what, used, limit)| {
            let limit = limit.filter(|limit| *limit > 0)?;
            Some((what, used, limit, used as f64 / limit as f64))
        });
        used.max_by(|one, other| one.3.total_cmp(&other.3)).unwrap_or(("tokens", 0, 1, 0.0))
    }
}

#[async_trait]
impl Middleware for TokenBudgetMiddleware {
    fn name(&self) -> &'static str {
        NAME
    }

    /// What was said before this run is not its expense.
    async fn before_agent(&self, ctx: &RunContext, state: &ThreadState) -> HookResult {
        if !self.config.enabled || SLOT.get(state).is_some_and(|spent| spent.run_id == ctx.run_id.as_str()) {
            return Ok(Hook::none());
        }
        Ok(Hook::update(SLOT.put(&opened(ctx, &state.messages))))
    }

    async fn wrap_model_call(
        &self,
        ctx: &RunContext,
        state: &ThreadState,
        mut request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        if let Some(spent) =
            SLOT.get(state).filter(|s| self.config.enabled && s.warn_next && s.run_id == ctx.run_id.as_str())
        {
            let (what, used, limit, _) = self.closest(&spent);
            let text = format!(
                "[TOKEN BUDGET] This run has used {used} of its {limit} {what}. Finish now: call tools only where you cannot do \
                 without, then give your answer with what you have and say what is left undone."
            );
            request.messages.push(Arc::new(Message::human(text).with_name("budget_warning").hidden()));
        }
        next.run(request).await
    }

    async fn after_model(&self, ctx: &RunContext, state: &ThreadState) -> HookResult {
        if !self.config.enabled {
            return Ok(Hook::none());
        }
        let mut spent = Self::spent(ctx, state);
        spent.warned |= std::mem::take(&mut spent.warn_next);
        let (what, used, limit, share) = self.closest(&spent);
        let mut messages = Vec::new();
        if share >= self.config.hard_stop_threshold {
            ctx.set_stop_reason("token_capped");
            self.record(ctx, "stop", &spent);
            let part = state.last_ai().and_then(|m| Some((m, m.as_ai()?)));
            let names: Vec<String> =
                part.iter().flat_map(|(_, part)| &part.tool_calls).map(|c| c.name.clone()).collect();
            let broken = part.is_some_and(|(_, part)| !part.invalid_tool_calls.is_empty());
            let event = json!({"type": "token_budget", "phase": "stopped", "limit": what, "used": used, "max": limit, "tools": names});
            ctx.events.custom(event).await;
            if let Some((last, _)) = part.filter(|_| broken || !names.is_empty()) {
                let calls = if names.is_empty() { "a tool".to_owned() } else { names.join(", ") };
                let note = format!(
                    "[Stopped: this run has used {used} of its {limit} {what}. The calls of this turn ({calls}) were not run. Send a \
                     new message to go on.]"
                );
                messages.push(Arc::new(without_calls(last, &note, "stop")));
            }
        } else if share >= self.config.warn_threshold && !spent.warned {
            spent.warn_next = true;
            self.record(ctx, "warn", &spent);
            let event = json!({"type": "token_budget", "phase": "warning", "limit": what, "used": used, "max": limit});
            ctx.events.custom(event).await;
        }
        let mut update = StateUpdate { messages, ..StateUpdate::none() };
        if SLOT.get(state).as_ref() != Some(&spent) {
            SLOT.put_into(&mut update, &spent);
        }
        Ok(Hook::update(update))
    }
}

#[cfg(test)]
mod tests;
