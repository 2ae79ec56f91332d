//! The built-in middlewares, one file each. Their order is in [`crate::chain`].

mod artifact_capture;
mod artifact_registry;
mod artifact_resolution;
mod clarification;
mod closing;
mod dangling_tool_call;
mod decided;
mod deferred_tool_filter;
mod deferred_tool_promotion_audit;
mod durable_context;
mod dynamic_context;
mod gate_meta;
mod goal;
mod guardrails;
mod human_in_the_loop;
mod input_sanitization;
mod llm_error_handling;
mod loop_detection;
mod markup;
mod model_length_finish_reason;
mod pattern;
mod pii_redaction;
mod read_before_write;
mod remote_content;
mod safety_finish_reason;
mod sandbox;
mod sandbox_audit;
mod steering;
mod summarization;
mod system_message_coalescing;
mod task_continuity;
mod terminal_response;
mod thread_data;
mod title;
mod todo;
mod token_budget;
mod token_usage;
mod tool_error_handling;
mod tool_output_budget;
mod tool_progress;
mod tool_receipt;
mod tool_result_sanitization;
mod tool_transforms;
mod uploads;
mod view_image;

#[cfg(test)]
pub(crate) mod rig;
#[cfg(test)]
pub(crate) mod scripted;
#[cfg(test)]
pub(crate) mod testing;

pub use artifact_capture::ArtifactCaptureMiddleware;
pub use artifact_registry::{ARTIFACT_CONTEXT_CHARS, RESOLVED_TOOL_CALL_ARGS, ToolArtifactsConfig, project_artifacts};
pub use artifact_resolution::ArtifactResolutionMiddleware;
pub use clarification::ClarificationMiddleware;
pub use dangling_tool_call::DanglingToolCallMiddleware;
pub use deferred_tool_filter::DeferredToolFilterMiddleware;
pub use deferred_tool_promotion_audit::DeferredToolPromotionAuditMiddleware;
pub use durable_context::{ArtifactProjection, DurableContextMiddleware};
pub use dynamic_context::{Clock, DynamicContextMiddleware};
pub use goal::{GOAL_CONTINUATION, GoalMiddleware};
pub use guardrails::{
    AUTHORIZATION_OUTCOME, AllowlistProvider, Authorization, AuthorizationConfig, AuthorizationProvider, AuthzRequest,
    Decision, GuardrailMiddleware, GuardrailProvider, GuardrailRequest, GuardrailsConfig, ModelDenied, PolicyChoice,
    PolicyConfigError, PolicyError, RbacProvider, Reason, Subject,
};
pub use human_in_the_loop::{Approval, ApprovalDetails, DecisionType, HumanInTheLoopConfig, HumanInTheLoopMiddleware};
pub use input_sanitization::InputSanitizationMiddleware;
pub use llm_error_handling::{
    ANSWERED_BY, CircuitBreakerConfig, FallbackModel, LlmCallConfig, LlmErrorHandlingMiddleware, ProcessLimits,
};
pub use loop_detection::{LoopDetectionConfig, LoopDetectionMiddleware};
pub use model_length_finish_reason::ModelLengthFinishReasonMiddleware;
pub use pii_redaction::{PiiRedactionConfig, PiiRedactionMiddleware, RedactionKey, Redactor};
pub use read_before_write::{ReadBeforeWriteConfig, ReadBeforeWriteMiddleware};
pub use remote_content::RemoteTools;
pub use safety_finish_reason::{SafetyFinishReasonConfig, SafetyFinishReasonMiddleware};
pub use sandbox::SandboxMiddleware;
pub use sandbox_audit::SandboxAuditMiddleware;
pub use steering::{RUN_INPUT_ID, SteeringMiddleware};
pub use summarization::{
    CompactError, CompactOptions, Compaction, ContextSize, DeerFlowSummarizationMiddleware, ModelSource, SizeKind,
    SummarizationConfig, SummarizationEvent, SummarizationHook, SummaryGenerationError, Trigger, compact,
};
pub use system_message_coalescing::SystemMessageCoalescingMiddleware;
pub use task_continuity::{TaskContinuity, TaskContinuityConfig};
pub use terminal_response::TerminalResponseMiddleware;
pub use thread_data::ThreadDataMiddleware;
pub use title::{TitleConfig, TitleMiddleware};
pub use todo::TodoMiddleware;
pub use token_budget::{TokenBudgetConfig, TokenBudgetMiddleware};
pub use token_usage::{TokenUsageConfig, TokenUsageMiddleware};
pub use tool_error_handling::{ToolErrorHandlingMiddleware, ToolMeta, classify};
pub use tool_output_budget::{ToolOutputBudgetMiddleware, ToolOutputConfig};
pub use tool_progress::{ToolProgressConfig, ToolProgressMiddleware};
pub use tool_receipt::{
    AcceptanceLeaf, AcceptanceVerdict, CitationFailure, CommandRun, RECEIPT_LEDGER, Receipt, ReceiptRenderMode,
    ReceiptVerdict, SUBAGENT_RECEIPTS, TOOL_RECEIPT, ToolReceiptMiddleware, VerificationConfig, acceptance_checks,
    command_runs, ledger_of, receipts, verify_citations,
};
pub use tool_result_sanitization::ToolResultSanitizationMiddleware;
pub use tool_transforms::TOOL_TRANSFORMS;
pub use uploads::{UPLOADS_CLOSE, UPLOADS_OPEN, UploadsMiddleware};
pub use view_image::{VIEW_IMAGE_CONTEXT, ViewImageMiddleware};
