//! The library's way to an agent: plain arguments, no configuration files.
//!
//! ```no_run
//! # use deerflow_harness::{create_deerflow_agent, Extra, Feature, RuntimeFeatures};
//! # fn demo(model: std::sync::Arc<dyn deerflow_core::ChatModel>) -> Result<(), deerflow_harness::FactoryError> {
//! let agent = create_deerflow_agent(model)
//!     .system_prompt("You are a careful analyst.")
//!     .features(RuntimeFeatures { sandbox: Feature::Off, auto_title: Feature::On, ..RuntimeFeatures::default() })
//!     .plan_mode(true)
//!     .build()?;
//! # Ok(()) }
//! ```
//!
//! What Rust's types make impossible is not checked at run time: an extra that is no middleware, an anchor that is no
//! middleware type, an extra with two anchors. Nor has the factory parameters for the checkpoint mode and the snapshot
//! frequency: they belong to the step log that [`AgentFactory::checkpointer`] takes (`StoreOptions` of the SQLite store),
//! which records the mode of each thread and refuses another one, so that a store of mixed modes cannot come about. A state
//! of the caller's own is a typed [`StateSlot`](deerflow_core::StateSlot); it needs no schema.

mod extras;
mod features;
mod structured;
#[cfg(test)]
mod tests;

pub use extras::Extra;
pub use features::{Feature, RuntimeFeatures};
pub use structured::{STRUCTURED_TOOL, SchemaError, StructuredResponseMiddleware};

use crate::chain::Filling;
use crate::deferred::DeferredCatalogue;
use crate::middleware::*;
use deerflow_agent::{Agent, AgentBuilder, BuildError, Middleware};
use deerflow_core::ports::StepLog;
use deerflow_core::{ChatModel, Tool};
use deerflow_documents::Converter;
use deerflow_sandbox::SandboxProvider;
use deerflow_tools::{BuiltinTools, ToolLimits};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// An agent cannot be made from these parts. Checked in this order; the first that applies is reported.
#[derive(Debug, thiserror::Error)]
pub enum FactoryError {
    /// Two ways to say which middlewares there are.
    #[error(
        "both `middleware` and `features` were given: a full take-over has no features; leave `features` out, or drop \
         `middleware` and use `extra_middleware`"
    )]
    TakeoverWithFeatures,
    /// A full take-over has no places to insert into.
    #[error(
        "`extra_middleware` was given with a full take-over: put those middlewares into `middleware` itself, where you want them"
    )]
    TakeoverWithExtras,
    /// The sandbox feature was asked for without a sandbox.
    #[error(
        "`features.sandbox` is on and there is no sandbox: give one with `.sandbox(provider, home)`, or set it to Off"
    )]
    NoSandbox,
    /// Images are files of the sandbox.
    #[error(
        "`features.vision` is on and there is no sandbox to read images from: give one with `.sandbox(provider, home)`"
    )]
    NoImages,
    /// No built-in guardrail.
    #[error(
        "`features.guardrail` has no built-in form: give an instance, `Feature::custom(GuardrailMiddleware::new(…))`"
    )]
    GuardrailNeedsInstance,
    /// No built-in summariser.
    #[error(
        "`features.summarization` has no built-in form, since it needs a model: give an instance, `Feature::custom(…)`"
    )]
    SummarizationNeedsInstance,
    /// Two extras without an order between them.
    #[error("{first} and {second} are both anchored at {anchor}: anchor one of them at the other")]
    AnchorConflict {
        /// One of them.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// What both name.
        anchor: &'static str,
    },
    /// Extras that wait for each other.
    #[error("circular anchors: {0}; anchor one of them at a middleware of the chain")]
    AnchorsCircular(String),
    /// Anchors that are not in the chain.
    #[error("anchors not found: {0}; is the feature that brings the anchor switched on?")]
    AnchorsMissing(String),
    /// The response format is no usable JSON Schema.
    #[error(transparent)]
    ResponseFormat(#[from] SchemaError),
    /// A tool without a name, or no turns.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Starts an agent around a model. See [`AgentFactory`] for everything that can be said.
pub fn create_deerflow_agent(model: Arc<dyn ChatModel>) -> AgentFactory {
    AgentFactory {
        builder: Agent::builder(model.clone()),
        model,
        tools: Vec::new(),
        takeover: None,
        features: None,
        extras: Vec::new(),
        plan_mode: false,
        sandbox: None,
        response_format: None,
        deferred: None,
        redactor: Redactor::off(),
    }
}

/// Builds an [`Agent`] from plain arguments.
#[must_use]
pub struct AgentFactory {
    builder: AgentBuilder,
    model: Arc<dyn ChatModel>,
    tools: Vec<Arc<dyn Tool>>,
    takeover: Option<Vec<Arc<dyn Middleware>>>,
    features: Option<RuntimeFeatures>,
    extras: Vec<Extra>,
    plan_mode: bool,
    sandbox: Option<(Arc<dyn SandboxProvider>, PathBuf)>,
    response_format: Option<Value>,
    deferred: Option<Arc<DeferredCatalogue>>,
    redactor: Redactor,
}

impl AgentFactory {
    /// Adds tools. Of several with one name the first counts; a caller's tool wins over a feature's.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }
    /// Adds one tool.
    pub fn tool(self, tool: impl Tool + 'static) -> Self {
        self.tools([Arc::new(tool) as Arc<dyn Tool>])
    }
    /// The system prompt; without one the model gets none.
    pub fn system_prompt(mut self, prompt: impl Into<Arc<str>>) -> Self {
        self.builder = self.builder.system_prompt(prompt);
        self
    }
    /// Full take-over: exactly these middlewares, outermost first; no built-in ones and no tools of features.
    pub fn middleware(mut self, chain: impl IntoIterator<Item = Arc<dyn Middleware>>) -> Self {
        self.takeover = Some(chain.into_iter().collect());
        self
    }
    /// Which built-in parts there are; the defaults of [`RuntimeFeatures`] otherwise.
    pub fn features(mut self, features: RuntimeFeatures) -> Self {
        self.features = Some(features);
        self
    }
    /// Adds middlewares to the built-in ones, where their anchors say.
    pub fn extra_middleware(mut self, extras: impl IntoIterator<Item = impl Into<Extra>>) -> Self {
        self.extras.extend(extras.into_iter().map(Into::into));
        self
    }
    /// The agent keeps a plan with `write_todos`.
    pub fn plan_mode(mut self, on: bool) -> Self {
        self.plan_mode = on;
        self
    }
    /// Where threads have their folders and computers; `home` holds them. Without this, and without `features` that ask for
    /// it, the agent has no folders.
    pub fn sandbox(mut self, provider: Arc<dyn SandboxProvider>, home: impl Into<PathBuf>) -> Self {
        self.sandbox = Some((provider, home.into()));
        self
    }
    /// The answer must be an object of this JSON Schema; it is found in `structured_response` of the state.
    pub fn response_format(mut self, schema: Value) -> Self {
        self.response_format = Some(schema);
        self
    }
    /// Tools that the model finds with `tool_search` instead of seeing them all in each request.
    pub fn deferred_tools(mut self, catalogue: Arc<DeferredCatalogue>) -> Self {
        self.deferred = Some(catalogue);
        self
    }
    /// Hides personal data from the model, in what users say and in what comes from the web.
    pub fn pii_redaction(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }
    /// Keeps every step here; without one nothing outlives the process.
    pub fn checkpointer(mut self, log: Arc<dyn StepLog>) -> Self {
        self.builder = self.builder.step_log(log);
        self
    }
    /// Names the agent; `default` otherwise.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.builder = self.builder.name(name);
        self
    }
    /// Model turns a run may take.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.builder = self.builder.max_turns(turns);
        self
    }
    /// Asks the model to think first, and how hard.
    pub fn thinking(mut self, thinking: bool, effort: Option<String>) -> Self {
        self.builder = self.builder.thinking(thinking, effort);
        self
    }

    /// The agent.
    ///
    /// # Errors
    /// [`FactoryError`] says what does not fit and what to do.
    pub fn build(mut self) -> Result<Agent, FactoryError> {
        self.check()?;
        let structured = self.response_format.take().map(StructuredResponseMiddleware::new).transpose()?;
        if let Some(mut chain) = self.takeover.take() {
            chain.extend(structured.map(|m| Arc::new(m) as Arc<dyn Middleware>));
            return Ok(self.builder.tools(self.tools).middleware(chain).build()?);
        }
        let features = self.features.take().unwrap_or_else(|| RuntimeFeatures {
            sandbox: if self.sandbox.is_some() { Feature::On } else { Feature::Off },
            ..RuntimeFeatures::default()
        });
        let feature_tools = self.feature_tools(&features);
        let mut places = self.fill(&features, structured).active();
        extras::insert(&mut places, std::mem::take(&mut self.extras))?;
        let tools = std::mem::take(&mut self.tools).into_iter().chain(feature_tools);
        Ok(self.builder.tools(tools).middleware(places.into_iter().filter_map(|p| p.middleware)).build()?)
    }

    fn check(&self) -> Result<(), FactoryError> {
        if self.takeover.is_some() && self.features.is_some() {
            return Err(FactoryError::TakeoverWithFeatures);
        }
        if self.takeover.is_some() && !self.extras.is_empty() {
            return Err(FactoryError::TakeoverWithExtras);
        }
        let Some(features) = &self.features else { return Ok(()) };
        if matches!(features.guardrail, Feature::On) {
            return Err(FactoryError::GuardrailNeedsInstance);
        }
        if matches!(features.summarization, Feature::On) {
            return Err(FactoryError::SummarizationNeedsInstance);
        }
        if matches!(features.sandbox, Feature::On) && self.sandbox.is_none() {
            return Err(FactoryError::NoSandbox);
        }
        if matches!(features.vision, Feature::On) && self.sandbox.is_none() {
            return Err(FactoryError::NoImages);
        }
        Ok(())
    }

    fn fill(&self, features: &RuntimeFeatures, structured: Option<StructuredResponseMiddleware>) -> Filling {
        let mut chain = Filling::default();
        match (&features.sandbox, &self.sandbox) {
            (Feature::On, Some((provider, home))) => {
                chain.put(ThreadDataMiddleware::new(provider.clone()));
                chain.put(UploadsMiddleware::new(home.clone()));
                chain.put(SandboxMiddleware::new(provider.clone()));
            }
            (Feature::Custom(own), _) => chain.stand_in::<SandboxMiddleware>(own.clone()),
            _ => {}
        }
        chain.maybe(
            self.redactor.is_on().then(|| PiiRedactionMiddleware::new(self.redactor.clone(), RemoteTools::default())),
        );
        match (&features.vision, &self.sandbox) {
            (Feature::On, Some((provider, _))) => chain.put(ViewImageMiddleware::new(provider.clone(), None)),
            (Feature::Custom(own), _) => chain.stand_in::<ViewImageMiddleware>(own.clone()),
            _ => {}
        }
        if let Feature::Custom(own) = &features.guardrail {
            chain.stand_in::<GuardrailMiddleware>(own.clone());
        }
        if let Feature::Custom(own) = &features.summarization {
            chain.stand_in::<DeerFlowSummarizationMiddleware>(own.clone());
        }
        chain.put(DanglingToolCallMiddleware);
        chain.put(ToolErrorHandlingMiddleware);
        chain.maybe(self.plan_mode.then(|| TodoMiddleware::new(deerflow_tools::write_todos())));
        match &features.auto_title {
            Feature::On => chain.put(
                TitleMiddleware::new(TitleConfig::default(), Some(self.model.clone())).redacting(self.redactor.clone()),
            ),
            Feature::Custom(own) => chain.stand_in::<TitleMiddleware>(own.clone()),
            Feature::Off => {}
        }
        match &features.token_budget {
            Feature::On => chain.put(TokenBudgetMiddleware::new(TokenBudgetConfig::default())),
            Feature::Custom(own) => chain.stand_in::<TokenBudgetMiddleware>(own.clone()),
            Feature::Off => {}
        }
        match &features.loop_detection {
            Feature::On => chain.put(LoopDetectionMiddleware::new(LoopDetectionConfig::default())),
            Feature::Custom(own) => chain.stand_in::<LoopDetectionMiddleware>(own.clone()),
            Feature::Off => {}
        }
        if let Some(catalogue) = &self.deferred {
            chain.put(DeferredToolPromotionAuditMiddleware::default());
            chain.put(DeferredToolFilterMiddleware::new(catalogue.clone()));
        }
        chain.maybe(structured);
        chain.put(ClarificationMiddleware);
        chain
    }

    /// Tools that come with features, in their order; a caller's tool of the same name wins.
    fn feature_tools(&self, features: &RuntimeFeatures) -> Vec<Arc<dyn Tool>> {
        let images = self.sandbox.as_ref().filter(|_| features.vision.is_on() && features.sandbox.is_on());
        let view_image = images.map(|(provider, _)| {
            BuiltinTools::new(provider.clone(), ToolLimits::default(), Converter::default()).view_image()
        });
        view_image.into_iter().chain([deerflow_tools::ask_clarification()]).collect()
    }
}
