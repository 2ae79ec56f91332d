//! Notes in the state which sandbox the thread holds. Nothing is set up before a tool needs it.

use async_trait::async_trait;
use deerflow_agent::{Middleware, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::AgentError;
use deerflow_core::state::SandboxState;
use deerflow_sandbox::SandboxProvider;
use std::sync::Arc;

/// Tools that work in the sandbox.
const SANDBOX_TOOLS: [&str; 7] = ["bash", "ls", "read_file", "write_file", "str_replace", "glob", "grep"];

/// Owns `sandbox`.
pub struct SandboxMiddleware {
    provider: Arc<dyn SandboxProvider>,
}

impl SandboxMiddleware {
    /// Sandboxes come from `provider`.
    #[must_use]
    pub fn new(provider: Arc<dyn SandboxProvider>) -> Self {
        Self { provider }
    }
}

#[async_trait]
impl Middleware for SandboxMiddleware {
    fn name(&self) -> &'static str {
        "SandboxMiddleware"
    }

    async fn wrap_tool_call(
        &self,
        ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        let first_use = SANDBOX_TOOLS.contains(&request.call.name.as_str()) && request.context.state.sandbox.is_none();
        let mut outcome = next.run(request).await?;
        if first_use && outcome.update.sandbox.is_none() {
            // Cheap by now: the tool has acquired it, or failed to.
            if let Ok(sandbox) = self.provider.acquire(ctx.user_id.as_str(), ctx.thread_id.as_str()).await {
                outcome.update.sandbox = Some(SandboxState { sandbox_id: Some(sandbox.id().to_owned()) });
            }
        }
        Ok(outcome)
    }
}
