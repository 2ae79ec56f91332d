//! What a process does for its runs while they work: signs of life, requests of others, the queue, and the runs of the dead.

use super::live::Stop;
use super::{Inner, now};
use crate::RuntimeStore;
use deerflow_core::StoreError;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// How often requests to stop and the queue are looked at.
const TICK: Duration = Duration::from_millis(400);
/// Threads looked at together for a run whose turn it is.
pub(super) const CLAIMS: u32 = 1000;

/// Keeps until the service is closed and its last run has ended.
pub(super) async fn keep<S: RuntimeStore>(inner: Arc<Inner<S>>) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut renewed, mut looked) = (None::<Instant>, Instant::now());
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = inner.closing.cancelled(), if inner.live.is_empty() => return,
        }
        if inner.closing.is_cancelled() && inner.live.is_empty() {
            return;
        }
        let lease = inner.config.lease();
        let due = renewed.is_none_or(|at| at.elapsed() * 3 >= lease);
        match inner.look_after(due).await {
            Ok(()) if due => renewed = Some(Instant::now()),
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(%error, "runs could not be looked after");
                // Past the lease others may own our runs: writing on would be refused, acting on is worse.
                if renewed.is_some_and(|at| at.elapsed() >= lease) {
                    inner.live.all().iter().for_each(|live| live.stop(Stop::Lost));
                }
            }
        }
        if looked.elapsed() >= lease && !inner.closing.is_cancelled() {
            looked = Instant::now();
            if let Err(error) = inner.recover().await {
                tracing::warn!(%error, "runs of dead processes could not be taken up");
            }
        }
    }
}

impl<S: RuntimeStore> Inner<S> {
    async fn look_after(self: &Arc<Self>, renew: bool) -> Result<(), StoreError> {
        let store = &self.manager.store;
        let worker = self.manager.lock.worker();
        let here = self.live.all();
        if !here.is_empty() {
            let rows =
                if renew { store.renew(worker, self.lease_until()).await? } else { store.live(Some(worker)).await? };
            for live in here {
                match rows.iter().find(|row| row.run_id == live.run_id) {
                    Some(row) => {
                        if let Some(action) = row.cancel {
                            live.stop(Stop::Cancel(action));
                        }
                    }
                    None => self.check_lost(&live.run_id).await?,
                }
            }
            // A new run gets its lease at once: without one, nobody else can tell a dead owner from a living one.
            if !renew && rows.iter().any(|row| row.lease_until.is_none()) {
                store.renew(worker, self.lease_until()).await?;
            }
        }
        for thread_id in store.claimable(now(), CLAIMS).await? {
            self.pump(&thread_id).await?;
        }
        Ok(())
    }

    /// Stops a run here that another process has taken over, also when it is over there
    /// already. One that has just ended here is none.
    async fn check_lost(&self, run_id: &deerflow_core::RunId) -> Result<(), StoreError> {
        let row = self.manager.store.run(run_id).await?;
        let taken = row.is_some_and(|row| row.worker != *self.manager.lock.worker());
        if taken && let Some(live) = self.live.get(run_id) {
            tracing::warn!(%run_id, "another process has taken the run over");
            live.stop(Stop::Lost);
        }
        Ok(())
    }
}
