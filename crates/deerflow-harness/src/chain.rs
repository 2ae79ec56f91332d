//! The order of the built-in middlewares, as one literal list with the reason for each place.
//!
//! Outermost first. Rows that belong to subsystems that are still to come are named in comments at their places.

use crate::middleware::{
    ClarificationMiddleware, DanglingToolCallMiddleware, DynamicContextMiddleware, InputSanitizationMiddleware,
    LlmCallConfig, LlmErrorHandlingMiddleware, LoopDetectionMiddleware, ModelLengthFinishReasonMiddleware,
    ProcessLimits, SafetyFinishReasonConfig, SafetyFinishReasonMiddleware, SandboxMiddleware,
    SystemMessageCoalescingMiddleware, TerminalResponseMiddleware, ThreadDataMiddleware, TitleConfig, TitleMiddleware,
    TodoMiddleware, ToolErrorHandlingMiddleware, ToolOutputBudgetMiddleware, ToolOutputConfig, UploadsMiddleware,
};
use deerflow_agent::Middleware;
use deerflow_config::Config;
use deerflow_core::ChatModel;
use deerflow_sandbox::SandboxProvider;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// One place of the chain.
#[derive(Serialize)]
pub struct Place {
    /// Class name of the middleware.
    pub name: &'static str,
    /// Why it stands here.
    pub why: &'static str,
    /// When it is there.
    pub when: &'static str,
    /// Whether it is there now.
    pub active: bool,
    /// The middleware, if it is.
    #[serde(skip)]
    pub middleware: Option<Arc<dyn Middleware>>,
}

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
    let ChainParts { home, config, sandbox, limits, title_model, plan_mode, time_zone } = parts;
    let loops = config.section::<crate::middleware::LoopDetectionConfig>();
    let safety = config.section::<SafetyFinishReasonConfig>();
    vec![
        place(
            "always",
            "outermost around the model: every inner middleware and every retry sees fenced user input",
            InputSanitizationMiddleware,
        ),
        // KnowledgeScope: with document knowledge.
        place(
            "always (tool_output.enabled)",
            "outside all that rewrites results, so that it measures their final text",
            ToolOutputBudgetMiddleware::new((*config.section::<ToolOutputConfig>()).clone(), Some(sandbox.clone())),
        ),
        // ToolResultSanitization: with web tools. PiiRedaction: with its feature.
        place("always", "makes the folders that the next two look into", ThreadDataMiddleware::new(sandbox.clone())),
        place(
            "always",
            "needs the folders; runs before the date takes over the message's id",
            UploadsMiddleware::new(home),
        ),
        place(
            "always",
            "after the folders; outside the gates, so that it sees what they let through",
            SandboxMiddleware::new(sandbox),
        ),
        place(
            "always",
            "repairs the history before every attempt, inside nothing that could add calls",
            DanglingToolCallMiddleware,
        ),
        place(
            "always",
            "around every attempt of a call, inside the repair so that a retry sends the same request",
            LlmErrorHandlingMiddleware::new((*config.section::<LlmCallConfig>()).clone(), limits),
        ),
        // ToolReceipt, ArtifactResolution, Guardrail (authorisation, provider), SandboxAudit, ReadBeforeWrite, ToolProgress.
        place(
            "always",
            "innermost of the gates: what a gate answers is stamped by the gate, what a tool fails with here",
            ToolErrorHandlingMiddleware,
        ),
        // ArtifactCapture.
        place(
            "always",
            "after uploads, whose block belongs to the message that moves",
            DynamicContextMiddleware::local(time_zone.as_deref()),
        ),
        // SkillActivation, DeferredToolPromotionAudit, SkillToolPolicy, DurableContext, Summarization.
        maybe(
            plan_mode,
            "TodoMiddleware",
            "in plan mode",
            "adds its reminders after what compacts the history",
            || TodoMiddleware::new(deerflow_tools::write_todos()),
        ),
        // TokenUsage.
        maybe(
            config.section::<TitleConfig>().enabled,
            "TitleMiddleware",
            "title.enabled",
            "after the answer is there",
            || TitleMiddleware::new((*config.section::<TitleConfig>()).clone(), title_model),
        ),
        // Memory, ViewImage, McpRouting, DeferredToolFilter.
        place(
            "always",
            "innermost of those that change requests: nothing adds a system message after it",
            SystemMessageCoalescingMiddleware,
        ),
        // HumanInTheLoop, SubagentLimit.
        maybe(
            loops.enabled,
            "LoopDetectionMiddleware",
            "loop_detection.enabled",
            "before the tail guards in the list, so after them in effect: it judges calls that would really run",
            || LoopDetectionMiddleware::new((*loops).clone()),
        ),
        // TokenBudget, custom middlewares, configured extensions.
        place(
            "always",
            "judges the answer after the guards below have closed cut or blocked ones",
            TerminalResponseMiddleware,
        ),
        place("always", "closes a reply cut by the output limit", ModelLengthFinishReasonMiddleware),
        maybe(
            safety.enabled,
            "SafetyFinishReasonMiddleware",
            "safety_finish_reason.enabled",
            "first to see a blocked reply, before anything counts its calls",
            || SafetyFinishReasonMiddleware,
        ),
        place("always", "last: nothing stands between it and the question to the user", ClarificationMiddleware),
    ]
}

fn place(when: &'static str, why: &'static str, middleware: impl Middleware + 'static) -> Place {
    let middleware: Arc<dyn Middleware> = Arc::new(middleware);
    Place { name: middleware.name(), why, when, active: true, middleware: Some(middleware) }
}

fn maybe<M: Middleware + 'static>(
    active: bool,
    name: &'static str,
    when: &'static str,
    why: &'static str,
    make: impl FnOnce() -> M,
) -> Place {
    let middleware = active.then(|| Arc::new(make()) as Arc<dyn Middleware>);
    Place { name, why, when, active, middleware }
}
