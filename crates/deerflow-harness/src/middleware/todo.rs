//! Keeps the plan in sight in plan mode: shows it again when it has left the window, and asks to finish it before the end.

use async_trait::async_trait;
use deerflow_agent::{Hook, JumpTarget, Middleware, ModelNext, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::state::{Todo, TodoStatus};
use deerflow_core::{AgentError, ChatRequest, Message, StateUpdate, ThreadState, Tool};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;

const NAME: &str = "TodoMiddleware";
const TOOL: &str = "write_todos";
const REMINDER: &str = "todo_reminder";
/// Times a run is asked to finish its plan.
const MAX_COMPLETION_REMINDERS: u32 = 2;

/// Owns `todos`, and brings the tool that writes them.
pub struct TodoMiddleware {
    tool: Arc<dyn Tool>,
}

/// Private state: how often this run was asked to finish its plan.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Slot {
    run_id: String,
    reminders: u32,
    /// The next model call is the answer to a reminder.
    pending: bool,
}

impl TodoMiddleware {
    /// The middleware around this `write_todos` tool.
    #[must_use]
    pub fn new(tool: Arc<dyn Tool>) -> Self {
        Self { tool }
    }

    fn slot(ctx: &RunContext, state: &ThreadState) -> Slot {
        let slot: Slot =
            state.private.get(NAME).and_then(|v| serde_json::from_value(v.clone()).ok()).unwrap_or_default();
        if slot.run_id == ctx.run_id.as_str() {
            slot
        } else {
            Slot { run_id: ctx.run_id.to_string(), ..Slot::default() }
        }
    }
}

fn open_items(state: &ThreadState) -> Vec<&Todo> {
    state.todos.iter().flatten().filter(|t| t.status != TodoStatus::Completed).collect()
}

fn listing(todos: &[Todo]) -> String {
    todos.iter().fold(String::new(), |mut text, todo| {
        let mark = match todo.status {
            TodoStatus::Pending => "[ ]",
            TodoStatus::InProgress => "[~]",
            TodoStatus::Completed => "[x]",
        };
        let _ = writeln!(text, "{mark} {}", todo.content);
        text
    })
}

#[async_trait]
impl Middleware for TodoMiddleware {
    fn name(&self) -> &'static str {
        NAME
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        vec![self.tool.clone()]
    }

    async fn before_model(&self, _ctx: &RunContext, state: &ThreadState) -> Result<Hook, AgentError> {
        let Some(todos) = state.todos.as_deref().filter(|t| !t.is_empty()) else { return Ok(Hook::none()) };
        let visible = state
            .messages
            .iter()
            .any(|m| m.name.as_deref() == Some(REMINDER) || m.tool_calls().iter().any(|c| c.name == TOOL));
        if visible {
            return Ok(Hook::none());
        }
        let text = format!(
            "Your plan so far (it has left the visible history):\n{}Keep it up to date with write_todos.",
            listing(todos)
        );
        Ok(Hook::update(StateUpdate::messages([Message::human(text).with_name(REMINDER).hidden()])))
    }

    async fn wrap_model_call(
        &self,
        ctx: &RunContext,
        state: &ThreadState,
        mut request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        if Self::slot(ctx, state).pending {
            let open = open_items(state).into_iter().cloned().collect::<Vec<_>>();
            let text = format!(
                "You are about to finish, but these items of your plan are not completed:\n{}Finish them, or mark with write_todos \
                 what is done or no longer needed, and then give your answer.",
                listing(&open)
            );
            request.messages.push(Arc::new(Message::human(text).with_name("todo_completion_reminder").hidden()));
        }
        next.run(request).await
    }

    async fn after_model(&self, ctx: &RunContext, state: &ThreadState) -> Result<Hook, AgentError> {
        let mut slot = Self::slot(ctx, state);
        let final_answer = state.last_ai().is_some_and(|m| {
            m.as_ai().is_some_and(|p| p.tool_calls.is_empty() && p.invalid_tool_calls.is_empty())
                && matches!(m.finish_reason(), None | Some("stop" | "end_turn"))
                && !m.flag(deerflow_core::message::kwargs::ERROR_FALLBACK)
        });
        let was_pending = std::mem::take(&mut slot.pending);
        if final_answer && !open_items(state).is_empty() && slot.reminders < MAX_COMPLETION_REMINDERS {
            slot.reminders += 1;
            slot.pending = true;
            return Ok(Hook::jump(private(&slot), JumpTarget::Model));
        }
        Ok(if was_pending { Hook::update(private(&slot)) } else { Hook::none() })
    }

    async fn wrap_tool_call(
        &self,
        _ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        let in_parallel = || {
            request
                .context
                .state
                .last_ai()
                .is_some_and(|m| m.tool_calls().iter().filter(|c| c.name == TOOL).count() > 1)
        };
        if request.call.name == TOOL && in_parallel() {
            let text = "Error: write_todos was called several times at once; each call replaces the whole list, so none was run. \
                        Call it once with the complete list.";
            return Ok(ToolOutcome::error(&request.call, text));
        }
        next.run(request).await
    }
}

fn private(slot: &Slot) -> StateUpdate {
    StateUpdate { private: [(NAME.to_owned(), json!(slot))].into(), ..StateUpdate::none() }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use deerflow_agent::Flow;
    use deerflow_core::ToolCall;

    fn middleware() -> TodoMiddleware {
        TodoMiddleware::new(deerflow_tools::write_todos())
    }

    fn state(status: TodoStatus, messages: Vec<Message>) -> ThreadState {
        let todos = Some(vec![Todo { content: "read".into(), status }]);
        ThreadState { messages: messages.into_iter().map(Arc::new).collect(), todos, ..Default::default() }
    }

    #[tokio::test]
    async fn an_unfinished_plan_is_asked_for_twice_at_most() {
        let (mw, ctx) = (middleware(), testing::context());
        let mut state = state(TodoStatus::Pending, vec![Message::human("go"), Message::ai("done")]);
        let mut jumps = 0;
        for _ in 0..4 {
            let hook = mw.after_model(&ctx, &state).await.unwrap();
            state.apply(&hook.update).unwrap();
            jumps += usize::from(hook.flow == Flow::JumpTo(JumpTarget::Model));
        }
        assert_eq!(jumps, 2);
        assert!(!TodoMiddleware::slot(&ctx, &state).pending);
    }

    #[tokio::test]
    async fn a_finished_plan_a_tool_call_or_a_cut_answer_is_left_alone() {
        let (mw, ctx) = (middleware(), testing::context());
        let mut cut = Message::ai("par");
        cut.response_metadata.insert("finish_reason".into(), json!("length"));
        let call = Message::ai_calls("", vec![ToolCall::new("1", "ls", Default::default())]);
        for (status, last) in
            [(TodoStatus::Completed, Message::ai("done")), (TodoStatus::Pending, cut), (TodoStatus::Pending, call)]
        {
            let hook = mw.after_model(&ctx, &state(status, vec![last])).await.unwrap();
            assert_eq!(hook.flow, Flow::Continue);
        }
    }

    #[tokio::test]
    async fn a_plan_out_of_sight_is_shown_again_once() {
        let (mw, ctx) = (middleware(), testing::context());
        let mut state = state(TodoStatus::InProgress, vec![Message::human("go")]);
        let hook = mw.before_model(&ctx, &state).await.unwrap();
        assert!(hook.update.messages[0].text().contains("[~] read"));
        state.apply(&hook.update).unwrap();
        assert!(mw.before_model(&ctx, &state).await.unwrap().update.is_empty());
    }
}
