//! The lead agent's chain from its configuration.

use crate::chain::{Filling, Place};
use crate::middleware::{
    ClarificationMiddleware, DanglingToolCallMiddleware, DynamicContextMiddleware, GoalMiddleware,
    InputSanitizationMiddleware, LlmCallConfig, LlmErrorHandlingMiddleware, LoopDetectionConfig,
    LoopDetectionMiddleware, ModelLengthFinishReasonMiddleware, ProcessLimits, SafetyFinishReasonConfig,
    SafetyFinishReasonMiddleware, SandboxMiddleware, SystemMessageCoalescingMiddleware, TerminalResponseMiddleware,
    ThreadDataMiddleware, TitleConfig, TitleMiddleware, TodoMiddleware, ToolErrorHandlingMiddleware,
    ToolOutputBudgetMiddleware, ToolOutputConfig, UploadsMiddleware,
};
use deerflow_config::{Config, Section};
use deerflow_core::ChatModel;
use deerflow_sandbox::SandboxProvider;
use std::path::PathBuf;
use std::sync::Arc;

/// What the chain is made from.
pub struct ChainParts<'a> {
    /// `DEER_FLOW_HOME`.
    pub home: PathBuf,
    /// Sections of the middlewares.
    pub config: &'a Config,
    /// Where tools work.
    pub sandbox: Arc<dyn SandboxProvider>,
    /// Shared by all agents of the process.
    pub limits: Arc<ProcessLimits>,
    /// The run's own model, which judges goals.
    pub model: Arc<dyn ChatModel>,
    /// Writes titles, if one is configured for that.
    pub title_model: Option<Arc<dyn ChatModel>>,
    /// Whether the agent keeps a plan.
    pub plan_mode: bool,
    /// IANA time zone of date reminders; the machine's when `None`.
    pub time_zone: Option<String>,
}

/// The lead agent's chain, outermost first, inactive places included.
#[must_use]
pub fn lead_chain(parts: ChainParts<'_>) -> Vec<Place> {
    let ChainParts { home, config, sandbox, limits, model, title_model, plan_mode, time_zone } = parts;
    let mut chain = Filling::default();
    chain.put(GoalMiddleware::new(model));
    chain.put(InputSanitizationMiddleware);
    chain.put(ToolOutputBudgetMiddleware::new(section::<ToolOutputConfig>(config), Some(sandbox.clone())));
    chain.put(ThreadDataMiddleware::new(sandbox.clone()));
    chain.put(UploadsMiddleware::new(home));
    chain.put(SandboxMiddleware::new(sandbox));
    chain.put(DanglingToolCallMiddleware);
    chain.put(LlmErrorHandlingMiddleware::new(section::<LlmCallConfig>(config), limits));
    chain.put(ToolErrorHandlingMiddleware);
    chain.put(DynamicContextMiddleware::local(time_zone.as_deref()));
    chain.maybe(plan_mode.then(|| TodoMiddleware::new(deerflow_tools::write_todos())));
    let title = section::<TitleConfig>(config);
    chain.maybe(title.enabled.then(|| TitleMiddleware::new(title, title_model)));
    chain.put(SystemMessageCoalescingMiddleware);
    let loops = section::<LoopDetectionConfig>(config);
    chain.maybe(loops.enabled.then(|| LoopDetectionMiddleware::new(loops)));
    chain.put(TerminalResponseMiddleware);
    chain.put(ModelLengthFinishReasonMiddleware);
    chain.maybe(section::<SafetyFinishReasonConfig>(config).enabled.then_some(SafetyFinishReasonMiddleware));
    chain.put(ClarificationMiddleware);
    chain.in_order()
}

fn section<S: Section + Clone>(config: &Config) -> S {
    (*config.section::<S>()).clone()
}
