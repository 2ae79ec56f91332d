//! A reply cut off by the token limit: says so, and runs no half-written call.

use super::closing::{with_note, without_calls};
use async_trait::async_trait;
use deerflow_agent::{Hook, JumpTarget, Middleware, RunContext};
use deerflow_core::{AgentError, StateUpdate, ThreadState};

const NOTE: &str = "[The reply was cut off at the model's output limit. Ask to continue, or for a shorter answer.]";
const CALL_NOTE: &str = "[The reply was cut off at the model's output limit while it called a tool; the call was not run. Ask to \
                         continue in smaller steps.]";

/// Ends such a turn with a visible notice.
#[derive(Debug, Default)]
pub struct ModelLengthFinishReasonMiddleware;

#[async_trait]
impl Middleware for ModelLengthFinishReasonMiddleware {
    fn name(&self) -> &'static str {
        "ModelLengthFinishReasonMiddleware"
    }

    async fn after_model(&self, ctx: &RunContext, state: &ThreadState) -> Result<Hook, AgentError> {
        let Some(last) = state.last_ai() else { return Ok(Hook::none()) };
        let Some(reason @ ("length" | "MAX_TOKENS" | "max_tokens")) = last.finish_reason() else {
            return Ok(Hook::none());
        };
        ctx.set_stop_reason("model_length_capped");
        let calls = last.as_ai().is_some_and(|p| !p.tool_calls.is_empty() || !p.invalid_tool_calls.is_empty());
        let closed = if calls { without_calls(last, CALL_NOTE, reason) } else { with_note(last, NOTE) };
        let closed = closed.with_kwarg("model_length_termination", true);
        Ok(Hook::jump(StateUpdate::messages([closed]), JumpTarget::End))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use deerflow_core::{InvalidToolCall, Message};
    use serde_json::json;
    use std::sync::Arc;

    /// BR-022
    #[tokio::test]
    async fn a_cut_reply_is_shown_with_a_notice_and_a_half_call_is_not_run() {
        for half_call in [false, true] {
            let mut message = Message::ai("part of").with_id("m");
            message.response_metadata.insert("finish_reason".into(), json!("length"));
            if half_call {
                let call = InvalidToolCall::new(Some("c".into()), Some("write_file".into()), "{\"path".into(), "cut");
                message.as_ai_mut().unwrap().invalid_tool_calls.push(call);
            }
            let state = ThreadState { messages: vec![Arc::new(message)], ..Default::default() };
            let ctx = testing::context();
            let hook = ModelLengthFinishReasonMiddleware.after_model(&ctx, &state).await.unwrap();
            let closed = &hook.update.messages[0];
            assert_eq!(closed.id(), "m");
            assert!(closed.text().starts_with("part of\n\n[The reply was cut off"), "{}", closed.text());
            assert_eq!(closed.text().contains("the call was not run"), half_call);
            assert!(closed.as_ai().unwrap().invalid_tool_calls.is_empty());
            assert_eq!(ctx.stop_reason().as_deref(), Some("model_length_capped"));
        }
    }
}
