//! Ends the run when the model asks the user something; the answer starts the next one.

use async_trait::async_trait;
use deerflow_agent::{Middleware, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::{AgentError, Message};
use deerflow_tools::clarification::clarification;

const TOOL: &str = "ask_clarification";

/// Last of the chain. Intercepts `ask_clarification`.
#[derive(Debug, Default)]
pub struct ClarificationMiddleware;

#[async_trait]
impl Middleware for ClarificationMiddleware {
    fn name(&self) -> &'static str {
        "ClarificationMiddleware"
    }

    async fn wrap_tool_call(
        &self,
        ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        if request.call.name == TOOL {
            return Ok(if ctx.interactive { ask(&request) } else { go_on(&request) });
        }
        let asks = || request.context.state.last_ai().is_some_and(|m| m.tool_calls().iter().any(|c| c.name == TOOL));
        if ctx.interactive && asks() {
            let text = "Error: not run, because the user was asked something in the same turn. Call it again after the answer if it is still needed.";
            return Ok(ToolOutcome::error(&request.call, text));
        }
        next.run(request).await
    }
}

fn ask(request: &ToolRequest) -> ToolOutcome {
    let question = clarification(request.call.id(), &request.call.args);
    let mut message = Message::tool(question.text, request.call.id(), TOOL).with_id(question.message_id);
    if let Some(part) = message.as_tool_mut() {
        part.artifact = Some(serde_json::json!({"human_input": question.payload}));
    }
    ToolOutcome { end_run: true, ..ToolOutcome::message(message) }
}

fn go_on(request: &ToolRequest) -> ToolOutcome {
    let text = "Nobody can answer in this run. Proceed on your best judgment: choose the low-risk, reversible option and state \
                the assumptions you made.";
    ToolOutcome::message(Message::tool(text, request.call.id(), TOOL))
}
