//! Compaction of a thread on request, outside a run.

use super::{ContextSize, DeerFlowSummarizationMiddleware, Reason, SummaryGenerationError};
use deerflow_agent::RunContext;
use deerflow_core::{AgentError, StateUpdate, ThreadState, Usage};

/// How a thread is to be compacted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompactOptions {
    /// Compact although no trigger asks for it.
    pub force: bool,
    /// Keep this much instead of what is configured.
    pub keep: Option<ContextSize>,
}

impl Default for CompactOptions {
    fn default() -> Self {
        Self { force: true, keep: None }
    }
}

/// What a compaction came to.
#[derive(Debug, Clone)]
pub struct Compaction {
    /// The one write that does it.
    pub update: StateUpdate,
    /// Messages that went.
    pub removed_messages: usize,
    /// Messages that stay.
    pub preserved_messages: usize,
    /// Estimated tokens of the conversation before, its summary included.
    pub tokens_before: u64,
    /// Estimated tokens after.
    pub tokens_after: u64,
    /// What the summary cost.
    pub usage: Usage,
}

/// A thread was not compacted; nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// There is nothing old enough: everything would be kept.
    #[error("there is nothing to compact: the conversation is no longer than what is kept of it")]
    NothingToCompact,
    /// No model wrote a summary.
    #[error(transparent)]
    Summary(#[from] SummaryGenerationError),
    /// It was cancelled, or storage failed.
    #[error(transparent)]
    Run(AgentError),
}

/// Compacts a thread's state as the middleware would. The caller applies and commits
/// [`Compaction::update`]; until then nothing has changed, except that hooks were told.
///
/// Works with `summarization.enabled: false` too: whoever asks wants it. `ctx` names the thread; its run id is nobody's.
///
/// # Errors
/// [`CompactError`].
pub async fn compact(
    middleware: &DeerFlowSummarizationMiddleware,
    ctx: &RunContext,
    state: &ThreadState,
    options: CompactOptions,
) -> Result<Compaction, CompactError> {
    let mut state = state.clone();
    for message in state.messages.iter_mut().filter(|m| m.id.is_none()) {
        std::sync::Arc::make_mut(message).ensure_id();
    }
    let keep = options.keep.unwrap_or(middleware.config.keep);
    let due = middleware.due(&state);
    if due.is_none() && !options.force {
        return Err(CompactError::NothingToCompact);
    }
    let plan = middleware.plan(&state, keep, due.unwrap_or(None)).ok_or(CompactError::NothingToCompact)?;
    middleware.carry_out(ctx, &state, plan, Reason::Manual).await
}
