//! Ends the run when the model asks the user something; the answer starts the next one.

use async_trait::async_trait;
use deerflow_agent::{Middleware, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::{AgentError, Message, ThreadState};
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
    let id = unused_id(&request.context.state, question.message_id);
    let mut message = Message::tool(question.text, request.call.id(), TOOL).with_id(id);
    if let Some(part) = message.as_tool_mut() {
        part.artifact = Some(serde_json::json!({"human_input": question.payload}));
    }
    ToolOutcome { end_run: true, ..ToolOutcome::message(message) }
}

/// The id of the question's message. Some providers number the calls of each turn anew: a second question of the same call
/// id must not take the place of the first one in the history.
fn unused_id(state: &ThreadState, wanted: String) -> String {
    if !state.messages.iter().any(|m| m.id() == wanted) {
        return wanted;
    }
    let turn = state.last_ai().map(|m| m.id().to_owned()).unwrap_or_default();
    let digest = blake3::hash(format!("{turn}:{wanted}").as_bytes()).to_hex();
    format!("clarification:{}", &digest[..16])
}

fn go_on(request: &ToolRequest) -> ToolOutcome {
    let text = "Nobody can answer in this run. Proceed on your best judgment: choose the low-risk, reversible option and state \
                the assumptions you made.";
    ToolOutcome::message(Message::tool(text, request.call.id(), TOOL))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{context, says, script};
    use super::*;
    use deerflow_agent::{Agent, EphemeralLog};
    use deerflow_core::ToolCall;
    use std::sync::Arc;

    /// Providers that number the calls of each turn anew ask twice under one call id.
    #[tokio::test]
    async fn a_second_question_of_the_same_call_id_stands_where_it_was_asked() {
        let asking = || {
            let mut message = Message::ai("");
            let args = serde_json::json!({"question": "which?", "clarification_type": "missing_info"});
            message.as_ai_mut().unwrap().tool_calls =
                vec![ToolCall::new("call_0", TOOL, args.as_object().cloned().unwrap())];
            message
        };
        let chain: Arc<dyn Middleware> = Arc::new(ClarificationMiddleware);
        let agent = Agent::builder(script(vec![asking(), asking()]))
            .tools([deerflow_tools::ask_clarification()])
            .middleware([chain])
            .step_log(Arc::new(EphemeralLog::default()))
            .build()
            .unwrap();
        agent.run(&context(), says("go")).await.unwrap();
        let done = agent.run(&context(), says("this one")).await.unwrap();
        let roles: Vec<_> = done.state.messages.iter().map(|m| m.role()).collect();
        assert_eq!(roles, ["human", "ai", "tool", "human", "ai", "tool"]);
        assert_eq!(done.state.messages[2].id(), "clarification:call_0");
    }
}
