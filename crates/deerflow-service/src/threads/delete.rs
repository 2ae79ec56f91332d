//! Deletes threads.

use crate::refusal::Refusal;
use crate::service::Service;
use deerflow_core::ports::ThreadRepo as _;
use deerflow_core::{StoreError, ThreadId, UserId};
use serde::Serialize;
use utoipa::ToSchema;

/// That something was done.
#[derive(Debug, Serialize, ToSchema)]
pub struct Deleted {
    /// Always true.
    pub success: bool,
    /// What was done.
    #[schema(example = "Deleted thread my-thread")]
    pub message: String,
}

impl Service {
    /// Deletes a thread of the user with its history, its runs and its files. Files that were uploaded for a thread which was
    /// never made are deleted too.
    ///
    /// The row goes first: that refuses, in one step, while a run is live, and no run can begin on the thread afterwards.
    /// Files that could not be removed go when the deletion is asked for again.
    ///
    /// # Errors
    /// Not found; a conflict while a run is live.
    pub async fn delete_thread(&self, user: &UserId, id: &ThreadId) -> Result<Deleted, Refusal> {
        let paths = self.paths(user, id)?;
        match self.store.delete_thread(user, id).await {
            Ok(()) => {}
            Err(StoreError::NotFound { .. }) if paths.thread_dir().exists() => {}
            Err(StoreError::ThreadBusy { .. }) => {
                return Err(Refusal::conflict("Thread has work in flight. Delete it after the work finishes."));
            }
            Err(error) => return Err(error.into()),
        }
        let removed = tokio::task::spawn_blocking(move || paths.remove_all()).await;
        match removed {
            Ok(Ok(())) => Ok(Deleted { success: true, message: format!("Deleted thread {id}") }),
            Ok(Err(error)) => Err(Refusal::internal(&error)),
            Err(error) => Err(Refusal::internal(&error)),
        }
    }
}
