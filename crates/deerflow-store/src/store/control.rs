//! Queue, leases and requests to stop.

use super::SqliteStore;
use crate::read;
use crate::write::{AdmitOp, Done, Op};
use async_trait::async_trait;
use deerflow_core::ports::{CancelAction, LiveRun, NewRun, RunControl, RunCounts, RunRepo as _, RunRow, Worker};
use deerflow_core::{RunId, StoreError, ThreadId};

#[async_trait]
impl RunControl for SqliteStore {
    async fn queue(&self, run: NewRun, not_before: i64) -> Result<RunRow, StoreError> {
        let run_id = run.run_id.clone();
        let op = AdmitOp::pack(run, self.options.mode.as_str())?.waiting(not_before);
        match self.write(Op::Admit(Box::new(op))).await? {
            Done::Admitted { .. } => self.run_of(Done::Run(run_id)).await,
            done => self.run_of(done).await,
        }
    }

    async fn claim(
        &self,
        thread_id: &ThreadId,
        worker: &Worker,
        lease_until: i64,
    ) -> Result<Option<RunRow>, StoreError> {
        let op = Op::Claim { thread_id: thread_id.clone(), worker: worker.clone(), lease_until };
        match self.write(op).await? {
            Done::Run(run_id) => self.run(&run_id).await,
            _ => Ok(None),
        }
    }

    async fn claimable(&self, now: i64, limit: u32) -> Result<Vec<ThreadId>, StoreError> {
        read::claimable(&mut *self.view().await?, &self.place, now, limit).await
    }

    async fn waiting(&self, thread_id: &ThreadId) -> Result<Vec<RunId>, StoreError> {
        read::waiting(&mut *self.view().await?, &self.place, thread_id).await
    }

    async fn withdraw(&self, run_id: &RunId, reason: &str) -> Result<bool, StoreError> {
        let op = Op::Withdraw { run_id: run_id.clone(), reason: reason.to_owned() };
        Ok(matches!(self.write(op).await?, Done::Changed(true)))
    }

    async fn renew(&self, worker: &Worker, lease_until: i64) -> Result<Vec<LiveRun>, StoreError> {
        match self.write(Op::Renew { worker: worker.clone(), lease_until }).await? {
            Done::Live(runs) => Ok(runs),
            _ => Err(StoreError::Database("no leases were answered".to_owned())),
        }
    }

    async fn request_cancel(&self, run_id: &RunId, action: CancelAction) -> Result<Option<CancelAction>, StoreError> {
        let op = Op::RequestCancel { run_id: run_id.clone(), action };
        match self.write(op).await? {
            Done::Changed(true) => read::requested(&mut *self.view().await?, &self.place, run_id).await,
            _ => Ok(None),
        }
    }

    async fn live(&self, worker: Option<&Worker>) -> Result<Vec<LiveRun>, StoreError> {
        read::live(&mut *self.view().await?, &self.place, worker).await
    }

    async fn record(&self, run_id: &RunId, counts: &RunCounts) -> Result<(), StoreError> {
        self.write(Op::Record { run_id: run_id.clone(), counts: Box::new(counts.clone()) }).await.map(drop)
    }
}
