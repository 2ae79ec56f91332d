//! Runs whose process is gone.

use super::request::StoredRun;
use super::{Inner, OrphanPolicy, Runs, micros, now};
use crate::RuntimeStore;
use crate::edit::rollback_owned;
use crate::journal_rows::JournalRows;
use crate::manager::{RuntimeError, lifecycle};
use deerflow_core::ports::{CancelAction, Fence, LiveRun, NewRun, RunOutcome, RunRow};
use deerflow_core::{RunId, RunStatus, StoreError};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// `stop_reason` of a run that its process left and nobody went on with.
const ORPHAN: &str = "orphan_recovered";
/// A row of ours that is younger may be on its way from admission to execution.
const FRESH: Duration = Duration::from_secs(10);

impl<S: RuntimeStore> Runs<S> {
    /// Takes up what dead processes left, by the policy of the configuration; for a start. It is done again now and then.
    /// How many runs were taken up.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn recover(&self) -> Result<usize, StoreError> {
        self.0.recover().await
    }
}

impl<S: RuntimeStore> Inner<S> {
    pub(super) async fn recover(self: &Arc<Self>) -> Result<usize, StoreError> {
        let mut taken = 0;
        for run in self.manager.store.live(None).await? {
            match self.take_up(&run).await {
                Ok(true) => taken += 1,
                Ok(false) => {}
                // Another process was faster, or one run is broken: the others still count.
                Err(error) => tracing::warn!(run_id = %run.run_id, %error, "a run was not taken up"),
            }
        }
        Ok(taken)
    }

    /// Takes up one run if its process is gone.
    pub(super) async fn recover_run(self: &Arc<Self>, run_id: &RunId) -> Result<(), StoreError> {
        let Some(run) = self.manager.store.live(None).await?.into_iter().find(|run| run.run_id == *run_id) else {
            return Ok(());
        };
        match self.take_up(&run).await {
            Ok(_) | Err(RuntimeError::Store(StoreError::Fenced { .. })) => Ok(()),
            Err(RuntimeError::Store(error)) => Err(error),
            Err(error) => Err(StoreError::Database(error.to_string())),
        }
    }

    /// Clears a thread of a run that its process left behind, so that a new one can be admitted.
    pub(super) async fn settle_orphan(self: &Arc<Self>, new: &NewRun) -> Result<(), RuntimeError> {
        let Some(live) = self.manager.live_run(&new.user_id, &new.thread_id).await? else { return Ok(()) };
        if self.live.get(&live.run_id).is_some() {
            return Ok(());
        }
        if StoredRun::of(&live.options).is_ours() {
            return Ok(self.recover_run(&live.run_id).await?);
        }
        // The command line goes on with its own runs when it is told to.
        self.manager.close_dead_run(&new.user_id, &new.thread_id).await.map(drop)
    }

    async fn take_up(self: &Arc<Self>, run: &LiveRun) -> Result<bool, RuntimeError> {
        if self.closing.is_cancelled() || self.live.get(&run.run_id).is_some() {
            return Ok(false);
        }
        let store = &self.manager.store;
        let Some(row) = store.run(&run.run_id).await? else { return Ok(false) };
        let stored = StoredRun::of(&row.options);
        if !stored.is_ours() || !self.is_orphan(run, &row) {
            return Ok(false);
        }
        let row = store.adopt(&run.run_id, run.epoch, self.manager.lock.worker()).await?;
        let fence = Fence { run_id: row.run_id.clone(), epoch: row.epoch };
        tracing::info!(run_id = %row.run_id, left_by = run.worker.label, "run taken up");
        let worn_out = run.epoch > u64::from(self.config.max_takeovers);
        match run.cancel {
            Some(CancelAction::Rollback) => {
                let usage = row.usage.clone();
                rollback_owned(store.as_ref(), &row, &fence, usage).await?;
            }
            Some(CancelAction::Interrupt) => {
                self.close_orphan(&row, &fence, run, RunStatus::Interrupted, None).await?;
            }
            None if worn_out => {
                let text = format!("{} processes ended while they executed this run", run.epoch);
                self.close_orphan(&row, &fence, run, RunStatus::Error, Some(text)).await?;
            }
            None if self.config.orphan_policy == OrphanPolicy::Fail => {
                let text = format!("{} ended without finishing the run", run.worker.label);
                self.close_orphan(&row, &fence, run, RunStatus::Error, Some(text)).await?;
            }
            None => {
                self.begin(row, true);
                return Ok(true);
            }
        }
        self.bridge.open(&row.run_id, &row.thread_id).close();
        self.pump(&row.thread_id).await?;
        Ok(true)
    }

    async fn close_orphan(
        &self,
        row: &RunRow,
        fence: &Fence,
        run: &LiveRun,
        status: RunStatus,
        error: Option<String>,
    ) -> Result<(), RuntimeError> {
        let outcome = RunOutcome { status, error, stop_reason: Some(ORPHAN.to_owned()), usage: row.usage.clone() };
        let receipt = lifecycle("run.recovered", json!({"left_by": run.worker.label}));
        let mut rows = vec![receipt];
        rows.extend(JournalRows::ended(&outcome, None));
        Ok(self.manager.store.finish(fence, outcome, rows).await?)
    }

    /// Whether nobody can be at work on a run: its process is proved dead, or has given no sign of life for too long.
    fn is_orphan(&self, run: &LiveRun, row: &RunRow) -> bool {
        let lock = &self.manager.lock;
        let silent_since = |sign: i64, patience| now().saturating_sub(sign) > micros(patience);
        if run.worker == *lock.worker() {
            // Ours, and not executed here: its end could not be stored.
            return silent_since(row.updated_at, FRESH);
        }
        if lock.is_neighbour(&run.worker) && !lock.is_alive(&run.worker) {
            return true;
        }
        match run.lease_until {
            Some(until) => silent_since(until, self.config.grace()),
            // A living owner takes its lease at once.
            None => {
                !lock.is_neighbour(&run.worker)
                    && silent_since(row.updated_at, self.config.lease() + self.config.grace())
            }
        }
    }
}
