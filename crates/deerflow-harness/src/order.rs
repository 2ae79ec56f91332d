//! The order of the built-in middlewares: one literal list with the reason for each place.
//!
//! Outermost first. The lead agent's chain is this list; the library factory's chain is the part of it that the factory
//! fills. Rows of subsystems that are still to come are named in comments at their places.

use crate::middleware::*;
use deerflow_agent::Middleware;

/// A place of the order and the middleware type that belongs there.
macro_rules! slots {
    ($($slot:ident: $type:ty = $name:literal),+ ; $($more:ident = $other:literal),+ $(,)?) => {
        /// A place in [`ORDER`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each is the place of the middleware of that name")]
        pub enum Slot { $($slot,)+ $($more),+ }

        impl Slot {
            /// Class name of the middleware that belongs there.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$slot => $name,)+ $(Self::$more => $other),+ }
            }
        }

        $(impl BuiltIn for $type { const SLOT: Slot = Slot::$slot; })+
    };
}

/// A middleware with a place in [`ORDER`].
pub trait BuiltIn: Middleware {
    /// Its place.
    const SLOT: Slot;
}

slots! {
    Goal: GoalMiddleware = "GoalMiddleware",
    Steering: SteeringMiddleware = "SteeringMiddleware",
    InputSanitization: InputSanitizationMiddleware = "InputSanitizationMiddleware",
    ToolOutputBudget: ToolOutputBudgetMiddleware = "ToolOutputBudgetMiddleware",
    ToolResultSanitization: ToolResultSanitizationMiddleware = "ToolResultSanitizationMiddleware",
    PiiRedaction: PiiRedactionMiddleware = "PiiRedactionMiddleware",
    ThreadData: ThreadDataMiddleware = "ThreadDataMiddleware",
    Uploads: UploadsMiddleware = "UploadsMiddleware",
    Sandbox: SandboxMiddleware = "SandboxMiddleware",
    DanglingToolCall: DanglingToolCallMiddleware = "DanglingToolCallMiddleware",
    LlmErrorHandling: LlmErrorHandlingMiddleware = "LLMErrorHandlingMiddleware",
    ToolReceipt: ToolReceiptMiddleware = "ToolReceiptMiddleware",
    ArtifactResolution: ArtifactResolutionMiddleware = "ArtifactResolutionMiddleware",
    Guardrail: GuardrailMiddleware = "GuardrailMiddleware",
    SandboxAudit: SandboxAuditMiddleware = "SandboxAuditMiddleware",
    ReadBeforeWrite: ReadBeforeWriteMiddleware = "ReadBeforeWriteMiddleware",
    ToolProgress: ToolProgressMiddleware = "ToolProgressMiddleware",
    ToolErrorHandling: ToolErrorHandlingMiddleware = "ToolErrorHandlingMiddleware",
    ArtifactCapture: ArtifactCaptureMiddleware = "ArtifactCaptureMiddleware",
    DynamicContext: DynamicContextMiddleware = "DynamicContextMiddleware",
    DurableContext: DurableContextMiddleware = "DurableContextMiddleware",
    Summarization: DeerFlowSummarizationMiddleware = "DeerFlowSummarizationMiddleware",
    DeferredToolPromotionAudit: DeferredToolPromotionAuditMiddleware = "DeferredToolPromotionAuditMiddleware",
    Todo: TodoMiddleware = "TodoMiddleware",
    TokenUsage: TokenUsageMiddleware = "TokenUsageMiddleware",
    Title: TitleMiddleware = "TitleMiddleware",
    ViewImage: ViewImageMiddleware = "ViewImageMiddleware",
    DeferredToolFilter: DeferredToolFilterMiddleware = "DeferredToolFilterMiddleware",
    SystemMessageCoalescing: SystemMessageCoalescingMiddleware = "SystemMessageCoalescingMiddleware",
    HumanInTheLoop: HumanInTheLoopMiddleware = "DeerFlowHumanInTheLoopMiddleware",
    LoopDetection: LoopDetectionMiddleware = "LoopDetectionMiddleware",
    TokenBudget: TokenBudgetMiddleware = "TokenBudgetMiddleware",
    StructuredResponse: crate::factory::StructuredResponseMiddleware = "StructuredResponseMiddleware",
    TerminalResponse: TerminalResponseMiddleware = "TerminalResponseMiddleware",
    ModelLengthFinishReason: ModelLengthFinishReasonMiddleware = "ModelLengthFinishReasonMiddleware",
    SafetyFinishReason: SafetyFinishReasonMiddleware = "SafetyFinishReasonMiddleware",
    Clarification: ClarificationMiddleware = "ClarificationMiddleware";
    // The same type as the guardrail, in a place of its own.
    Authorization = "GuardrailMiddleware[authorization]",
}

/// One row of the order.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The place.
    pub slot: Slot,
    /// When the lead agent has it.
    pub when: &'static str,
    /// Why it stands here.
    pub why: &'static str,
}

const fn row(slot: Slot, when: &'static str, why: &'static str) -> Row {
    Row { slot, when, why }
}

/// The order, outermost first.
pub const ORDER: &[Row] = &[
    row(
        Slot::Goal,
        "always",
        "first in the list, so last at the end of a turn: it judges what is finished, and touches no request",
    ),
    row(
        Slot::Steering,
        "always",
        "before all that prepares a model turn; at the end of a turn right before the goal, which yields to the user",
    ),
    row(
        Slot::InputSanitization,
        "always",
        "outermost around the model: every inner middleware and every retry sees fenced user input",
    ),
    // KnowledgeScope: with document knowledge.
    row(
        Slot::ToolOutputBudget,
        "tool_output.enabled",
        "outside all that rewrites results, so that it measures their final text",
    ),
    row(
        Slot::ToolResultSanitization,
        "always",
        "inside the budget: text is neutralised before it is measured, saved or cut",
    ),
    row(
        Slot::PiiRedaction,
        "pii_redaction.enabled",
        "innermost of the rewriters: sees results as they came, and requests already fenced",
    ),
    row(Slot::ThreadData, "always", "makes the folders that the next two look into"),
    row(Slot::Uploads, "always", "needs the folders; runs before the date takes over the message's id"),
    row(Slot::Sandbox, "always", "after the folders; outside the gates, so that it sees what they let through"),
    row(
        Slot::DanglingToolCall,
        "always",
        "repairs the history before every attempt, inside nothing that could add calls",
    ),
    row(
        Slot::LlmErrorHandling,
        "always",
        "around every attempt of a call, inside the repair so that a retry sends the same request",
    ),
    row(
        Slot::ToolReceipt,
        "verification.receipts_enabled",
        "outside every gate that answers in a tool's place: no call is without a receipt",
    ),
    row(
        Slot::ArtifactResolution,
        "tool_artifacts.enabled and .resolve_handles_in_args",
        "before the gates: policies judge the real path, not a handle",
    ),
    row(
        Slot::Authorization,
        "authorization.enabled",
        "asks who may call at all, before anything asks about the call itself",
    ),
    row(
        Slot::Guardrail,
        "guardrails.enabled with a policy",
        "judges the call with its real arguments, before it has any effect",
    ),
    row(Slot::SandboxAudit, "always", "behind the policies and before the gates that count or lock"),
    row(
        Slot::ReadBeforeWrite,
        "read_before_write.enabled",
        "outside progress and error handling: a refusal is no failure of the tool",
    ),
    row(Slot::ToolProgress, "tool_progress.enabled", "outside error handling, whose stamps it reads"),
    row(
        Slot::ToolErrorHandling,
        "always",
        "innermost of the gates: what a gate answers is stamped by the gate, what a tool fails with here",
    ),
    row(
        Slot::ArtifactCapture,
        "tool_artifacts.enabled",
        "before durable context and compaction: handles outlive the results",
    ),
    row(Slot::DynamicContext, "always", "after uploads, whose block belongs to the message that moves"),
    // SkillActivation: with skills.
    row(
        Slot::DeferredToolPromotionAudit,
        "with deferred tools",
        "outside the skills' tool policy: it reports what that has let through",
    ),
    // SkillToolPolicy: with skills.
    row(
        Slot::DurableContext,
        "always",
        "before compaction: it captures what compaction takes away, and shows what outlives it",
    ),
    row(
        Slot::Summarization,
        "summarization.enabled",
        "after what must be captured first, before what adds to the history",
    ),
    row(Slot::Todo, "in plan mode", "adds its reminders after what compacts the history"),
    row(Slot::TokenUsage, "token_usage.enabled", "after the reply is there; before whoever counts it"),
    row(Slot::Title, "title.enabled", "after the answer is there"),
    // Memory, McpRouting: with those.
    row(
        Slot::ViewImage,
        "the model takes images",
        "after all that compacts the history: it adds to the request as it will be sent",
    ),
    row(
        Slot::DeferredToolFilter,
        "with deferred tools",
        "after all that promotes tools before a model call; what it hides no inner middleware may show",
    ),
    row(
        Slot::SystemMessageCoalescing,
        "always",
        "innermost of those that change requests: nothing adds a system message after it",
    ),
    row(
        Slot::HumanInTheLoop,
        "human_in_the_loop names tools",
        "before the guards in the list, so after them in effect: nobody is asked about a call that will not run",
    ),
    // SubagentLimit: with sub-agents.
    row(
        Slot::LoopDetection,
        "loop_detection.enabled",
        "before the tail guards in the list, so after them in effect: it judges calls that would really run",
    ),
    // Configured extensions: with those.
    row(
        Slot::TokenBudget,
        "token_budget.enabled",
        "counts what the tail guards have left of a reply, before loops are judged",
    ),
    row(
        Slot::StructuredResponse,
        "with a response format (library)",
        "after all that may change the answer, before what judges whether there is one",
    ),
    row(Slot::TerminalResponse, "always", "judges the answer after the guards below have closed cut or blocked ones"),
    row(Slot::ModelLengthFinishReason, "always", "closes a reply cut by the output limit"),
    row(
        Slot::SafetyFinishReason,
        "safety_finish_reason.enabled",
        "first to see a blocked reply, before anything counts its calls",
    ),
    row(Slot::Clarification, "always", "last: nothing stands between it and the question to the user"),
];
