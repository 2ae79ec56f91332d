//! The factory of the lead agent: configuration and options in, a ready agent out.

use crate::chain::Place;
use crate::custom_agent::{CustomAgent, CustomAgentError};
use crate::lead_chain::{ChainParts, lead_chain};
use crate::middleware::{
    Authorization, AuthorizationConfig, CircuitBreakerConfig, FallbackModel, GuardrailMiddleware, GuardrailsConfig,
    LlmCallConfig, ModelDenied, PiiRedactionConfig, PolicyConfigError, ProcessLimits, Redactor, TitleConfig,
};
use crate::middleware::{DeerFlowSummarizationMiddleware, TaskContinuity, TaskContinuityConfig};
use crate::middleware::{ModelSource, SummarizationConfig};
use crate::models::{ModelCatalogue, ModelChoiceError};
use crate::ports::HarnessPorts;
use crate::prompt::{PromptParts, lead_prompt};
use crate::read_conversation::{ReadConversation, ReadConversationConfig};
use deerflow_agent::{Agent, BuildError};
use deerflow_config::{Config, Section};
use deerflow_core::{ChatModel, Principal, Tool, UserId};
use deerflow_documents::Converter;
use deerflow_sandbox::SandboxProvider;
use deerflow_tools::{BuiltinTools, KeyedLocks, ToolSelection, builtin_tools};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Most model turns that a run may be given.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RunLimitsConfig(#[schemars(range(min = 1))] pub u32);

impl Default for RunLimitsConfig {
    fn default() -> Self {
        Self(1000)
    }
}

impl Section for RunLimitsConfig {
    const KEY: &'static str = "max_recursion_limit";
}

/// How a run is to be done. Stored with the run, so that resuming does it the same way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeadOptions {
    /// Model by its configured name; the agent's or the first one otherwise.
    pub model: Option<String>,
    /// Custom agent.
    pub agent: Option<String>,
    /// Keep a plan.
    pub plan_mode: bool,
    /// Think first; on where the model can, unless said otherwise.
    pub thinking: Option<bool>,
    /// `minimal`, `low`, `medium` or `high`.
    pub reasoning_effort: Option<String>,
    /// Let the agent read this user's earlier conversations.
    pub recall: bool,
    /// Whether somebody can answer questions.
    pub interactive: bool,
    /// Model turns, at most `max_recursion_limit`.
    pub max_turns: Option<u32>,
}

/// The lead agent cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LeadError {
    /// No such model, or it cannot be used.
    #[error(transparent)]
    Model(#[from] ModelChoiceError),
    /// No such custom agent.
    #[error(transparent)]
    CustomAgent(#[from] CustomAgentError),
    /// No model is allowed for this user.
    #[error(transparent)]
    ModelDenied(#[from] ModelDenied),
    /// A policy of the configuration cannot be used.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Policy(Vec<PolicyConfigError>),
    /// The parts do not fit.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// A ready agent.
pub struct LeadAgent {
    /// The agent.
    pub agent: Agent,
    /// Configured name of its model.
    pub model: String,
    /// Its chain, inactive places included.
    pub places: Vec<Place>,
}

/// Makes agents for one process.
pub struct Harness {
    config: Arc<Config>,
    models: Arc<ModelCatalogue>,
    sandbox: Arc<dyn SandboxProvider>,
    tools: BuiltinTools,
    limits: Arc<ProcessLimits>,
    time_zone: Option<String>,
    ports: Option<HarnessPorts>,
    file_locks: Arc<KeyedLocks>,
    redactor: Redactor,
}

impl Harness {
    /// A harness over a loaded configuration. `time_zone` (an IANA name) is for date reminders.
    #[must_use]
    pub fn new(
        config: Arc<Config>,
        models: ModelCatalogue,
        sandbox: Arc<dyn SandboxProvider>,
        tools: BuiltinTools,
        time_zone: Option<String>,
    ) -> Self {
        let calls = config.section::<LlmCallConfig>();
        let breaker = (*config.section::<CircuitBreakerConfig>()).clone();
        let limits = ProcessLimits::new(&calls, breaker);
        let redactor = Redactor::of_installation(&config.section::<PiiRedactionConfig>(), config.home());
        let models = Arc::new(models);
        Self { config, models, sandbox, tools, limits, time_zone, ports: None, file_locks: Arc::default(), redactor }
    }

    /// The same harness over a store.
    #[must_use]
    pub fn with_ports(mut self, ports: HarnessPorts) -> Self {
        self.ports = Some(ports);
        self
    }

    /// The models there are.
    #[must_use]
    pub fn models(&self) -> &ModelCatalogue {
        &self.models
    }
    /// Where tools work.
    #[must_use]
    pub fn sandbox(&self) -> &Arc<dyn SandboxProvider> {
        &self.sandbox
    }
    /// What documents are converted with.
    #[must_use]
    pub fn converter(&self) -> &Converter {
        self.tools.converter()
    }
    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// The lead agent for a user and these options, as far as `principal` may have it.
    ///
    /// # Errors
    /// [`LeadError`] says what is missing and what to do.
    pub async fn lead_agent(
        &self,
        user: &UserId,
        principal: &Principal,
        options: &LeadOptions,
    ) -> Result<LeadAgent, LeadError> {
        let custom = match &options.agent {
            Some(name) => Some(CustomAgent::load(self.config.home(), user, name)?),
            None => None,
        };
        let wanted = options.model.as_deref().or_else(|| custom.as_ref().and_then(|a| a.settings.model.as_deref()));
        let authorization = self.authorization()?;
        let mut model = self.models.get(wanted)?;
        if let Some(authorization) = &authorization {
            let name = model.info().name.clone();
            let allowed = authorization.choose_model(user, principal, &name, &self.models.names()).await?;
            if allowed != name {
                model = self.models.get(Some(&allowed))?;
            }
        }
        let mut fallbacks = self.models.fallbacks(&model.info().name);
        if let Some(authorization) = &authorization {
            fallbacks = allowed(authorization, user, principal, fallbacks).await;
        }
        let info = model.info().clone();
        let bash = self.sandbox.capability().bash;
        let parts = PromptParts {
            agent_name: custom.as_ref().map_or("", |a| a.name.as_str()),
            soul: custom.as_ref().and_then(|a| a.soul.as_deref()),
            interactive: options.interactive,
            plan_mode: options.plan_mode,
            bash,
        };
        let selection =
            ToolSelection { bash, vision: info.supports_vision, plan_mode: false, interactive: options.interactive };
        let mut tools: Vec<Arc<dyn Tool>> = builtin_tools(&self.tools, &selection);
        let recall = options.recall || self.config.section::<ReadConversationConfig>().enabled;
        if let Some(ports) = self.ports.as_ref().filter(|_| recall) {
            tools.push(Arc::new(ReadConversation::new(ports.threads.clone(), ports.steps.clone())));
        }
        if let Some(continuity) = self.continuity() {
            tools.extend(continuity.tools());
        }
        if let Some(authorization) = &authorization {
            tools = authorization.filter_tools(user, principal, tools).await;
        }
        let places = self.chain(options, model.clone(), fallbacks, &tools)?;
        let max_turns = options
            .max_turns
            .unwrap_or(deerflow_agent::DEFAULT_MAX_TURNS)
            .min(self.config.section::<RunLimitsConfig>().0);
        let settings = custom.as_ref().map(|agent| &agent.settings);
        let wanted = options.thinking.or_else(|| settings.and_then(|settings| settings.thinking_enabled));
        let thinking = info.supports_thinking && wanted.unwrap_or(true);
        let effort = options.reasoning_effort.clone().or_else(|| settings.and_then(|s| s.reasoning_effort.clone()));
        let agent = Agent::builder(model)
            .name(custom.as_ref().map_or("lead_agent", |a| a.name.as_str()))
            .tools(tools)
            .middleware(places.iter().filter_map(|p| p.middleware.clone()))
            .system_prompt(lead_prompt(&parts))
            .max_turns(max_turns)
            .thinking(thinking, effort)
            .build()?;
        Ok(LeadAgent { agent, model: info.name, places })
    }

    /// The chain for these options, without a model: what `deerflow agent chain` shows.
    ///
    /// # Errors
    /// When the configured title model does not exist.
    pub fn places(&self, options: &LeadOptions) -> Result<Vec<Place>, LeadError> {
        // Which model it is changes no place; any that exists will do.
        self.chain(options, self.models.get(Some(crate::models::OFFLINE))?, Vec::new(), &[])
    }

    /// What compacts a thread on request, with the model of these options.
    ///
    /// # Errors
    /// When that model cannot be used.
    pub fn compactor(&self, options: &LeadOptions) -> Result<DeerFlowSummarizationMiddleware, LeadError> {
        let model = self.side_model(options.model.as_deref())?;
        let config = (*self.config.section::<SummarizationConfig>()).clone();
        let compactor = DeerFlowSummarizationMiddleware::new(config, model, self.summary_model());
        Ok(match self.continuity() {
            Some(continuity) => compactor.with_hook(continuity.hook()),
            None => compactor,
        })
    }

    fn continuity(&self) -> Option<TaskContinuity> {
        let archive = self.ports.as_ref()?.archive.clone();
        TaskContinuity::new(&self.config.section::<TaskContinuityConfig>(), archive)
    }

    /// Makes the configured summary model when a summary is needed.
    fn summary_model(&self) -> Option<ModelSource> {
        let name = self.config.section::<SummarizationConfig>().model_name.clone()?;
        let (models, limits) = (self.models.clone(), self.limits.clone());
        Some(Arc::new(move || side_model(&models, &limits, Some(&name)).map_err(|error| error.to_string())))
    }

    fn side_model(&self, name: Option<&str>) -> Result<Arc<dyn ChatModel>, ModelChoiceError> {
        side_model(&self.models, &self.limits, name)
    }

    fn authorization(&self) -> Result<Option<Authorization>, LeadError> {
        Authorization::from_config(&self.config.section::<AuthorizationConfig>()).map_err(LeadError::Policy)
    }

    fn chain(
        &self,
        options: &LeadOptions,
        model: Arc<dyn ChatModel>,
        fallbacks: Vec<Arc<dyn ChatModel>>,
        tools: &[Arc<dyn Tool>],
    ) -> Result<Vec<Place>, LeadError> {
        let title = self.config.section::<TitleConfig>();
        let title_model = match &title.model_name {
            Some(name) => Some(self.side_model(Some(name))?),
            None => None,
        };
        Ok(lead_chain(ChainParts {
            home: self.config.home().to_owned(),
            config: &self.config,
            sandbox: self.sandbox.clone(),
            limits: self.limits.clone(),
            model,
            fallbacks,
            ports: self.ports.clone(),
            tools,
            file_locks: self.file_locks.clone(),
            redactor: self.redactor.clone(),
            authorization: self.authorization()?,
            guardrail: GuardrailMiddleware::from_config(&self.config.section::<GuardrailsConfig>())
                .map_err(LeadError::Policy)?,
            continuity: self.continuity(),
            summary_model: self.summary_model(),
            title_model,
            plan_mode: options.plan_mode,
            time_zone: self.time_zone.clone(),
        }))
    }
}

/// The model of this name for calls beside the conversation, with its fall-backs.
fn side_model(
    models: &ModelCatalogue,
    limits: &Arc<ProcessLimits>,
    name: Option<&str>,
) -> Result<Arc<dyn ChatModel>, ModelChoiceError> {
    let model = models.get(name)?;
    let fallbacks = models.fallbacks(&model.info().name);
    Ok(FallbackModel::around(model, fallbacks, limits.clone()))
}

/// Those of the models that this user may use.
async fn allowed(
    authorization: &Authorization,
    user: &UserId,
    principal: &Principal,
    models: Vec<Arc<dyn ChatModel>>,
) -> Vec<Arc<dyn ChatModel>> {
    let mut kept = Vec::with_capacity(models.len());
    for model in models {
        let name = model.info().name.clone();
        // With this one alone to choose from, nothing else can be chosen.
        if authorization.choose_model(user, principal, &name, std::slice::from_ref(&name)).await.is_ok() {
            kept.push(model);
        }
    }
    kept
}
