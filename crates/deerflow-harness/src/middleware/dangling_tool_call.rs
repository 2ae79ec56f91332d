//! Gives every call of a request exactly one result, right after its message, for any model.
//!
//! Adapters legalise for their provider once more; this is the part that holds for all of them, custom models included. The
//! state is not touched.

use async_trait::async_trait;
use deerflow_agent::{Middleware, ModelNext, RunContext};
use deerflow_core::{AgentError, ChatRequest, Message, ThreadState};
use deerflow_models::legalise::settle_calls;

/// Repairs the history of each request.
#[derive(Debug, Default)]
pub struct DanglingToolCallMiddleware;

#[async_trait]
impl Middleware for DanglingToolCallMiddleware {
    fn name(&self) -> &'static str {
        "DanglingToolCallMiddleware"
    }

    async fn wrap_model_call(
        &self,
        _ctx: &RunContext,
        _state: &ThreadState,
        mut request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        request.messages = settle_calls(&request.messages);
        next.run(request).await
    }
}
