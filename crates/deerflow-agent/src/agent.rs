//! What an agent is made of.

use crate::run::{Outcome, Run, Start};
use crate::{EphemeralLog, Middleware, RunContext};
use deerflow_core::ports::StepLog;
use deerflow_core::{AgentError, ChatModel, Tool, ToolSpec};
use std::collections::HashMap;
use std::sync::Arc;

/// Model turns a run may take unless told otherwise. Generous: honest long tasks take dozens.
pub const DEFAULT_MAX_TURNS: u32 = 200;

/// An agent cannot be built like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A tool without a name can never be called.
    #[error("a tool has an empty name")]
    UnnamedTool,
    /// `max_turns` is zero.
    #[error("max_turns must be at least 1")]
    NoTurns,
}

/// A model, its tools, and the middlewares around them. Cheap to clone, shared between runs.
#[derive(Clone)]
pub struct Agent {
    pub(crate) name: Arc<str>,
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    /// What the model is told of the tools, made once for all turns.
    pub(crate) specs: Vec<Arc<ToolSpec>>,
    pub(crate) by_name: HashMap<String, Arc<dyn Tool>>,
    pub(crate) chain: Vec<Arc<dyn Middleware>>,
    pub(crate) system_prompt: Option<Arc<str>>,
    pub(crate) log: Arc<dyn StepLog>,
    pub(crate) max_turns: u32,
    pub(crate) thinking: bool,
    pub(crate) reasoning_effort: Option<String>,
}

impl Agent {
    /// Starts building an agent around a model.
    pub fn builder(model: Arc<dyn ChatModel>) -> AgentBuilder {
        AgentBuilder {
            name: "default".into(),
            model,
            tools: Vec::new(),
            chain: Vec::new(),
            system_prompt: None,
            log: None,
            max_turns: DEFAULT_MAX_TURNS,
            thinking: false,
            reasoning_effort: None,
        }
    }

    /// Runs until the model has answered, a limit is reached, or the run is cancelled.
    ///
    /// # Errors
    /// [`AgentError::Cancelled`] after a cancellation; otherwise what made it impossible to go on. Every step before that is
    /// committed, so that [`Start::Resume`] goes on from there.
    pub async fn run(&self, ctx: &RunContext, start: Start) -> Result<Outcome, AgentError> {
        Run::open(self, ctx).await?.drive(start).await
    }

    /// The agent's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The middlewares, outermost first.
    #[must_use]
    pub fn chain(&self) -> &[Arc<dyn Middleware>] {
        &self.chain
    }
    /// The tools, in the order the model sees them.
    #[must_use]
    pub fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.tools
    }
    /// The static prompt.
    #[must_use]
    pub fn system_prompt(&self) -> Option<&str> {
        self.system_prompt.as_deref()
    }
    /// The same agent over another step log.
    #[must_use]
    pub fn with_step_log(&self, log: Arc<dyn StepLog>) -> Self {
        Self { log, ..self.clone() }
    }
}

/// Builds an [`Agent`].
#[must_use]
pub struct AgentBuilder {
    name: Arc<str>,
    model: Arc<dyn ChatModel>,
    tools: Vec<Arc<dyn Tool>>,
    chain: Vec<Arc<dyn Middleware>>,
    system_prompt: Option<Arc<str>>,
    log: Option<Arc<dyn StepLog>>,
    max_turns: u32,
    thinking: bool,
    reasoning_effort: Option<String>,
}

impl AgentBuilder {
    /// Names the agent.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }
    /// Adds tools. Of several with one name the first counts, so a caller's tool wins over a middleware's.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }
    /// Adds middlewares, outermost first.
    pub fn middleware(mut self, chain: impl IntoIterator<Item = Arc<dyn Middleware>>) -> Self {
        self.chain.extend(chain);
        self
    }
    /// Sets the static prompt. Nothing that changes between turns belongs in it: providers cache it by prefix.
    pub fn system_prompt(mut self, prompt: impl Into<Arc<str>>) -> Self {
        self.system_prompt = Some(prompt.into());
        self
    }
    /// Stores every step here; without one nothing outlives the process.
    pub fn step_log(mut self, log: Arc<dyn StepLog>) -> Self {
        self.log = Some(log);
        self
    }
    /// Model turns a run may take, at least 1. The last one is asked to answer without tools.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = turns;
        self
    }
    /// Asks the model to think first, and how hard.
    pub fn thinking(mut self, thinking: bool, effort: Option<String>) -> Self {
        self.thinking = thinking;
        self.reasoning_effort = effort;
        self
    }

    /// The agent.
    ///
    /// # Errors
    /// [`BuildError`] says what is wrong.
    pub fn build(self) -> Result<Agent, BuildError> {
        if self.max_turns == 0 {
            return Err(BuildError::NoTurns);
        }
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        let mut by_name = HashMap::new();
        for tool in self.tools.into_iter().chain(self.chain.iter().flat_map(|m| m.tools())) {
            let name = tool.spec().name.clone();
            if name.is_empty() {
                return Err(BuildError::UnnamedTool);
            }
            if let std::collections::hash_map::Entry::Vacant(slot) = by_name.entry(name) {
                slot.insert(tool.clone());
                tools.push(tool);
            }
        }
        Ok(Agent {
            name: self.name,
            model: self.model,
            specs: tools.iter().map(|tool| Arc::new(tool.spec().clone())).collect(),
            tools,
            by_name,
            chain: self.chain,
            system_prompt: self.system_prompt,
            log: self.log.unwrap_or_else(|| Arc::new(EphemeralLog::default())),
            max_turns: self.max_turns,
            thinking: self.thinking,
            reasoning_effort: self.reasoning_effort,
        })
    }
}
