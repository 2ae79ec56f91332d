//! Keeps a conversation within its model's context window: the oldest part goes, a summary takes its place.
//!
//! Looked at before every model call, so that one long tool loop cannot overrun the window either. No call is ever parted from
//! its results; system messages, the current date and what the user said last stay word for word. The summary is a value
//! of the state, not a message, and goes into each request. When no model can write one, nothing changes. A provider
//! that says that a conversation is too long is believed: the conversation is compacted once and the call made again.

mod compact;
mod config;
mod cutoff;
mod generate;
mod hook;
mod transcript;

pub use compact::{CompactError, CompactOptions, Compaction, compact};
pub use config::{ContextSize, SizeKind, SummarizationConfig, Trigger};
pub(crate) use cutoff::SHORTENED;
pub(crate) use generate::SUMMARY_CHARS;
pub use generate::{ModelSource, SummaryGenerationError};
pub use hook::{SummarizationEvent, SummarizationHook};

use super::durable_context;
use async_trait::async_trait;
use cutoff::{Keep, Plan, plan};
use deerflow_agent::middleware::HookResult;
use deerflow_agent::{Hook, Middleware, ModelNext, RunContext};
use deerflow_core::{
    AgentError, ChatModel, ChatRequest, Message, MessageKind, ModelErrorKind, StateSlot, StateUpdate, ThreadState,
    Usage,
};
use deerflow_tokens::{TokenCounter, text_tokens};
use generate::{Failure, Writer};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

const NAME: &str = "DeerFlowSummarizationMiddleware";
/// On an assistant message: the compaction that made room for its request, still to be written.
const PENDING: &str = "deerflow_compaction";
/// A compaction by share of the window has to gain at least one part in this many.
const LEAST_GAIN: u64 = 20;

/// Owns `summary_text`, and the removal of what it stands for.
pub struct DeerFlowSummarizationMiddleware {
    config: SummarizationConfig,
    candidates: Vec<ModelSource>,
    window: u64,
    hooks: Vec<Arc<dyn SummarizationHook>>,
    agent_name: String,
    /// Estimates by message, nothing of a run.
    counter: TokenCounter,
}

/// Private state: up to where the usage that providers reported is about a conversation that is no more.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    upto: String,
}

const SLOT: StateSlot<Mark> = StateSlot::new(NAME);

/// Why a conversation is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Trigger,
    ContextLength,
    Manual,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Trigger => "trigger",
            Self::ContextLength => "context_length",
            Self::Manual => "manual",
        }
    }
}

impl DeerFlowSummarizationMiddleware {
    /// Summaries by `summary_model` if there is one and it works, else by the run's own model, whose window the shares are of.
    #[must_use]
    pub fn new(config: SummarizationConfig, run_model: Arc<dyn ChatModel>, summary_model: Option<ModelSource>) -> Self {
        let window = run_model.info().context_window.filter(|window| *window > 0).unwrap_or(config::ASSUMED_WINDOW);
        let own: ModelSource = Arc::new(move || Ok(run_model.clone()));
        Self {
            config,
            candidates: summary_model.into_iter().chain([own]).collect(),
            window,
            hooks: Vec::new(),
            agent_name: "lead_agent".to_owned(),
            counter: TokenCounter::default(),
        }
    }
    /// Adds a hook.
    #[must_use]
    pub fn with_hook(mut self, hook: Arc<dyn SummarizationHook>) -> Self {
        self.hooks.push(hook);
        self
    }
    /// Names the agent to the hooks; `lead_agent` otherwise.
    #[must_use]
    pub fn for_agent(mut self, name: impl Into<String>) -> Self {
        self.agent_name = name.into();
        self
    }

    /// Estimated tokens of messages with a summary.
    fn tokens(&self, messages: &[Arc<Message>], summary: Option<&str>) -> u64 {
        let summary = summary.filter(|text| !text.is_empty()).map_or(0, |text| text_tokens(text) + 5);
        self.counter.total(messages) + summary
    }

    /// Whether a trigger asks for a compaction. The inner value is the number of tokens that what stays must not exceed, lest
    /// it be due again at once.
    fn due(&self, state: &ThreadState) -> Option<Option<u64>> {
        let tokens = self.tokens(&state.messages, state.summary_text.as_deref());
        let measured = self.reported(state).map_or(tokens, |reported| reported.max(tokens));
        let mut due = None;
        for size in self.config.triggers() {
            let threshold = size.amount(self.window);
            let ceiling = match size.kind {
                SizeKind::Messages if state.messages.len() as u64 >= threshold => None,
                SizeKind::Tokens if tokens >= threshold => Some(threshold),
                // The prompt and the tools take their part of the window, which only the provider's count shows.
                SizeKind::Fraction if measured >= threshold => {
                    Some(threshold.saturating_sub(measured - tokens).max(threshold / 4))
                }
                _ => continue,
            };
            due = Some(match (due.flatten(), ceiling) {
                (Some(one), Some(other)) => Some(u64::min(one, other)),
                (one, other) => one.or(other),
            });
        }
        due
    }

    /// Tokens of the conversation by the provider's own count: that of its last reply, and an estimate of what came since.
    fn reported(&self, state: &ThreadState) -> Option<u64> {
        let messages = &state.messages;
        let from = match SLOT.get(state) {
            None => 0,
            Some(mark) => messages.iter().position(|m| m.id() == mark.upto)? + 1,
        };
        let usage = |m: &Message| m.as_ai().and_then(|part| part.usage_metadata.clone()).filter(|u| !u.is_zero());
        let (at, usage) = messages.iter().enumerate().skip(from).rev().find_map(|(at, m)| Some((at, usage(m)?)))?;
        if messages[at].tool_calls().iter().any(|call| call.name == "task") {
            // What sub-agents used was added to it.
            return None;
        }
        Some(usage.input_tokens + usage.output_tokens + self.counter.total(&messages[at + 1..]))
    }

    fn plan(&self, state: &ThreadState, keep: ContextSize, ceiling: Option<u64>) -> Option<Plan> {
        let amount = keep.amount(self.window);
        let keep = match keep.kind {
            SizeKind::Messages => Keep::Messages(usize::try_from(amount).unwrap_or(usize::MAX)),
            SizeKind::Tokens | SizeKind::Fraction => Keep::Tokens(amount),
        };
        let kept = plan(&state.messages, keep, None, &self.counter);
        let Some(ceiling) = ceiling else { return kept };
        let room = ceiling.saturating_sub(summary_allowance(ceiling));
        match kept {
            Some(kept) if self.counter.total(&kept.preserved) < room => Some(kept),
            None if self.counter.total(&state.messages) < room => None,
            // A quarter less, so that a few turns fit before it is due again.
            _ => plan(&state.messages, keep, Some(room / 4 * 3), &self.counter),
        }
    }

    /// Writes the summary, tells the hooks, and makes the one write.
    async fn carry_out(
        &self,
        ctx: &RunContext,
        state: &ThreadState,
        plan: Plan,
        reason: Reason,
    ) -> Result<Compaction, CompactError> {
        let previous = state.summary_text.as_deref().filter(|text| !text.trim().is_empty());
        let writer = Writer {
            candidates: &self.candidates,
            template: self.config.summary_prompt.as_deref(),
            trim_tokens: self.config.trim_tokens_to_summarize,
        };
        let (summary, usage) = if plan.removed.is_empty() {
            (previous.map(str::to_owned), Usage::default())
        } else {
            let written = writer.write(ctx, previous, &plan.removed).await.map_err(|failure| match failure {
                Failure::Generation(error) => CompactError::Summary(error),
                Failure::Run(error) => CompactError::Run(error),
            })?;
            (Some(written.text), written.usage)
        };
        let mut update = StateUpdate::none();
        for hook in self.hooks.iter().filter(|hook| !(ctx.is_subagent() && hook.skips_subagents())) {
            let event = SummarizationEvent {
                messages_to_summarize: &plan.removed,
                preserved_messages: &plan.preserved,
                shortened: &plan.shortened,
                summary: summary.as_deref().unwrap_or_default(),
                agent_name: &self.agent_name,
                state,
            };
            match hook.before_summarization(ctx, event).await {
                Ok(written) => {
                    update.task_history = written.task_history.or(update.task_history);
                    update.private.extend(written.private);
                }
                Err(error) if error.is_cancelled() => return Err(CompactError::Run(AgentError::Cancelled)),
                Err(error @ AgentError::Store(_)) => return Err(CompactError::Run(error)),
                Err(error) => tracing::error!(hook = hook.name(), %error, "a hook before a summarisation failed"),
            }
        }
        let tokens_before = self.tokens(&state.messages, previous);
        let tokens_after = self.tokens(&plan.preserved, summary.as_deref());
        let report = json!({
            "type": "summarization", "reason": reason.as_str(), "agent": self.agent_name,
            "messages_compacted": plan.removed.len(), "messages_kept": plan.preserved.len(),
            "results_shortened": plan.shortened.len(), "compacted": by_role(&plan.removed),
            "first_message_id": plan.removed.first().map(|m| m.id()), "last_message_id": plan.removed.last().map(|m| m.id()),
            "tokens_before": tokens_before, "tokens_after": tokens_after,
        });
        tracing::info!(thread_id = %ctx.thread_id, reason = reason.as_str(), removed = plan.removed.len(), tokens_before, tokens_after, "conversation compacted");
        ctx.events.custom(report).await;
        let (removed_messages, preserved_messages) = (plan.removed.len(), plan.preserved.len());
        if let Some(last) = plan.preserved.last() {
            SLOT.put_into(&mut update, &Mark { upto: last.id().to_owned() });
        }
        update.messages.push(Arc::new(Message::remove_all()));
        update.messages.extend(plan.preserved);
        update.summary_text = summary;
        Ok(Compaction { update, removed_messages, preserved_messages, tokens_before, tokens_after, usage })
    }

    /// Makes room after a provider said that there is none: the request to try, and the write that is then due.
    async fn make_room(
        &self,
        ctx: &RunContext,
        state: &ThreadState,
        request: &ChatRequest,
    ) -> Result<Option<(ChatRequest, Option<StateUpdate>)>, AgentError> {
        let now = self.tokens(&state.messages, state.summary_text.as_deref());
        let ceiling = self.window.min(now) / 2;
        let Some(plan) = self.plan(state, self.config.keep, Some(ceiling)) else { return Ok(None) };
        match self.carry_out(ctx, state, plan, Reason::ContextLength).await {
            Ok(compaction) => {
                let smaller = in_request(request, state, &compaction.update);
                Ok(Some((smaller, Some(as_removals(state, compaction.update)))))
            }
            Err(CompactError::Run(error)) => Err(error),
            Err(error) => {
                // Without a summary nothing may go for good. Results can be shorter for this once.
                tracing::warn!(thread_id = %ctx.thread_id, %error, "conversation too long and not summarised");
                let Some(messages) = cutoff::shorter(&state.messages, ceiling, &self.counter) else { return Ok(None) };
                let update = StateUpdate { messages, ..StateUpdate::none() };
                Ok(Some((in_request(request, state, &update), None)))
            }
        }
    }
}

/// Room for the summary among `ceiling` tokens.
fn summary_allowance(ceiling: u64) -> u64 {
    (SUMMARY_CHARS as u64 / 4).min(ceiling / 4)
}

fn by_role(messages: &[Arc<Message>]) -> BTreeMap<&'static str, usize> {
    messages.iter().fold(BTreeMap::new(), |mut counts, message| {
        *counts.entry(message.role()).or_default() += 1;
        counts
    })
}

/// The request as it is after `update`: without the messages that go, with those that were cut, and with the new summary.
/// What other middlewares added or changed stays.
fn in_request(request: &ChatRequest, before: &ThreadState, update: &StateUpdate) -> ChatRequest {
    let stays: HashMap<&str, &Arc<Message>> = update.messages.iter().map(|m| (m.id(), m)).collect();
    let known: HashSet<&str> = before.messages.iter().map(|m| m.id()).collect();
    let mut smaller = request.clone();
    smaller.messages.retain(|m| m.id.is_none() || !known.contains(m.id()) || stays.contains_key(m.id()));
    for message in &mut smaller.messages {
        if let Some(short) = stays.get(message.id()).filter(|m| m.flag(SHORTENED)) {
            *message = Arc::clone(short);
        }
    }
    if let Some(summary) = &update.summary_text {
        durable_context::show_summary(&mut smaller, before.summary_text.as_deref(), summary);
    }
    smaller
}

/// The same write message by message: it can be made after others were added.
fn as_removals(before: &ThreadState, mut update: StateUpdate) -> StateUpdate {
    let stays: HashSet<String> = update.messages.iter().map(|m| m.id().to_owned()).collect();
    let gone = before.messages.iter().filter(|m| !stays.contains(m.id())).map(|m| Arc::new(Message::remove(m.id())));
    let cut = update.messages.iter().filter(|m| m.flag(SHORTENED)).cloned();
    update.messages = gone.chain(cut).collect();
    update
}

/// The write that an assistant message still carries, without what it can no longer do.
fn pending(state: &ThreadState) -> Option<StateUpdate> {
    let carrier = state.messages.iter().rev().find(|m| m.additional_kwargs.contains_key(PENDING))?;
    let mut clean = Message::clone(carrier);
    let carried = clean.additional_kwargs.remove(PENDING).unwrap_or_default();
    let Ok(mut update) = serde_json::from_value::<StateUpdate>(carried) else {
        return Some(StateUpdate::messages([clean]));
    };
    let there: HashSet<&str> = state.messages.iter().map(|m| m.id()).collect();
    update.messages.retain(|m| there.contains(m.id()));
    update.messages.push(Arc::new(clean));
    Some(update)
}

#[async_trait]
impl Middleware for DeerFlowSummarizationMiddleware {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn before_model(&self, ctx: &RunContext, state: &ThreadState) -> HookResult {
        if let Some(update) = pending(state) {
            return Ok(Hook::update(update));
        }
        if !self.config.enabled {
            return Ok(Hook::none());
        }
        let Some(ceiling) = self.due(state) else { return Ok(Hook::none()) };
        let Some(plan) = self.plan(state, self.config.keep, ceiling) else { return Ok(Hook::none()) };
        let gain = self.counter.total(&plan.removed) + self.counter.total(&plan.shortened);
        if ceiling.is_some() && gain * LEAST_GAIN < self.counter.total(&state.messages) {
            return Ok(Hook::none());
        }
        match self.carry_out(ctx, state, plan, Reason::Trigger).await {
            Ok(compaction) => Ok(Hook::update(compaction.update)),
            Err(CompactError::Run(error)) => Err(error),
            Err(error) => {
                tracing::warn!(thread_id = %ctx.thread_id, %error, "the conversation was not compacted");
                Ok(Hook::none())
            }
        }
    }

    async fn wrap_model_call(
        &self,
        ctx: &RunContext,
        state: &ThreadState,
        mut request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        if let Some(summary) = state.summary_text.as_deref().filter(|text| !text.trim().is_empty()) {
            // In a chain without DurableContext, somebody has to say what went before.
            durable_context::show_summary(&mut request, Some(summary), summary);
        }
        let too_long = |error: &AgentError| matches!(error, AgentError::Model(error) if error.kind == ModelErrorKind::ContextLength);
        let error = match next.run(request.clone()).await {
            Err(error) if self.config.enabled && too_long(&error) => error,
            other => return other,
        };
        let Some((smaller, update)) = self.make_room(ctx, state, &request).await? else { return Err(error) };
        let mut reply = next.run(smaller).await?;
        if let Some(update) = update
            && matches!(reply.kind, MessageKind::Ai(_))
        {
            // The state cannot be written from here. The reply takes the write along, and both become durable in one step.
            reply.additional_kwargs.insert(PENDING.to_owned(), json!(update));
        }
        Ok(reply)
    }

    async fn after_model(&self, _ctx: &RunContext, state: &ThreadState) -> HookResult {
        Ok(pending(state).map_or_else(Hook::none, Hook::update))
    }
}

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
