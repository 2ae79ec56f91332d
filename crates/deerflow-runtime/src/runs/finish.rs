//! The last write of a run that its agent did not make.

use super::Inner;
use super::execute::{Failure, written};
use super::live::{Live, Stop};
use super::log::End;
use super::request::StoredRun;
use crate::RuntimeStore;
use crate::edit::{EditError, rollback_owned};
use crate::journal_rows::JournalRows;
use crate::manager::RuntimeError;
use deerflow_core::ports::{CancelAction, Fence, NewJournalRow, RunOutcome, RunRow};
use deerflow_core::{RunStatus, StoreError, Usage};
use std::sync::Arc;

/// What is known about a run when its agent is done with it.
pub(super) struct Ending<'a> {
    pub(super) row: &'a RunRow,
    pub(super) fence: &'a Fence,
    pub(super) live: &'a Arc<Live>,
    pub(super) stored: &'a StoredRun,
    pub(super) usage: Usage,
    pub(super) stop_reason: Option<String>,
    /// What middlewares decided after the last step.
    pub(super) decisions: Vec<NewJournalRow>,
}

impl<S: RuntimeStore> Inner<S> {
    /// Writes how the run ended, unless that is written or somebody else's. `None` for a run that is left as it is.
    pub(super) async fn finish(
        &self,
        ending: &Ending<'_>,
        end: End,
        result: Result<RunOutcome, Failure>,
    ) -> Result<Option<RunOutcome>, RuntimeError> {
        if let Some(outcome) = written(&end) {
            return Ok(Some(outcome));
        }
        let stop = ending.live.reason();
        let action = match (stop, &result) {
            (Some(Stop::Lost), _) | (_, Err(Failure::Fenced)) => return Ok(None),
            (Some(Stop::HandOver), Err(Failure::Stopped)) => return Ok(None),
            (Some(Stop::Cancel(action)), _) => Some(action),
            _ => None,
        };
        if action == Some(CancelAction::Rollback) {
            return self.take_back(ending).await.map(Some);
        }
        let mut outcome = match (&end, &result) {
            (End::Withheld(outcome), _) | (_, Ok(outcome)) => outcome.clone(),
            (_, Err(Failure::Failed { text, .. })) => self.outcome(ending, RunStatus::Error, Some(text.clone())),
            (_, Err(_)) => self.outcome(ending, RunStatus::Interrupted, None),
        };
        // A failure on the way out of a cancelled run is none.
        let failed = result.as_ref().is_err_and(Failure::is_failed);
        if action == Some(CancelAction::Interrupt) && !(failed && outcome.error.is_some()) {
            outcome = self.outcome(ending, RunStatus::Interrupted, None);
        }
        let replay = ending.stored.facts.as_ref().is_some_and(super::RunFacts::is_edit_replay);
        if replay && outcome.status != RunStatus::Success {
            return self.take_back(ending).await.map(Some);
        }
        let class = match &result {
            Err(Failure::Failed { name, .. }) => Some(*name),
            _ => None,
        };
        self.write_end(ending, outcome, class).await.map(Some)
    }

    fn outcome(&self, ending: &Ending<'_>, status: RunStatus, error: Option<String>) -> RunOutcome {
        RunOutcome { status, error, stop_reason: ending.stop_reason.clone(), usage: ending.usage.clone() }
    }

    async fn take_back(&self, ending: &Ending<'_>) -> Result<RunOutcome, RuntimeError> {
        let store = self.manager.store.as_ref();
        match rollback_owned(store, ending.row, ending.fence, ending.usage.clone()).await {
            // A state that cannot be restored is kept, and the run is over all the same.
            Err(EditError::Store(error @ StoreError::Fenced { .. })) => Err(error.into()),
            Err(error) => {
                let text = format!("the run was stopped, and the state before it could not be restored: {error}");
                tracing::error!(run_id = %ending.row.run_id, %error, "a run was not taken back");
                let outcome = self.outcome(ending, RunStatus::Error, Some(text));
                self.write_end(ending, outcome, None).await
            }
            Ok(outcome) => Ok(outcome),
        }
    }

    pub(super) async fn write_end(
        &self,
        ending: &Ending<'_>,
        outcome: RunOutcome,
        class: Option<&str>,
    ) -> Result<RunOutcome, RuntimeError> {
        let mut rows = ending.decisions.clone();
        rows.extend(JournalRows::ended(&outcome, class));
        self.manager.store.finish(ending.fence, outcome.clone(), rows).await?;
        Ok(outcome)
    }
}
