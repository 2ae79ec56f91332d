//! Lists, shows, stops and deletes runs.

use crate::refusal::Refusal;
use crate::service::Service;
use crate::shapes::Run;
use deerflow_core::ports::{CancelAction, RunFilter, RunRepo as _, RunRow, UsageRepo as _};
use deerflow_core::{RunId, RunStatus, ThreadId, UserId};
use deerflow_runtime::CancelError;
use std::collections::BTreeMap;

/// Which runs.
#[derive(Debug, Clone)]
pub struct RunQuery {
    /// At most this many.
    pub limit: u32,
    /// After this many.
    pub offset: u32,
    /// `pending`, `running`, `success`, `error`, `timeout` or `interrupted`.
    pub status: Option<String>,
}

impl Default for RunQuery {
    fn default() -> Self {
        Self { limit: 100, offset: 0, status: None }
    }
}

impl Service {
    /// The runs of a thread, newest first.
    ///
    /// # Errors
    /// Not found, the thread.
    pub async fn runs_of(&self, user: &UserId, thread_id: &ThreadId, query: RunQuery) -> Result<Vec<Run>, Refusal> {
        self.own_thread(user, thread_id).await?;
        let status = match query.status.as_deref().map(statuses) {
            // A status that no run can have.
            Some(status) if status.is_empty() => return Ok(Vec::new()),
            status => status.unwrap_or_default(),
        };
        let filter = RunFilter { thread_id: Some(thread_id.clone()), status, limit: query.limit, offset: query.offset };
        let rows = self.store.runs(user, filter).await?;
        let ids: Vec<_> = rows.iter().map(|row| row.run_id.clone()).collect();
        let mut used = self.store.run_usage(user, &ids).await?;
        let runs = rows.into_iter().map(|row| {
            let used = used.remove(&row.run_id);
            Run::of(row, used.as_ref())
        });
        Ok(runs.collect())
    }

    /// A run.
    ///
    /// # Errors
    /// Not found.
    pub async fn run(&self, user: &UserId, thread_id: &ThreadId, run_id: &RunId) -> Result<Run, Refusal> {
        let row = self.own_run(user, thread_id, run_id).await?;
        let used: BTreeMap<_, _> = self.store.run_usage(user, std::slice::from_ref(run_id)).await?;
        Ok(Run::of(row, used.get(run_id)))
    }

    /// Deletes the row of a run; what it said and did stays part of the conversation.
    ///
    /// # Errors
    /// Not found; a conflict while it is live.
    pub async fn delete_run(&self, user: &UserId, thread_id: &ThreadId, run_id: &RunId) -> Result<(), Refusal> {
        self.own_run(user, thread_id, run_id).await?;
        Ok(self.store.delete_run(user, run_id).await?)
    }

    /// Stops a run that is the caller's; with `wait`, gives back when it has stopped.
    ///
    /// # Errors
    /// A conflict when it has ended by itself.
    pub async fn stop(&self, row: &RunRow, action: CancelAction, wait: bool) -> Result<(), Refusal> {
        match self.runs.cancel(&row.run_id, action, wait).await {
            Ok(_) => Ok(()),
            Err(CancelError::Store(error)) => Err(error.into()),
            Err(CancelError::NotFound(id)) => Err(Refusal::not_found(format!("Run {id} not found"))),
            Err(CancelError::Over { run_id, status }) => {
                Err(Refusal::conflict(format!("Run {run_id} is not cancellable (status: {})", status.wire())))
            }
        }
    }
}

/// The statuses that are shown under this name.
fn statuses(name: &str) -> Vec<RunStatus> {
    let all = [
        RunStatus::Queued,
        RunStatus::Pending,
        RunStatus::Running,
        RunStatus::Success,
        RunStatus::Error,
        RunStatus::Timeout,
        RunStatus::Interrupted,
        RunStatus::RolledBack,
    ];
    all.into_iter().filter(|status| status.wire() == name).collect()
}
