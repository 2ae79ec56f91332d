//! Keeps deferred tools out of the model's sight until it has asked for them.

use crate::deferred::{DeferredCatalogue, TOOL_SEARCH, ToolSearch};
use async_trait::async_trait;
use deerflow_agent::middleware::HookResult;
use deerflow_agent::{Hook, Middleware, ModelNext, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::state::PromotedTools;
use deerflow_core::{AgentError, ChatRequest, Message, StateUpdate, ThreadState, Tool};
use std::sync::Arc;

/// Owns the turn scope of `promoted`. Brings the deferred tools and `tool_search`.
pub struct DeferredToolFilterMiddleware {
    catalogue: Arc<DeferredCatalogue>,
    search: Arc<dyn Tool>,
}

impl DeferredToolFilterMiddleware {
    /// Hides the tools of this catalogue.
    #[must_use]
    pub fn new(catalogue: Arc<DeferredCatalogue>) -> Self {
        Self { search: Arc::new(ToolSearch::new(catalogue.clone())), catalogue }
    }
}

#[async_trait]
impl Middleware for DeferredToolFilterMiddleware {
    fn name(&self) -> &'static str {
        "DeferredToolFilterMiddleware"
    }
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        std::iter::once(self.search.clone()).chain(self.catalogue.tools().iter().cloned()).collect()
    }

    /// Opens the scope of the user's turn: what was promoted in an earlier one is hidden again.
    async fn before_model(&self, _ctx: &RunContext, state: &ThreadState) -> HookResult {
        let turn = state.messages.iter().rev().find(|m| m.is_genuine_user()).and_then(|m| m.id.clone());
        let open =
            state.promoted.as_ref().is_some_and(|p| p.catalog_hash == self.catalogue.hash() && p.turn_id == turn);
        if turn.is_none() || open {
            return Ok(Hook::none());
        }
        let scope = PromotedTools { catalog_hash: self.catalogue.hash().to_owned(), names: Vec::new(), turn_id: turn };
        Ok(Hook::update(StateUpdate { promoted: Some(scope), ..StateUpdate::none() }))
    }

    async fn wrap_model_call(
        &self,
        _ctx: &RunContext,
        state: &ThreadState,
        mut request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        request.tools.retain(|tool| !self.catalogue.hides(&tool.name, state));
        next.run(request).await
    }

    async fn wrap_tool_call(
        &self,
        _ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        let name = &request.call.name;
        if self.catalogue.hides(name, &request.context.state) {
            let text = format!(
                "Error: `{name}` is a deferred tool and was not run. Call {TOOL_SEARCH} with \"select:{name}\" first, in a turn of its \
                 own, then call it."
            );
            return Ok(ToolOutcome::error(&request.call, text));
        }
        next.run(request).await
    }
}
