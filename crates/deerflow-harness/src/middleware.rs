//! The built-in middlewares, one file each. Their order is in [`crate::chain`].

mod clarification;
mod closing;
mod dangling_tool_call;
mod deferred_tool_filter;
mod deferred_tool_promotion_audit;
mod durable_context;
mod dynamic_context;
mod goal;
mod input_sanitization;
mod llm_error_handling;
mod loop_detection;
mod markup;
mod model_length_finish_reason;
mod safety_finish_reason;
mod sandbox;
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
mod uploads;

#[cfg(test)]
pub(crate) mod testing;

pub use clarification::ClarificationMiddleware;
pub use dangling_tool_call::DanglingToolCallMiddleware;
pub use deferred_tool_filter::DeferredToolFilterMiddleware;
pub use deferred_tool_promotion_audit::DeferredToolPromotionAuditMiddleware;
pub use durable_context::{ArtifactProjection, DurableContextMiddleware};
pub use dynamic_context::{Clock, DynamicContextMiddleware};
pub use goal::{GOAL_CONTINUATION, GoalMiddleware};
pub use input_sanitization::InputSanitizationMiddleware;
pub use llm_error_handling::{CircuitBreakerConfig, LlmCallConfig, LlmErrorHandlingMiddleware, ProcessLimits};
pub use loop_detection::{LoopDetectionConfig, LoopDetectionMiddleware};
pub use model_length_finish_reason::ModelLengthFinishReasonMiddleware;
pub use safety_finish_reason::{SafetyFinishReasonConfig, SafetyFinishReasonMiddleware};
pub use sandbox::SandboxMiddleware;
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
pub use uploads::{UPLOADS_CLOSE, UPLOADS_OPEN, UploadsMiddleware};
