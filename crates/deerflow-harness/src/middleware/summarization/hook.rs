//! Who wants to see a stretch of conversation before it goes.

use async_trait::async_trait;
use deerflow_agent::RunContext;
use deerflow_core::{AgentError, Message, StateUpdate, ThreadState};
use std::sync::Arc;

/// A compaction whose summary is there and that is about to happen.
#[derive(Debug, Clone, Copy)]
pub struct SummarizationEvent<'a> {
    /// Messages that go.
    pub messages_to_summarize: &'a [Arc<Message>],
    /// Messages that stay.
    pub preserved_messages: &'a [Arc<Message>],
    /// Tool results among those that stay, as they were before they were cut to make room.
    pub shortened: &'a [Arc<Message>],
    /// The summary they are replaced by.
    pub summary: &'a str,
    /// Name of the agent.
    pub agent_name: &'a str,
    /// The state before.
    pub state: &'a ThreadState,
}

/// Sees what goes. Called once the summary is there, in the order the hooks were added.
#[async_trait]
pub trait SummarizationHook: Send + Sync {
    /// Name for the log.
    fn name(&self) -> &'static str;

    /// Whether it wants nothing of sub-agents, whose threads belong to their parents.
    fn skips_subagents(&self) -> bool {
        false
    }

    /// What it returns becomes part of the compaction's own write: `task_history` and private slots; other channels are not
    /// its business. It may be called again for the same messages, when a run is resumed before the write was durable.
    ///
    /// # Errors
    /// A cancellation and a storage failure end the run; anything else is logged, and the compaction goes on.
    async fn before_summarization(
        &self,
        ctx: &RunContext,
        event: SummarizationEvent<'_>,
    ) -> Result<StateUpdate, AgentError>;
}
