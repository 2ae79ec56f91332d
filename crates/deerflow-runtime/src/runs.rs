//! Runs as a service: what a server and an embedded client hold.
//!
//! [`Runs`] admits runs, executes them in tasks of its own, tells their events to the [`Bridge`], and keeps its promises across
//! processes: one live run per thread, a queue that survives restarts, leases, requests to stop, and runs of dead processes
//! that go on from their last step.
//!
//! **Invariant:** a run's row leaves its live states with the last write of the run. Until then no other run of the thread
//! begins.

mod cancel;
mod config;
mod create;
mod delivery;
mod error;
mod excerpt;
mod execute;
mod finish;
mod keeper;
mod live;
mod log;
mod readers;
mod recover;
mod request;
mod webhook;

pub use config::{OrphanPolicy, RunsConfig};
pub use error::{CancelError, CreateError};
pub use readers::ReaderGuard;
pub use request::{Caller, Command, CreateRun, MultitaskStrategy, OnDisconnect, RunFacts, RunInput};

use crate::bridge::Bridge;
use crate::{RunManager, RuntimeStore, WorkerLock};
use deerflow_core::ports::RunRow;
use deerflow_core::{RunId, StoreError};
use deerflow_harness::Harness;
use deerflow_net::reqwest::Client;
use live::{LiveRuns, Stop};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How often a run of another process, or one that waits, is looked at by those who wait for its end.
const POLL: Duration = Duration::from_millis(100);
/// How long runs may take to stop once they were told to at a shutdown.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Creates, executes, cancels and recovers runs. Cheap to clone.
pub struct Runs<S>(Arc<Inner<S>>);

impl<S> Clone for Runs<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Inner<S> {
    manager: RunManager<S>,
    bridge: Bridge,
    config: RunsConfig,
    live: LiveRuns,
    tasks: TaskTracker,
    closing: CancellationToken,
    /// Client of webhooks, made when the first one is called.
    webhooks: OnceCell<Client>,
}

impl<S: RuntimeStore> Runs<S> {
    /// A service over a store and a harness; `lock` says who we are. Its keeper (leases, queue, requests of other processes)
    /// starts with it: call it within a runtime, and [`Self::shutdown`] at the end.
    pub fn new(store: Arc<S>, harness: Arc<Harness>, bridge: Bridge, lock: WorkerLock, config: RunsConfig) -> Self {
        let inner = Arc::new(Inner {
            manager: RunManager::new(store, harness, lock),
            bridge,
            config,
            live: LiveRuns::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            webhooks: OnceCell::new(),
        });
        inner.tasks.spawn(keeper::keep(inner.clone()));
        Self(inner)
    }

    /// Steering, compaction, and what else needs no run of its own.
    #[must_use]
    pub fn manager(&self) -> &RunManager<S> {
        &self.0.manager
    }
    /// Where events go.
    #[must_use]
    pub fn bridge(&self) -> &Bridge {
        &self.0.bridge
    }

    /// Waits for the end of a run, wherever it is executed. Unbounded: the caller sets the limit.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; when the database fails.
    ///
    /// # Cancel safety
    /// Nothing happens to the run when nobody waits any more.
    pub async fn wait(&self, run_id: &RunId) -> Result<RunRow, StoreError> {
        loop {
            if let Some(live) = self.0.live.get(run_id) {
                live.ended.cancelled().await;
            }
            let row = self.0.manager.store.run(run_id).await?;
            let row = row.ok_or_else(|| StoreError::NotFound { what: "run", id: run_id.to_string() })?;
            if row.status.is_terminal() && self.0.live.get(run_id).is_none() {
                return Ok(row);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Ends the service: no new runs; those under way may finish within `grace`, then they are stopped so that the next
    /// process goes on with them from their last step.
    pub async fn shutdown(&self, grace: Duration) {
        let inner = &self.0;
        inner.closing.cancel();
        inner.tasks.close();
        if tokio::time::timeout(grace, inner.tasks.wait()).await.is_ok() {
            return;
        }
        for live in inner.live.all() {
            live.stop(Stop::HandOver);
        }
        if tokio::time::timeout(STOP_GRACE, inner.tasks.wait()).await.is_err() {
            tracing::warn!("some runs did not stop in time; they are taken up when the process is gone");
        }
    }
}

impl<S: RuntimeStore> Inner<S> {
    /// The end of a lease that begins now.
    fn lease_until(&self) -> i64 {
        now().saturating_add(micros(self.config.lease()))
    }
}

/// Microseconds since 1970, UTC.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, micros)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
