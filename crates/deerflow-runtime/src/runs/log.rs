//! The step log of a run of this service: counts what is written, and decides with the last step how the run ended.

use super::delivery::Delivery;
use super::live::{Live, Stop};
use async_trait::async_trait;
use deerflow_agent::RunContext;
use deerflow_core::ports::{
    Checkpoint, Committed, HistoryEntry, NewJournalRow, RunCounts, RunOutcome, StepCommit, StepKind, StepLog,
};
use deerflow_core::{CheckpointId, Lineage, RunStatus, StoreError};
use std::sync::{Arc, Mutex, PoisonError};

/// How far the end of a run is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    /// Nothing about it is written.
    Open,
    /// It is written.
    Written(RunOutcome),
    /// The last step is written, the end is left to the worker.
    Withheld(RunOutcome),
}

pub(crate) struct OwnedLog {
    inner: Arc<dyn StepLog>,
    live: Arc<Live>,
    delivery: Delivery,
    /// Whether the run may end only by success: otherwise the worker takes it back.
    all_or_nothing: bool,
    counts: Mutex<RunCounts>,
    end: Mutex<End>,
}

impl OwnedLog {
    pub(crate) fn new(
        inner: Arc<dyn StepLog>,
        live: Arc<Live>,
        delivery: Delivery,
        all_or_nothing: bool,
        counts: RunCounts,
    ) -> Self {
        Self { inner, live, delivery, all_or_nothing, counts: Mutex::new(counts), end: Mutex::new(End::Open) }
    }

    pub(crate) fn end(&self) -> End {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Names the model whose turns are counted.
    pub(crate) fn set_model(&self, model: &str) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).model_name = Some(model.to_owned());
    }

    /// Counters so far, with what the context knows of calls outside the conversation.
    pub(crate) fn counts(&self, ctx: &RunContext) -> RunCounts {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (calls, usage) = ctx.side_calls();
        counts.llm_call_count += calls;
        counts.middleware_tokens += usage.total_tokens;
        counts
    }

    fn count(&self, commit: &StepCommit) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for update in &commit.updates {
            for message in update.update.messages.iter().filter(|message| message.role() != "remove") {
                counts.message_count += 1;
                let Some(part) = message.as_ai().filter(|_| update.node == "model") else { continue };
                counts.llm_call_count += 1;
                let Some(usage) = &part.usage_metadata else { continue };
                counts.lead_agent_tokens += usage.total_tokens;
                if let Some(model) = counts.model_name.clone() {
                    counts.token_usage_by_model.entry(model).or_default().add(usage);
                }
            }
        }
        if let Some(answer) = commit.state.last_ai() {
            counts.last_ai_message = Some(super::excerpt::beginning(&answer.text()));
        }
    }
}

#[async_trait]
impl StepLog for OwnedLog {
    async fn commit(&self, mut commit: StepCommit) -> Result<Committed, StoreError> {
        let mut withheld = None;
        self.delivery.note(&commit);
        if commit.outcome.as_ref().is_some_and(|outcome| outcome.status == RunStatus::Success) {
            let verdict = self.delivery.verdict().await;
            if let Some(outcome) = commit.outcome.as_mut()
                && let Some(problem) = verdict.problem
            {
                outcome.status = RunStatus::Error;
                outcome.error = Some(problem);
            }
            commit.events.push(NewJournalRow::new("outputs", "run.delivery", verdict.receipt));
        }
        if let Some(outcome) = &commit.outcome {
            // A request to stop that came first is carried out, and a replay that failed is taken back: by the worker.
            let stopped = matches!(self.live.reason(), Some(Stop::Cancel(_)));
            let failed = self.all_or_nothing && outcome.status != RunStatus::Success;
            if stopped || failed {
                withheld = commit.outcome.take();
            }
        }
        if commit.kind != StepKind::Effects {
            self.count(&commit);
        }
        let written = commit.outcome.clone();
        let committed = self.inner.commit(commit).await?;
        if let Some(end) = written.map(End::Written).or(withheld.map(End::Withheld)) {
            *self.end.lock().unwrap_or_else(PoisonError::into_inner) = end;
        }
        Ok(committed)
    }

    async fn load(&self, lineage: &Lineage, at: Option<&CheckpointId>) -> Result<Option<Checkpoint>, StoreError> {
        self.inner.load(lineage, at).await
    }

    async fn history(
        &self,
        lineage: &Lineage,
        before: Option<&CheckpointId>,
        limit: u32,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        self.inner.history(lineage, before, limit).await
    }
}
