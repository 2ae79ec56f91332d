//! Run inputs.

use super::SqliteStore;
use crate::read;
use crate::write::{Done, EnqueueOp, Op};
use async_trait::async_trait;
use deerflow_core::ports::{Fence, InputQueue, InputRow, InputState, NewInput};
use deerflow_core::{RunId, StoreError, ThreadId, UserId};

impl SqliteStore {
    async fn hand_over(&self, fence: &Fence, to: InputState) -> Result<Vec<String>, StoreError> {
        match self.write(Op::HandOver { fence: fence.clone(), to }).await? {
            Done::Inputs(ids) => Ok(ids),
            _ => Err(StoreError::Database("no inputs were answered".to_owned())),
        }
    }
}

#[async_trait]
impl InputQueue for SqliteStore {
    async fn enqueue(&self, user_id: &UserId, input: NewInput) -> Result<InputRow, StoreError> {
        let id = input.run_input_id.clone();
        let op = EnqueueOp::pack(user_id.clone(), input)?;
        let Done::Thread(thread_key) = self.write(Op::Enqueue(Box::new(op))).await? else {
            return Err(StoreError::Database("no thread was answered".to_owned()));
        };
        let mut view = self.view().await?;
        let row = read::input(&mut view, &self.place, thread_key, &id).await?;
        row.ok_or(StoreError::NotFound { what: "input", id })
    }

    async fn queued(&self, run_id: &RunId) -> Result<Vec<InputRow>, StoreError> {
        let mut view = self.view().await?;
        read::queued(&mut view, &self.place, run_id).await
    }

    async fn returned(&self, user_id: &UserId, thread_id: &ThreadId) -> Result<Vec<InputRow>, StoreError> {
        let mut view = self.view().await?;
        read::returned(&mut view, &self.place, user_id, thread_id).await
    }

    async fn take_returned(&self, fence: &Fence) -> Result<Vec<InputRow>, StoreError> {
        let taken = self.hand_over(fence, InputState::Queued).await?;
        let mut rows = if taken.is_empty() { Vec::new() } else { self.queued(&fence.run_id).await? };
        rows.retain(|row| taken.contains(&row.run_input_id));
        Ok(rows)
    }

    async fn release(&self, fence: &Fence) -> Result<u64, StoreError> {
        Ok(self.hand_over(fence, InputState::Returned).await?.len() as u64)
    }
}
