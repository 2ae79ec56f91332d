//! A run.

use super::iso;
use deerflow_core::JsonMap;
use deerflow_core::ports::{RunRow, RunUsage};
use deerflow_runtime::RunFacts;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A run.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Run {
    /// Its id.
    #[schema(example = "6f8a2a4e-0b7f-4c0e-9b5e-0f4d9a3c7b10")]
    pub run_id: String,
    /// Its thread.
    #[schema(example = "my-thread")]
    pub thread_id: String,
    /// The agent.
    #[schema(example = "lead_agent")]
    pub assistant_id: String,
    /// `pending`, `running`, `success`, `error`, `timeout` or `interrupted`.
    #[schema(example = "success")]
    pub status: String,
    /// What clients keep with it.
    #[schema(value_type = Object)]
    pub metadata: JsonMap,
    /// What it was created with; secrets are left out.
    #[schema(value_type = Object)]
    pub kwargs: Value,
    /// What was to happen if the thread had a live run.
    #[schema(example = "reject")]
    pub multitask_strategy: String,
    /// ISO 8601.
    pub created_at: String,
    /// ISO 8601.
    pub updated_at: String,
    /// Tokens sent.
    pub total_input_tokens: u64,
    /// Tokens received.
    pub total_output_tokens: u64,
    /// Their sum.
    pub total_tokens: u64,
    /// Model calls.
    pub llm_call_count: u64,
    /// Tokens of the lead agent.
    pub lead_agent_tokens: u64,
    /// Tokens of sub-agents.
    pub subagent_tokens: u64,
    /// Tokens of middlewares (titles, summaries, judgements).
    pub middleware_tokens: u64,
    /// Messages it made.
    pub message_count: u64,
    /// Which limit ended it, if one did.
    pub stop_reason: Option<String>,
}

/// The agent that a run has when none was named.
const LEAD: &str = "lead_agent";

impl Run {
    /// The run of a row; `used` is what was counted of it.
    pub fn of(row: RunRow, used: Option<&RunUsage>) -> Self {
        let facts = RunFacts::of(&row.options).unwrap_or_default();
        let agent = row.options.get("agent").and_then(Value::as_str);
        let callers = used.map(|used| used.by_caller).unwrap_or_default();
        Self {
            run_id: row.run_id.to_string(),
            thread_id: row.thread_id.to_string(),
            assistant_id: facts.assistant_id.unwrap_or_else(|| agent.unwrap_or(LEAD).to_owned()),
            status: row.status.wire().to_owned(),
            metadata: facts.metadata,
            kwargs: Value::Object(facts.kwargs),
            multitask_strategy: facts.multitask_strategy.as_str().to_owned(),
            created_at: iso(row.created_at),
            updated_at: iso(row.updated_at),
            total_input_tokens: row.usage.input_tokens,
            total_output_tokens: row.usage.output_tokens,
            total_tokens: row.usage.total_tokens,
            llm_call_count: used.map_or(0, |used| used.by_model.values().map(|model| model.calls).sum()),
            lead_agent_tokens: callers.lead_agent,
            subagent_tokens: callers.subagent,
            middleware_tokens: callers.middleware,
            message_count: used.map_or(0, |used| used.message_count),
            stop_reason: row.stop_reason,
        }
    }
}
