//! A model turn: `before_model`, the call through the chain, `after_model`.

use crate::middleware::ModelNext;
use crate::run::{Phase, Run, Step, target};
use crate::{JumpTarget, RunContext};
use deerflow_core::ports::StepKind;
use deerflow_core::run::Next;
use deerflow_core::{
    AgentError, AgentEvent, ChatModel, ChatRequest, Message, ModelError, ModelErrorKind, ModelEvent, StateUpdate,
    ThreadState, ToolChoice, ids,
};
use futures::StreamExt;
use std::collections::HashSet;
use std::sync::Arc;

impl Run<'_> {
    pub(crate) async fn model_turn(&mut self) -> Result<(), AgentError> {
        let mut step = Step::default();
        let mut jump = self.hooks(&mut step, Phase::BeforeModel).await?;
        if jump.is_none() {
            self.turns += 1;
            let mut message = self.ask_model().await?;
            name_calls(&mut message);
            step.write(&mut self.state, "model", StateUpdate::messages([message]))?;
            jump = self.hooks(&mut step, Phase::AfterModel).await?;
        }
        let next = match jump {
            // Another turn past the limit would never end.
            Some(JumpTarget::Model) if self.turns >= self.agent.max_turns => Next::End,
            Some(_) => target(jump).unwrap_or(Next::End),
            None if has_open_calls(&self.state) => Next::Tools,
            None => Next::End,
        };
        self.commit(StepKind::Model, next, step, None).await
    }

    async fn ask_model(&self) -> Result<Message, AgentError> {
        let agent = self.agent;
        let mut request = ChatRequest {
            system: agent.system_prompt.clone(),
            messages: self.state.messages.clone(),
            tools: agent.specs.clone(),
            tool_choice: ToolChoice::Auto,
            thinking: agent.thinking,
            reasoning_effort: agent.reasoning_effort.clone(),
            max_tokens: None,
        };
        let last_turn = self.turns >= agent.max_turns;
        if last_turn {
            let limit = agent.max_turns;
            request.tool_choice = ToolChoice::None;
            request.messages.push(Arc::new(
                Message::human(format!(
                    "[TURN LIMIT] This run has used its {limit} model turns. Call no more tools: answer now with what you have, \
                     and say what is left undone."
                ))
                .with_name("turn_limit")
                .hidden(),
            ));
            self.ctx.set_stop_reason("turn_capped");
        }
        let next = ModelNext { rest: &agent.chain, model: &agent.model, ctx: self.ctx, state: &self.state };
        let mut message = next.run(request).await?;
        if last_turn && let Some(part) = message.as_ai_mut() {
            part.tool_calls.clear();
            part.invalid_tool_calls.clear();
            if message.content.is_blank() {
                message.content =
                    format!("Stopped at the limit of {} model turns before the task was finished.", agent.max_turns)
                        .into();
            }
        }
        Ok(message)
    }
}

/// One attempt: streams the turn, tells the outside, and voids what was shown if it fails.
pub(crate) async fn call_model(
    model: &Arc<dyn ChatModel>,
    ctx: &RunContext,
    request: ChatRequest,
) -> Result<Message, AgentError> {
    let message_id = ids::message_id();
    let name = model.info().name.clone();
    ctx.events.send(AgentEvent::ModelStarted { message_id: message_id.clone(), model: name.clone() }).await;
    let mut stream = model.stream(request, ctx.cancel.clone());
    let error = loop {
        let item = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => break AgentError::Cancelled,
            item = stream.next() => item,
        };
        match item {
            Some(Ok(ModelEvent::Delta(delta))) => {
                ctx.events.send(AgentEvent::ModelDelta { message_id: message_id.clone(), delta }).await;
            }
            Some(Ok(ModelEvent::Finished(turn))) => return Ok(turn.message.with_id(message_id)),
            Some(Err(error)) => break error.into(),
            None => {
                let text = format!("model {name} ended its stream without a reply");
                break ModelError::new(ModelErrorKind::StreamInterrupted, text).into();
            }
        }
    };
    ctx.events.send(AgentEvent::ModelDiscarded { message_id }).await;
    Err(error)
}

/// Gives every call an id that is unique within its message: results find their calls by it.
fn name_calls(message: &mut Message) {
    let message_id = message.id().to_owned();
    let Some(part) = message.as_ai_mut() else { return };
    let mut seen = HashSet::new();
    let ids =
        part.tool_calls.iter_mut().map(|c| &mut c.id).chain(part.invalid_tool_calls.iter_mut().map(|c| &mut c.id));
    for (position, id) in ids.enumerate() {
        let usable = id.as_ref().is_some_and(|id| !id.trim().is_empty() && seen.insert(id.clone()));
        if !usable {
            let fresh = format!("call_{}_{position}", message_id.replace('-', ""));
            seen.insert(fresh.clone());
            *id = Some(fresh);
        }
    }
}

/// Whether the last assistant message has a call without a result.
pub(crate) fn has_open_calls(state: &ThreadState) -> bool {
    let Some(part) = state.last_ai().and_then(|m| m.as_ai()) else { return false };
    let results = state.answered_since_last_ai();
    let answered: HashSet<&str> = results.iter().filter_map(|m| m.as_tool()).map(|t| t.tool_call_id.as_str()).collect();
    let calls = part.tool_calls.iter().map(|c| &c.id).chain(part.invalid_tool_calls.iter().map(|c| &c.id));
    calls.into_iter().any(|id| !answered.contains(id.as_deref().unwrap_or_default()))
}
