//! The state of a thread.

use crate::refusal::Refusal;
use crate::service::Service;
use crate::shapes::{CheckpointChoice, State};
use deerflow_core::ports::{Checkpoint, StepLog as _};
use deerflow_core::{Lineage, ThreadId, UserId};

impl Service {
    /// The state of a thread at a checkpoint. A thread that has run nothing yet has an empty one.
    ///
    /// # Errors
    /// Not found, the thread or the checkpoint.
    pub async fn state(&self, user: &UserId, id: &ThreadId, choice: &CheckpointChoice) -> Result<State, Refusal> {
        self.own_thread(user, id).await?;
        let checkpoint = self.checkpoint(id, choice).await?;
        Ok(State::new(id, &choice.namespace, checkpoint.as_ref()))
    }

    /// The checkpoint that a client chose; none for the state before the first step.
    ///
    /// The thread must be the caller's: that is not looked at here.
    pub(super) async fn checkpoint(
        &self,
        id: &ThreadId,
        choice: &CheckpointChoice,
    ) -> Result<Option<Checkpoint>, Refusal> {
        if choice.is_before_first() {
            return Ok(None);
        }
        let lineage = Lineage { thread_id: id.clone(), namespace: choice.namespace.clone() };
        Ok(self.store.load(&lineage, choice.id.as_ref()).await?)
    }
}
