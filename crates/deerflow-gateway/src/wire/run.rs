//! A run.

use super::iso;
use deerflow_core::JsonMap;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A run.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Run {
    /// Its id.
    #[schema(example = "6f8a2a4e-0b7f-4c0e-9b5e-0f4d9a3c7b10")]
    pub(crate) run_id: String,
    /// Its thread.
    #[schema(example = "my-thread")]
    pub(crate) thread_id: String,
    /// The agent.
    #[schema(example = "lead_agent")]
    pub(crate) assistant_id: String,
    /// `pending`, `running`, `success`, `error`, `timeout` or `interrupted`.
    #[schema(example = "success")]
    pub(crate) status: String,
    /// What clients keep with it.
    #[schema(value_type = Object)]
    pub(crate) metadata: JsonMap,
    /// What it was created with; secrets are left out.
    #[schema(value_type = Object)]
    pub(crate) kwargs: Value,
    /// What was to happen if the thread had a live run.
    #[schema(example = "reject")]
    pub(crate) multitask_strategy: String,
    /// ISO 8601.
    pub(crate) created_at: String,
    /// ISO 8601.
    pub(crate) updated_at: String,
    /// Tokens sent.
    pub(crate) total_input_tokens: u64,
    /// Tokens received.
    pub(crate) total_output_tokens: u64,
    /// Their sum.
    pub(crate) total_tokens: u64,
    /// Model calls.
    pub(crate) llm_call_count: u64,
    /// Tokens of the lead agent.
    pub(crate) lead_agent_tokens: u64,
    /// Tokens of sub-agents.
    pub(crate) subagent_tokens: u64,
    /// Tokens of middlewares (titles, summaries, judgements).
    pub(crate) middleware_tokens: u64,
    /// Messages it made.
    pub(crate) message_count: u64,
    /// Which limit ended it, if one did.
    pub(crate) stop_reason: Option<String>,
}
