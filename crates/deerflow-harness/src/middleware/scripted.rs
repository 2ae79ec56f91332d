//! An agent for tests: a model that says what it is told, and tools that are closures.

use super::testing::{Script, context};
use async_trait::async_trait;
use deerflow_agent::{Agent, EphemeralLog, Middleware, Outcome, RunContext, Start};
use deerflow_core::*;
use serde_json::{Value, json};
use std::sync::Arc;

type Body = dyn Fn(&ToolContext, &JsonMap) -> Result<ToolOutput, ToolError> + Send + Sync;

/// A tool that is a closure.
pub(crate) struct FnTool {
    spec: ToolSpec,
    body: Box<Body>,
}

pub(crate) fn tool(
    name: &str,
    body: impl Fn(&ToolContext, &JsonMap) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    let spec = ToolSpec { name: name.into(), description: String::new(), parameters: json!({"type": "object"}) };
    Arc::new(FnTool { spec, body: Box::new(body) })
}

#[async_trait]
impl Tool for FnTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    async fn call(&self, ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        (self.body)(ctx, &args)
    }
}

pub(crate) fn call(id: &str, name: &str, args: Value) -> ToolCall {
    ToolCall::new(id, name, args.as_object().cloned().unwrap_or_default())
}

/// An assistant's turn that makes these calls.
pub(crate) fn turn(calls: impl IntoIterator<Item = ToolCall>) -> Message {
    Message::ai_calls("", calls.into_iter().collect())
}

/// An agent with a log of its own.
pub(crate) struct Rig {
    pub(crate) script: Arc<Script>,
    pub(crate) agent: Agent,
    pub(crate) log: Arc<EphemeralLog>,
}

impl Rig {
    pub(crate) fn new(
        turns: Vec<Message>,
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
        chain: Vec<Arc<dyn Middleware>>,
    ) -> Self {
        let (script, log) = (Arc::new(Script::named("script", turns)), Arc::new(EphemeralLog::default()));
        let agent = Agent::builder(script.clone()).tools(tools).middleware(chain).build().unwrap();
        Self { agent: agent.with_step_log(log.clone()), script, log }
    }
    pub(crate) async fn go(&self) -> Arc<ThreadState> {
        self.start(&context(), Start::Input(StateUpdate::messages([Message::human("go")]))).await.unwrap().state
    }
    pub(crate) async fn start(&self, ctx: &RunContext, start: Start) -> Result<Outcome, AgentError> {
        self.agent.run(ctx, start).await
    }
}

/// The results in a state, in order.
pub(crate) fn results(state: &ThreadState) -> Vec<Arc<Message>> {
    state.messages.iter().filter(|m| m.as_tool().is_some()).cloned().collect()
}

/// Their texts.
pub(crate) fn result_texts(state: &ThreadState) -> Vec<String> {
    results(state).iter().map(|m| m.text().into_owned()).collect()
}
