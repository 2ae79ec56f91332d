//! Makes the thread's folders and stamps the user's message with who, when and in which run.

use async_trait::async_trait;
use deerflow_agent::{Hook, Middleware, RunContext};
use deerflow_core::state::ThreadData;
use deerflow_core::{AgentError, StateUpdate, ThreadState};
use deerflow_sandbox::SandboxProvider;
use serde_json::json;
use std::sync::Arc;

/// Owns `thread_data`. The state names virtual paths: host paths are nobody's business outside.
pub struct ThreadDataMiddleware {
    sandbox: Arc<dyn SandboxProvider>,
}

impl ThreadDataMiddleware {
    /// `sandbox` makes the folders, since it knows who must own them.
    #[must_use]
    pub fn new(sandbox: Arc<dyn SandboxProvider>) -> Self {
        Self { sandbox }
    }
}

#[async_trait]
impl Middleware for ThreadDataMiddleware {
    fn name(&self) -> &'static str {
        "ThreadDataMiddleware"
    }

    async fn before_agent(&self, ctx: &RunContext, state: &ThreadState) -> Result<Hook, AgentError> {
        let acquired = self.sandbox.acquire(ctx.user_id.as_str(), ctx.thread_id.as_str()).await;
        acquired.map_err(|error| AgentError::middleware(self.name(), error))?;
        let mut update = StateUpdate::none();
        if state.thread_data.is_none() {
            update.thread_data = Some(ThreadData {
                workspace_path: Some("/mnt/user-data/workspace".into()),
                uploads_path: Some("/mnt/user-data/uploads".into()),
                outputs_path: Some("/mnt/user-data/outputs".into()),
            });
        }
        if let Some(last) = state.messages.last().filter(|m| m.is_human()) {
            let mut message = (**last).clone();
            message.name.get_or_insert_with(|| "user-input".to_owned());
            message.additional_kwargs.insert("run_id".into(), json!(ctx.run_id));
            message.additional_kwargs.insert("timestamp".into(), json!(jiff::Timestamp::now().to_string()));
            update.messages.push(Arc::new(message));
        }
        Ok(Hook::update(update))
    }
}
