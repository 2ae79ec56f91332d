//! The parts that answer.

use crate::refusal::Refusal;
use deerflow_config::Config;
use deerflow_core::ports::{RunFilter, RunRepo as _, RunRow, ThreadRepo as _, ThreadRow};
use deerflow_core::{RunId, RunStatus, ThreadId, UserId};
use deerflow_harness::Harness;
use deerflow_runtime::Runs;
use deerflow_sandbox::ThreadPaths;
use deerflow_store::SqliteStore;
use std::sync::Arc;

/// The database. It is used through the ports only, so that another one can stand here.
pub type Store = SqliteStore;

/// What can be asked of an installation. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    /// The configuration.
    pub config: Arc<Config>,
    /// The database.
    pub store: Arc<Store>,
    /// Agents.
    pub harness: Arc<Harness>,
    /// Their runs.
    pub runs: Runs<Store>,
}

impl Service {
    /// The user's thread.
    ///
    /// # Errors
    /// Not found, also for somebody else's; when the database fails.
    pub async fn own_thread(&self, user: &UserId, id: &ThreadId) -> Result<ThreadRow, Refusal> {
        self.store.thread(user, id).await?.ok_or_else(|| Refusal::no_thread(id))
    }

    /// Refuses a thread of somebody else; one that is not there is let pass, since files come before the thread is made.
    ///
    /// # Errors
    /// Not found, for somebody else's; when the database fails.
    pub async fn not_foreign(&self, user: &UserId, id: &ThreadId) -> Result<(), Refusal> {
        if self.store.is_foreign(user, id).await? { Err(Refusal::no_thread(id)) } else { Ok(()) }
    }

    /// Whether a run of the thread is live.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn is_busy(&self, user: &UserId, id: &ThreadId) -> Result<bool, Refusal> {
        let filter = RunFilter {
            thread_id: Some(id.clone()),
            status: vec![RunStatus::Pending, RunStatus::Running],
            ..RunFilter::default()
        };
        Ok(!self.store.runs(user, filter).await?.is_empty())
    }

    /// A run of the user's thread.
    ///
    /// # Errors
    /// Not found, also for somebody else's; when the database fails.
    pub async fn own_run(&self, user: &UserId, thread_id: &ThreadId, run_id: &RunId) -> Result<RunRow, Refusal> {
        self.own_thread(user, thread_id).await?;
        let row = self.store.run(run_id).await?;
        row.filter(|row| row.thread_id == *thread_id && row.user_id == *user)
            .ok_or_else(|| Refusal::not_found(format!("Run {run_id} not found")))
    }

    /// What is told of a file that is not there. Files may come before their thread does; where neither is, nothing tells it
    /// from somebody else's.
    pub async fn no_file(&self, user: &UserId, id: &ThreadId, detail: String) -> Refusal {
        match self.store.thread(user, id).await {
            Ok(Some(_)) => Refusal::not_found(detail),
            Ok(None) => Refusal::no_thread(id),
            Err(error) => error.into(),
        }
    }

    /// Folders of a thread.
    pub(crate) fn paths(&self, user: &UserId, id: &ThreadId) -> Result<ThreadPaths, Refusal> {
        ThreadPaths::new(self.config.home(), user.as_str(), id.as_str()).map_err(|error| Refusal::internal(&error))
    }
}
