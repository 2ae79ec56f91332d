//! An agent with a scripted model and canned tools, for tests that need a middleware inside the loop.

use super::testing::{Script, context_with};
use async_trait::async_trait;
use deerflow_agent::{Agent, Middleware, RunContext, Start};
use deerflow_core::{
    AgentError, AgentEvent, ChatRequest, Content, EventSink, JsonMap, Message, StateUpdate, ThreadState, Tool,
    ToolCall, ToolContext, ToolError, ToolOutput, ToolSpec,
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Always gives this output, and keeps the arguments it was called with.
pub(crate) struct Canned {
    spec: ToolSpec,
    output: ToolOutput,
    pub(crate) calls: Mutex<Vec<Value>>,
}

impl Canned {
    pub(crate) fn new(name: &str, output: ToolOutput) -> Arc<Self> {
        let spec = ToolSpec { name: name.into(), description: name.into(), parameters: json!({"type": "object"}) };
        Arc::new(Self { spec, output, calls: Mutex::default() })
    }
    pub(crate) fn text(name: &str, content: impl Into<Content>) -> Arc<Self> {
        Self::new(name, ToolOutput::text(content))
    }
    pub(crate) fn call_count(&self) -> usize {
        self.calls.lock().unwrap().len()
    }
}

#[async_trait]
impl Tool for Canned {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    async fn call(&self, _: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        self.calls.lock().unwrap().push(Value::Object(args));
        Ok(self.output.clone())
    }
}

/// What a run came to.
pub(crate) struct Ran {
    pub(crate) state: Arc<ThreadState>,
    pub(crate) requests: Vec<ChatRequest>,
    pub(crate) custom: Vec<Value>,
}

impl Ran {
    /// The tool messages of the final state.
    pub(crate) fn results(&self) -> Vec<&Message> {
        self.state.messages.iter().map(|m| &**m).filter(|m| m.as_tool().is_some()).collect()
    }
}

/// A reply that calls one tool.
pub(crate) fn calling(tool: &str, args: Value) -> Message {
    let Value::Object(args) = args else { panic!("arguments are an object") };
    Message::ai_calls("", vec![ToolCall::new("call-1", tool, args)])
}

/// Runs one input through an agent of these parts.
pub(crate) async fn run(
    chain: Vec<Arc<dyn Middleware>>,
    tools: Vec<Arc<Canned>>,
    replies: Vec<Message>,
    input: Message,
) -> Ran {
    run_with(chain, tools, replies, StateUpdate::messages([input]), |_| {}).await.unwrap()
}

pub(crate) async fn run_with(
    chain: Vec<Arc<dyn Middleware>>,
    tools: Vec<Arc<Canned>>,
    replies: Vec<Message>,
    input: StateUpdate,
    prepare: impl FnOnce(&mut RunContext),
) -> Result<Ran, AgentError> {
    let model = Arc::new(Script::seeing("script", replies));
    let tools = tools.into_iter().map(|tool| tool as Arc<dyn Tool>);
    let agent = Agent::builder(model.clone()).middleware(chain).tools(tools).build().unwrap();
    let (sink, mut events) = EventSink::channel(1000);
    let mut ctx = context_with(sink);
    prepare(&mut ctx);
    let outcome = agent.run(&ctx, Start::Input(input)).await?;
    let mut custom = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let AgentEvent::Custom(value) = event {
            custom.push(value);
        }
    }
    let requests = model.requests().clone();
    Ok(Ran { state: outcome.state, requests, custom })
}
