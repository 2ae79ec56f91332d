//! A model that falls silent after a tool result is asked once more; silent again, the run fails in plain words.

use async_trait::async_trait;
use deerflow_agent::{Hook, JumpTarget, Middleware, ModelNext, RunContext};
use deerflow_core::message::kwargs;
use deerflow_core::{AgentError, ChatRequest, Message, StateUpdate, ThreadState};
use serde_json::json;
use std::sync::Arc;

const NAME: &str = "TerminalResponseMiddleware";
const RECOVERY: &str = "terminal_response_recovery";

/// Makes sure that a run ends with words.
#[derive(Debug, Default)]
pub struct TerminalResponseMiddleware;

fn asked_in(ctx: &RunContext, state: &ThreadState) -> bool {
    state.private.get(NAME).and_then(|v| v.as_str()) == Some(ctx.run_id.as_str())
}

fn is_silent(state: &ThreadState) -> Option<&Arc<Message>> {
    let last = state.messages.last()?;
    let part = last.as_ai()?;
    let silent = last.content.is_blank() && part.tool_calls.is_empty() && part.invalid_tool_calls.is_empty();
    silent.then_some(last)
}

#[async_trait]
impl Middleware for TerminalResponseMiddleware {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn wrap_model_call(
        &self,
        ctx: &RunContext,
        state: &ThreadState,
        mut request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        if asked_in(ctx, state) && state.messages.last().is_none_or(|m| m.as_ai().is_none()) {
            let text = "Your last reply was empty. Answer the user now, in words, with what the tools have given you.";
            request.messages.push(Arc::new(Message::human(text).with_name(RECOVERY).hidden()));
        }
        next.run(request).await
    }

    async fn after_model(&self, ctx: &RunContext, state: &ThreadState) -> Result<Hook, AgentError> {
        let Some(silent) = is_silent(state) else { return Ok(Hook::none()) };
        if asked_in(ctx, state) {
            let text = "The model gave no answer, twice in a row. What the tools did is kept; ask again, or try another model.";
            let closed = Message { content: text.into(), ..(**silent).clone() }
                .with_kwarg(kwargs::ERROR_FALLBACK, true)
                .with_kwarg("error_type", "EmptyResponse")
                .with_kwarg("error_reason", "empty_response");
            return Ok(Hook::update(StateUpdate::messages([closed])));
        }
        let update = StateUpdate {
            private: [(NAME.to_owned(), json!(ctx.run_id))].into(),
            ..StateUpdate::messages([Message::remove(silent.id())])
        };
        Ok(Hook::jump(update, JumpTarget::Model))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use deerflow_agent::Flow;

    #[tokio::test]
    async fn silence_is_asked_about_once_and_then_fails_in_words() {
        let ctx = testing::context();
        let mut state = ThreadState::default();
        state.apply(&StateUpdate::messages([Message::human("q").with_id("1"), Message::ai(" ").with_id("2")])).unwrap();
        let hook = TerminalResponseMiddleware.after_model(&ctx, &state).await.unwrap();
        assert_eq!(hook.flow, Flow::JumpTo(JumpTarget::Model));
        state.apply(&hook.update).unwrap();
        assert_eq!(state.messages.len(), 1, "the empty message is gone");
        state.apply(&StateUpdate::messages([Message::ai("").with_id("3")])).unwrap();
        let hook = TerminalResponseMiddleware.after_model(&ctx, &state).await.unwrap();
        assert_eq!(hook.flow, Flow::Continue);
        assert!(hook.update.messages[0].flag(kwargs::ERROR_FALLBACK));
        assert!(hook.update.messages[0].text().starts_with("The model gave no answer"));
    }
}
