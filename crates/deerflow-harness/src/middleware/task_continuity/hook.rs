//! Archives the originals of what is compacted away.

use super::super::summarization::{SHORTENED, SummarizationEvent, SummarizationHook};
use super::index::Index;
use async_trait::async_trait;
use deerflow_agent::RunContext;
use deerflow_core::message::kwargs;
use deerflow_core::ports::{ArchiveLimits, ArchiveRecord, ArchiveRole, HistoryArchive};
use deerflow_core::{AgentError, Message, StateUpdate, StoreError};
use serde_json::Value;
use std::sync::Arc;

pub(super) struct TaskArchiveHook {
    pub(super) archive: Arc<dyn HistoryArchive>,
    pub(super) limits: ArchiveLimits,
}

#[async_trait]
impl SummarizationHook for TaskArchiveHook {
    fn name(&self) -> &'static str {
        "task_continuity"
    }
    /// The thread is the parent's, and so is its history.
    fn skips_subagents(&self) -> bool {
        true
    }

    async fn before_summarization(
        &self,
        ctx: &RunContext,
        event: SummarizationEvent<'_>,
    ) -> Result<StateUpdate, AgentError> {
        let gone = event.messages_to_summarize.iter().chain(event.shortened);
        let records: Vec<ArchiveRecord> = gone.filter_map(|message| record(message)).collect();
        if records.is_empty() {
            return Ok(StateUpdate::none());
        }
        let mut index = Index::read(event.state.task_history.as_ref());
        match self.archive.archive(&ctx.user_id, &ctx.thread_id, records, self.limits).await {
            Ok(batch) => index.add(batch, self.limits.max_batches),
            // The archive works and does not take this: the conversation must not grow for ever because of it.
            Err(error @ (StoreError::NotFound { .. } | StoreError::BadInput { .. })) => {
                tracing::error!(thread_id = %ctx.thread_id, %error, "compacted messages were not archived");
                index.lost += 1;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(StateUpdate { task_history: Some(index.write()), ..StateUpdate::none() })
    }
}

/// What a person could see of a message.
fn record(message: &Message) -> Option<ArchiveRecord> {
    if message.flag(SHORTENED) {
        // Its original was archived when it was cut.
        return None;
    }
    let (role, text) = if message.is_human() {
        let written = message.additional_kwargs.get(kwargs::ORIGINAL_USER_CONTENT).and_then(Value::as_str);
        let text = written.map_or_else(|| message.text().into_owned(), str::to_owned);
        (ArchiveRole::User, message.is_genuine_user().then_some(text)?)
    } else if message.flag(kwargs::HIDE_FROM_UI) {
        return None;
    } else if message.as_ai().is_some() {
        (ArchiveRole::Assistant, message.text().into_owned())
    } else {
        message.as_tool()?;
        (ArchiveRole::Tool, message.text().into_owned())
    };
    (!text.trim().is_empty()).then_some(ArchiveRecord { role, text })
}
