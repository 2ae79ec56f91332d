//! A tool that brings nothing new any more: the model is told, and where trying again cannot help the tool is closed for
//! the rest of the run.
//!
//! Everything is read off the results in the conversation since the run began, so the same history always gives the same
//! verdict, in whichever process. Calls that go in circles are the business of loop detection; this judges what comes back.

mod phase;
mod words;

use super::decided::Decided;
use super::gate_meta;
use super::tool_error_handling::ToolMeta;
use async_trait::async_trait;
use deerflow_agent::{Hook, Middleware, ModelNext, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_config::Section;
use deerflow_core::message::kwargs;
use deerflow_core::{AgentError, ChatRequest, Message, StateSlot, ThreadState};
use phase::{Phase, Tracker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const NAME: &str = "ToolProgressMiddleware";
/// `additional_kwargs` key of the results that count: those a tool gave. What an outer gate answers in a tool's place says
/// nothing of the tool.
const JUDGED: &str = "deerflow_tool_progress";
/// Hints of one request.
const MAX_HINTS: usize = 3;
const SLOT: StateSlot<Slot> = StateSlot::new(NAME);

/// Notices tools that bring nothing new.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolProgressConfig {
    /// Whether it looks.
    pub enabled: bool,
    /// Problems of a tool in a row before the model is told.
    #[schemars(range(min = 1))]
    pub stagnation_threshold: usize,
    /// Further problems before a tool is closed whose errors the model cannot mend.
    #[schemars(range(min = 1))]
    pub warn_escalation_count: usize,
    /// Whether the model is told. Tools are closed all the same.
    pub inject_assessment: bool,
    /// Share of common words from which two results count as the same, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub jaccard_similarity_threshold: f64,
    /// Results with fewer different words are never compared.
    #[schemars(range(min = 1))]
    pub min_word_count_for_similarity: usize,
    /// Tools that are not judged.
    pub exempt_tools: BTreeSet<String>,
    /// Accepted from existing files; nothing is tracked between turns.
    pub max_tracked_threads: usize,
}

impl Default for ToolProgressConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            stagnation_threshold: 3,
            warn_escalation_count: 2,
            inject_assessment: true,
            jaccard_similarity_threshold: 0.8,
            min_word_count_for_similarity: 10,
            exempt_tools: ["ask_clarification", "write_todos", "present_files", "task"].map(str::to_owned).into(),
            max_tracked_threads: 100,
        }
    }
}

impl Section for ToolProgressConfig {
    const KEY: &'static str = "tool_progress";
}

/// Private state: where the run begins, and what was told of it.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Slot {
    run_id: String,
    /// Id of the last message before the run's own.
    since: Option<String>,
    /// Phases that events have told, those of active tools left out.
    told: BTreeMap<String, Phase>,
}

/// Outside the error handling, whose stamps it reads.
pub struct ToolProgressMiddleware {
    config: ToolProgressConfig,
}

impl ToolProgressMiddleware {
    /// Thresholds come from the configuration.
    #[must_use]
    pub fn new(config: ToolProgressConfig) -> Self {
        Self { config }
    }

    /// Where every tool stands after the results of this run.
    fn track(&self, state: &ThreadState) -> Tracker {
        let mut tracker = Tracker::default();
        self.feed(&mut tracker, run_of(state));
        tracker
    }

    /// Adds results; gives the hints they cause, in order, none twice.
    fn feed(&self, tracker: &mut Tracker, messages: &[Arc<Message>]) -> Vec<String> {
        let mut hints: Vec<String> = Vec::new();
        for message in messages.iter().filter(|m| m.as_tool().is_some() && m.flag(JUDGED)) {
            let Some(tool) = message.name.as_deref().filter(|name| !self.config.exempt_tools.contains(*name)) else {
                continue;
            };
            let meta = message.additional_kwargs.get(kwargs::TOOL_META).and_then(|m| ToolMeta::deserialize(m).ok());
            let Some(meta) = meta else { continue };
            if let Some(hint) = tracker.add(&self.config, tool, &meta, &message.text())
                && !hints.contains(&hint)
            {
                hints.push(hint);
            }
        }
        hints
    }

    /// Hints that the results after the last assistant message cause.
    fn hints(&self, state: &ThreadState) -> Vec<String> {
        let run = run_of(state);
        let new = run.iter().rposition(|m| m.as_ai().is_some()).map_or(0, |at| at + 1);
        let mut tracker = Tracker::default();
        self.feed(&mut tracker, &run[..new]);
        let mut hints = self.feed(&mut tracker, &run[new..]);
        hints.truncate(MAX_HINTS);
        hints
    }

    async fn tell(&self, ctx: &RunContext, tool: &str, from: Phase, action: &str, tracker: &Tracker) {
        let standing = tracker.standing(tool);
        let meta = standing.as_ref().and_then(|s| s.meta.as_ref());
        let threshold = standing.as_ref().and_then(|s| s.threshold);
        let hook = if action == "reset" { "before_agent" } else { "before_model" };
        let changes = json!({
            "tool_name": tool,
            "from_phase": from,
            "to_phase": tracker.phase(tool),
            "consecutive_problems": standing.as_ref().map_or(0, |s| s.problems),
            "threshold": threshold,
            "status": meta.map(|m| &m.status),
            "error_type": meta.and_then(|m| m.error_type.as_ref()),
            "recoverable_by_model": meta.map(|m| m.recoverable_by_model),
            "recommended_next_action": meta.map(|m| &m.recommended_next_action),
            "is_subagent": ctx.is_subagent(),
        });
        Decided { tag: "tool_progress", name: NAME, hook, action, changes }.tell(ctx).await;
    }
}

/// The messages of the run: those after the one it began with, or since the user's last message when that is gone.
fn run_of(state: &ThreadState) -> &[Arc<Message>] {
    let messages = &state.messages;
    let since = SLOT.get(state).and_then(|slot| slot.since);
    let start = since
        .and_then(|id| messages.iter().rposition(|m| m.id() == id))
        .or_else(|| messages.iter().rposition(|m| m.is_genuine_user()));
    &messages[start.map_or(0, |at| at + 1)..]
}

#[async_trait]
impl Middleware for ToolProgressMiddleware {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn before_agent(&self, ctx: &RunContext, state: &ThreadState) -> Result<Hook, AgentError> {
        let told = SLOT.get(state).unwrap_or_default().told;
        for (tool, phase) in told {
            self.tell(ctx, &tool, phase, "reset", &Tracker::default()).await;
        }
        let since = state.messages.last().map(|m| m.id().to_owned());
        Ok(Hook::update(SLOT.put(&Slot { run_id: ctx.run_id.to_string(), since, told: BTreeMap::new() })))
    }

    /// Tells of changes: after the batch, so that each is told once however many calls ran side by side.
    async fn before_model(&self, ctx: &RunContext, state: &ThreadState) -> Result<Hook, AgentError> {
        let mut slot = SLOT.get(state).unwrap_or_default();
        let tracker = self.track(state);
        let now = tracker.phases();
        if now == slot.told {
            return Ok(Hook::none());
        }
        let tools: BTreeSet<&String> = now.keys().chain(slot.told.keys()).collect();
        for tool in tools {
            let (from, to) = (slot.told.get(tool).copied().unwrap_or_default(), tracker.phase(tool));
            let action = match to {
                _ if from == to => continue,
                Phase::Active => "recover",
                Phase::Warned => "warn",
                Phase::Blocked => "block",
            };
            self.tell(ctx, tool, from, action, &tracker).await;
        }
        slot.told = now;
        Ok(Hook::update(SLOT.put(&slot)))
    }

    async fn wrap_model_call(
        &self,
        _ctx: &RunContext,
        state: &ThreadState,
        mut request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        let hints = if self.config.inject_assessment { self.hints(state) } else { Vec::new() };
        if !hints.is_empty() {
            request.messages.push(Arc::new(Message::human(hints.join("\n\n")).with_name("progress_hint").hidden()));
        }
        next.run(request).await
    }

    async fn wrap_tool_call(
        &self,
        _ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        let tool = request.call.name.as_str();
        if tool.is_empty() || self.config.exempt_tools.contains(tool) {
            return next.run(request).await;
        }
        // As the turn began; only a closed tool is worth going through the results once more.
        let state = &request.context.state;
        let closed = SLOT.get(state).is_some_and(|slot| slot.told.get(tool) == Some(&Phase::Blocked));
        let reason = if closed { self.track(state).block_reason(tool) } else { None };
        let Some(reason) = reason else {
            let mut outcome = next.run(request).await?;
            outcome.message.additional_kwargs.insert(JUDGED.to_owned(), true.into());
            return Ok(outcome);
        };
        tracing::info!(tool, reason, "tool is closed for this run");
        let mut outcome = ToolOutcome::error(&request.call, format!("[TOOL_BLOCKED] {reason}"));
        gate_meta::stamp(&mut outcome.message, Some(phase::BLOCKED), "summarize", "progress_middleware");
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests;
