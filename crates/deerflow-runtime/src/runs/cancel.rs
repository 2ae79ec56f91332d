//! Stopping runs.

use super::live::Stop;
use super::{CancelError, Inner, Runs};
use crate::RuntimeStore;
use deerflow_core::ports::{CancelAction, ROLLED_BACK, RunRow};
use deerflow_core::{RunId, RunStatus, StoreError};
use std::sync::Arc;

/// What the row of a run says that was cancelled before its turn.
const WITHDRAWN: &str = "Cancelled before it began";

impl<S: RuntimeStore> Runs<S> {
    /// Stops a run, wherever it is executed: its model stream and its tools within a second or two. With `wait` the answer
    /// comes when everything about the run is written.
    ///
    /// Of several requests the first one counts. A run that is stopped already is stopped; a finished one is an error.
    ///
    /// # Errors
    /// [`CancelError`].
    pub async fn cancel(&self, run_id: &RunId, action: CancelAction, wait: bool) -> Result<RunRow, CancelError> {
        let store = &self.0.manager.store;
        let row = store.run(run_id).await?.ok_or_else(|| CancelError::NotFound(run_id.clone()))?;
        match row.status {
            RunStatus::Queued if store.withdraw(run_id, WITHDRAWN).await? => {
                return Ok(store.run(run_id).await?.unwrap_or(row));
            }
            // It began just now.
            RunStatus::Queued | RunStatus::Pending | RunStatus::Running => {}
            RunStatus::Interrupted => {
                return if wait { Ok(self.wait(run_id).await?) } else { Ok(row) };
            }
            RunStatus::Error if row.stop_reason.as_deref() == Some(ROLLED_BACK) => return Ok(row),
            status => return Err(CancelError::Over { run_id: run_id.clone(), status }),
        }
        if self.0.request_stop(run_id, action).await?.is_none() {
            // It ended meanwhile.
            let row = store.run(run_id).await?.ok_or_else(|| CancelError::NotFound(run_id.clone()))?;
            return match row.status {
                RunStatus::Interrupted => Ok(row),
                status => Err(CancelError::Over { run_id: run_id.clone(), status }),
            };
        }
        if wait {
            return Ok(self.wait(run_id).await?);
        }
        Ok(store.run(run_id).await?.unwrap_or(row))
    }
}

impl<S: RuntimeStore> Inner<S> {
    /// Asks a live run to stop: for everybody to see, then here. What stands; `None` when it is not live.
    pub(super) async fn request_stop(
        self: &Arc<Self>,
        run_id: &RunId,
        action: CancelAction,
    ) -> Result<Option<CancelAction>, StoreError> {
        let Some(action) = self.manager.store.request_cancel(run_id, action).await? else { return Ok(None) };
        match self.live.get(run_id) {
            Some(live) => live.stop(Stop::Cancel(action)),
            // Its owner looks for requests; an owner that is dead does not.
            None => self.recover_run(run_id).await?,
        }
        Ok(Some(action))
    }
}
