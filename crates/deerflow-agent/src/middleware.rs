//! Middlewares: everything around the model and the tools.

use crate::RunContext;
use crate::model_turn::call_model;
use crate::tool_batch::call_tool;
use async_trait::async_trait;
use deerflow_core::{
    AgentError, ChatModel, ChatRequest, Interrupt, Message, StateUpdate, ThreadState, Tool, ToolCall, ToolContext,
    ports::StepLog,
};
use serde_json::Value;
use std::any::Any;
use std::sync::Arc;

/// Where a hook sends the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Flow {
    /// On, as usual.
    #[default]
    Continue,
    /// Elsewhere, without the remaining hooks of this phase.
    JumpTo(JumpTarget),
    /// The run stops after this step, until a person has answered; [`Middleware::on_answer`] gets the answer. The remaining
    /// hooks of this phase still run.
    Interrupt(Value),
}

/// Targets of a jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JumpTarget {
    /// Another model turn.
    Model,
    /// The tool calls of the last assistant message.
    Tools,
    /// `after_agent`, then the end.
    End,
}

/// What a hook gives back: writes to the state, and where to go.
#[derive(Debug, Clone, Default)]
pub struct Hook {
    /// Writes.
    pub update: StateUpdate,
    /// Where to go.
    pub flow: Flow,
}

impl Hook {
    /// Nothing to say.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }
    /// Writes this and goes on.
    #[must_use]
    pub fn update(update: StateUpdate) -> Self {
        Self { update, flow: Flow::Continue }
    }
    /// Writes this and jumps.
    #[must_use]
    pub fn jump(update: StateUpdate, target: JumpTarget) -> Self {
        Self { update, flow: Flow::JumpTo(target) }
    }
    /// Writes this and stops the run with a question.
    #[must_use]
    pub fn interrupt(update: StateUpdate, question: Value) -> Self {
        Self { update, flow: Flow::Interrupt(question) }
    }
}

/// Result of a hook.
pub type HookResult = Result<Hook, AgentError>;

/// One concern around the loop. Every hook has a default that does nothing.
///
/// `before_*` and `wrap_*` run in list order (the first wraps outermost), `after_*` in reverse. An error ends the run, except
/// that [`AgentError::Cancelled`] stops it; a catch-all inside `wrap_*` must let both a cancellation and a storage failure
/// through.
#[async_trait]
pub trait Middleware: Any + Send + Sync {
    /// Class name, as in `updates` streams (`<name>.before_model`) and in `deerflow agent chain`.
    fn name(&self) -> &'static str;

    /// Tools that come with this middleware.
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }

    /// Once per run, after the input was applied.
    async fn before_agent(&self, _ctx: &RunContext, _state: &ThreadState) -> HookResult {
        Ok(Hook::none())
    }

    /// Before each model turn.
    async fn before_model(&self, _ctx: &RunContext, _state: &ThreadState) -> HookResult {
        Ok(Hook::none())
    }

    /// Around each model call. Changes to the request are not stored.
    async fn wrap_model_call(
        &self,
        _ctx: &RunContext,
        _state: &ThreadState,
        request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        next.run(request).await
    }

    /// After each model turn.
    async fn after_model(&self, _ctx: &RunContext, _state: &ThreadState) -> HookResult {
        Ok(Hook::none())
    }

    /// The answer to a question that this middleware interrupted the run with. What it writes is the next run's first step.
    async fn on_answer(
        &self,
        _ctx: &RunContext,
        _state: &ThreadState,
        _question: &Interrupt,
        _answer: &Value,
    ) -> HookResult {
        Ok(Hook::none())
    }

    /// Around each tool call.
    async fn wrap_tool_call(
        &self,
        _ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        next.run(request).await
    }

    /// At the end of a run that was not cancelled and did not fail. A jump to the model makes the run go on, while it has
    /// model turns left (`turn_capped` is the context's stop reason when it has not); every `after_agent` runs again at the next end then.
    async fn after_agent(&self, _ctx: &RunContext, _state: &ThreadState) -> HookResult {
        Ok(Hook::none())
    }
}

/// The rest of the chain around a model call. May be called several times: a retry is one more call.
#[derive(Clone, Copy)]
pub struct ModelNext<'a> {
    pub(crate) rest: &'a [Arc<dyn Middleware>],
    pub(crate) model: &'a Arc<dyn ChatModel>,
    pub(crate) ctx: &'a RunContext,
    pub(crate) state: &'a ThreadState,
}

impl<'a> ModelNext<'a> {
    /// The same with another model to call in the end.
    #[must_use]
    pub fn with_model<'b>(&self, model: &'b Arc<dyn ChatModel>) -> ModelNext<'b>
    where
        'a: 'b,
    {
        ModelNext { model, ..*self }
    }
    /// Goes on with this request.
    ///
    /// # Errors
    /// What the inner middlewares or the model failed with.
    pub async fn run(&self, request: ChatRequest) -> Result<Message, AgentError> {
        match self.rest.split_first() {
            Some((first, rest)) => {
                first.wrap_model_call(self.ctx, self.state, request, ModelNext { rest, ..*self }).await
            }
            None => call_model(self.model, self.ctx, request).await,
        }
    }
    /// The model that will be called.
    #[must_use]
    pub fn model(&self) -> &Arc<dyn ChatModel> {
        self.model
    }
}

/// One tool call on its way to the tool.
#[derive(Clone)]
pub struct ToolRequest {
    /// The call.
    pub call: ToolCall,
    /// The tool, or `None` when there is none of that name.
    pub tool: Option<Arc<dyn Tool>>,
    /// Ids, cancellation and state.
    pub context: ToolContext,
}

/// What a tool call came to.
#[derive(Debug, Clone)]
pub struct ToolOutcome {
    /// The tool message.
    pub message: Message,
    /// Writes to other channels.
    pub update: StateUpdate,
    /// Ends the run after this batch.
    pub end_run: bool,
}

impl ToolOutcome {
    /// A message and nothing else.
    #[must_use]
    pub fn message(message: Message) -> Self {
        Self { message, update: StateUpdate::none(), end_run: false }
    }
    /// An error result for `call`.
    #[must_use]
    pub fn error(call: &ToolCall, text: impl Into<String>) -> Self {
        let name = if call.name.is_empty() { "unknown_tool" } else { &call.name };
        Self::message(Message::tool_error(text.into(), call.id(), name))
    }
}

/// What is needed to record an effect before a tool acts.
#[derive(Clone, Copy)]
pub(crate) struct EffectScope<'a> {
    pub(crate) log: &'a dyn StepLog,
    pub(crate) base: &'a deerflow_core::ports::StepCommit,
    /// What an earlier attempt of this call left behind.
    pub(crate) open: Option<&'a deerflow_core::ports::OpenEffect>,
}

/// The rest of the chain around a tool call.
#[derive(Clone, Copy)]
pub struct ToolNext<'a> {
    pub(crate) rest: &'a [Arc<dyn Middleware>],
    pub(crate) ctx: &'a RunContext,
    pub(crate) effects: EffectScope<'a>,
}

impl ToolNext<'_> {
    /// Goes on with this call.
    ///
    /// # Errors
    /// A cancellation, a tool that ends the run, or a storage failure. Everything else is a tool message already.
    pub async fn run(&self, request: ToolRequest) -> Result<ToolOutcome, AgentError> {
        match self.rest.split_first() {
            Some((first, rest)) => first.wrap_tool_call(self.ctx, request, ToolNext { rest, ..*self }).await,
            None => call_tool(self.effects, request).await,
        }
    }
    /// Whether an earlier attempt of this call had begun when the process ended, so that a gate has let it through already
    /// and what it changed may be there.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.effects.open.is_some()
    }
}
