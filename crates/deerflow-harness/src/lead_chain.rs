//! The lead agent's chain from its configuration.

use crate::chain::{Filling, Place};
use crate::middleware::*;
use crate::order::Slot;
use crate::ports::HarnessPorts;
use deerflow_config::{Config, Section};
use deerflow_core::{ChatModel, Tool};
use deerflow_sandbox::SandboxProvider;
use deerflow_tools::KeyedLocks;
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
    /// The models that answer when that one cannot.
    pub fallbacks: Vec<Arc<dyn ChatModel>>,
    /// The store, where there is one.
    pub ports: Option<HarnessPorts>,
    /// The agent's tools.
    pub tools: &'a [Arc<dyn Tool>],
    /// Shared by all agents of the process.
    pub file_locks: Arc<KeyedLocks>,
    /// Hides personal data, if that is on.
    pub redactor: Redactor,
    /// Who may do what, if that is restricted.
    pub authorization: Option<Authorization>,
    /// The configured guardrail.
    pub guardrail: Option<GuardrailMiddleware>,
    /// Keeps what compaction takes out, if that is on.
    pub continuity: Option<TaskContinuity>,
    /// Writes summaries, if one is configured for that; the run's own model otherwise.
    pub summary_model: Option<ModelSource>,
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
    let ChainParts {
        home,
        config,
        sandbox,
        limits,
        model,
        fallbacks,
        ports,
        tools,
        file_locks,
        redactor,
        authorization,
        guardrail,
        continuity,
        summary_model,
        title_model,
        plan_mode,
        time_zone,
    } = parts;
    let mut chain = Filling::default();
    let vision = model.info().supports_vision;
    let isolated = sandbox.name() == "isolated";
    let model = FallbackModel::around(model, fallbacks.clone(), limits.clone());
    let goal = GoalMiddleware::new(model.clone()).redacting(redactor.clone());
    chain.put(match &ports {
        Some(ports) => goal.yielding_to(ports.inputs.clone()),
        None => goal,
    });
    chain.maybe(ports.map(|ports| SteeringMiddleware::new(ports.inputs)));
    chain.put(InputSanitizationMiddleware);
    chain.put(ToolOutputBudgetMiddleware::new(section::<ToolOutputConfig>(config), Some(sandbox.clone())));
    let remote = RemoteTools::default();
    chain.put(ToolResultSanitizationMiddleware::new(remote.clone()));
    chain.maybe(redactor.is_on().then(|| PiiRedactionMiddleware::new(redactor.clone(), remote)));
    chain.put(ThreadDataMiddleware::new(sandbox.clone()));
    chain.put(UploadsMiddleware::new(home));
    chain.put(SandboxMiddleware::new(sandbox.clone()));
    chain.put(DanglingToolCallMiddleware);
    chain.put(LlmErrorHandlingMiddleware::new(section::<LlmCallConfig>(config), limits).with_fallbacks(fallbacks));
    let verification = section::<VerificationConfig>(config);
    let receipts = verification.receipts_enabled;
    chain.maybe(receipts.then(|| ToolReceiptMiddleware::new(verification.receipts_render_mode)));
    let artifacts = section::<ToolArtifactsConfig>(config);
    let resolves = artifacts.enabled && artifacts.resolve_handles_in_args;
    chain.maybe(resolves.then(|| ArtifactResolutionMiddleware::new(artifacts.clone())));
    if let Some(authorization) = &authorization {
        chain.put_at(Slot::Authorization, authorization.middleware([]));
    }
    chain.maybe(guardrail);
    chain.put(SandboxAuditMiddleware::new(isolated));
    chain.maybe(vision.then(|| ViewImageMiddleware::new(sandbox.clone(), authorization)));
    let reads = section::<ReadBeforeWriteConfig>(config);
    chain.maybe(reads.enabled.then(|| ReadBeforeWriteMiddleware::new(reads, sandbox, file_locks)));
    let progress = section::<ToolProgressConfig>(config);
    chain.maybe(progress.enabled.then(|| ToolProgressMiddleware::new(progress)));
    chain.put(ToolErrorHandlingMiddleware);
    let shown = (artifacts.enabled && artifacts.inject_model_context).then(|| projection(redactor.clone()));
    chain.maybe(artifacts.enabled.then(|| ArtifactCaptureMiddleware::new(artifacts)));
    let compaction = section::<SummarizationConfig>(config);
    let read_tools = compaction.skill_file_read_tool_names.clone();
    chain.put(DurableContextMiddleware::new(read_tools, SKILLS_ROOT, shown));
    chain.maybe(compaction.enabled.then(|| {
        let compacting = DeerFlowSummarizationMiddleware::new(compaction, model, summary_model);
        match continuity {
            Some(continuity) => compacting.with_hook(continuity.hook()),
            None => compacting,
        }
    }));
    chain.put(DynamicContextMiddleware::local(time_zone.as_deref()));
    chain.maybe(plan_mode.then(|| TodoMiddleware::new(deerflow_tools::write_todos())));
    chain.maybe(section::<TokenUsageConfig>(config).enabled.then_some(TokenUsageMiddleware));
    let budget = section::<TokenBudgetConfig>(config);
    chain.maybe(budget.enabled.then(|| TokenBudgetMiddleware::new(budget)));
    let title = section::<TitleConfig>(config);
    chain.maybe(title.enabled.then(|| TitleMiddleware::new(title, title_model).redacting(redactor)));
    chain.put(SystemMessageCoalescingMiddleware);
    let approvals = section::<HumanInTheLoopConfig>(config);
    chain.maybe(approvals.is_active().then(|| HumanInTheLoopMiddleware::new(&approvals).with_tools(tools)));
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

/// Where skills stand in the agent's computer.
const SKILLS_ROOT: &str = "/mnt/skills";

/// Shows the handles of earlier results.
fn projection(redactor: Redactor) -> ArtifactProjection {
    Arc::new(move |state| {
        let entries = state.tool_artifacts.as_deref().unwrap_or_default();
        project_artifacts(entries, ARTIFACT_CONTEXT_CHARS, Some(&|label: &str| redactor.redact(label).into_owned()))
    })
}
