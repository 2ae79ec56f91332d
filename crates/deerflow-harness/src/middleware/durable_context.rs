//! Shows the model in each request what outlives compaction: the summary, sub-agents sent out, skills read, notes, and where
//! the archived history and earlier results are.
//!
//! It is written down while it can still be seen, before anything is compacted, and read off structured facts only: no text of a
//! result is taken for its outcome. Nothing of what is shown is stored.

mod delegation_ledger;
mod render;
mod skill_context;

pub(crate) use render::show_summary;

use async_trait::async_trait;
use deerflow_agent::middleware::HookResult;
use deerflow_agent::{Hook, Middleware, ModelNext, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::{AgentError, ChatRequest, Message, StateUpdate, ThreadState};
use skill_context::SkillReads;
use std::sync::Arc;

/// Says which earlier results the model may name by handle; `None` when there are none. What it says is escaped already.
pub type ArtifactProjection = Arc<dyn Fn(&ThreadState) -> Option<String> + Send + Sync>;

/// Owns `delegations` and `skill_context`.
pub struct DurableContextMiddleware {
    skills: SkillReads,
    artifacts: Option<ArtifactProjection>,
}

impl DurableContextMiddleware {
    /// Skills are `SKILL.md` files under `skills_root` (`/mnt/skills`) that one of `read_tools`
    /// (`summarization.skill_file_read_tool_names`) has read.
    #[must_use]
    pub fn new(read_tools: Vec<String>, skills_root: impl Into<String>, artifacts: Option<ArtifactProjection>) -> Self {
        Self { skills: SkillReads::new(read_tools, skills_root.into()), artifacts }
    }
}

#[async_trait]
impl Middleware for DurableContextMiddleware {
    fn name(&self) -> &'static str {
        "DurableContextMiddleware"
    }

    async fn before_model(&self, ctx: &RunContext, state: &ThreadState) -> HookResult {
        let delegations = delegation_ledger::capture(ctx, state);
        let skills = self.skills.capture(state);
        Ok(Hook::update(StateUpdate {
            delegations: (!delegations.is_empty()).then_some(delegations),
            skill_context: (!skills.is_empty()).then_some(skills),
            ..StateUpdate::none()
        }))
    }

    async fn wrap_model_call(
        &self,
        _ctx: &RunContext,
        state: &ThreadState,
        mut request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        let artifacts = self.artifacts.as_ref().and_then(|project| project(state));
        render::show(&mut request, state, artifacts.as_deref());
        next.run(request).await
    }

    /// So that a sub-agent counts as sent out while it works.
    async fn after_model(&self, ctx: &RunContext, state: &ThreadState) -> HookResult {
        let delegations = delegation_ledger::capture(ctx, state);
        let delegations = (!delegations.is_empty()).then_some(delegations);
        Ok(Hook::update(StateUpdate { delegations, ..StateUpdate::none() }))
    }

    async fn wrap_tool_call(
        &self,
        _ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        let skill = self.skills.path_of(&request.call);
        let mut outcome = next.run(request).await?;
        if let Some(path) = skill {
            SkillReads::stamp(&mut outcome.message, &path);
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests;
