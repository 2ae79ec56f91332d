//! Makes threads, and shows them.

use super::settable;
use crate::refusal::Refusal;
use crate::service::Service;
use crate::shapes::Thread;
use deerflow_core::ports::{StepLog as _, ThreadRepo as _};
use deerflow_core::{JsonMap, Lineage, ThreadId, UserId};
use deerflow_runtime::StateEdit;
use serde_json::json;

impl Service {
    /// Makes a thread that begins with these writes. One of the user's that exists already is answered unchanged.
    ///
    /// # Errors
    /// Not found when the id is somebody else's; a conflict when it exists and that was to be an error; when a write does not
    /// fit: there is no thread then.
    pub async fn create_thread(
        &self,
        user: &UserId,
        id: ThreadId,
        metadata: Option<JsonMap>,
        must_be_new: bool,
        edits: Vec<StateEdit>,
    ) -> Result<Thread, Refusal> {
        let (row, is_new) = self.store.create_thread(user, &id, settable(metadata)).await?;
        if !is_new && must_be_new {
            return Err(Refusal::conflict(format!("Thread {id} already exists")));
        }
        if !is_new || edits.is_empty() {
            return Ok(Thread::with_values(row, json!({})));
        }
        for edit in edits {
            if let Err(error) = self.commit(user, &id, edit).await {
                self.store.delete_thread(user, &id).await?;
                return Err(error);
            }
        }
        let head = self.store.load(&Lineage::root(id.clone()), None).await?;
        let row = self.store.thread(user, &id).await?.unwrap_or(row);
        Ok(Thread::with_state(row, head.as_ref()))
    }

    /// A thread with its whole state.
    ///
    /// # Errors
    /// Not found.
    pub async fn thread(&self, user: &UserId, id: &ThreadId) -> Result<Thread, Refusal> {
        let row = self.own_thread(user, id).await?;
        let head = self.store.load(&Lineage::root(id.clone()), None).await?;
        Ok(Thread::with_state(row, head.as_ref()))
    }
}
