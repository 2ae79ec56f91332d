//! Threads of the embedded client: their state, history and goal.

use super::DeerFlowClient;
use deerflow_core::{JsonMap, ThreadId};
use deerflow_service::{
    CheckpointChoice, Deleted, Goal, HistoryQuery, Refusal, State, StateWrite, Thread, ThreadSearch,
};
use serde_json::Value;

impl DeerFlowClient {
    /// Makes a thread; one that exists already is answered unchanged.
    ///
    /// # Errors
    /// Not found when the id is somebody else's.
    pub async fn create_thread(&self, id: Option<ThreadId>, metadata: JsonMap) -> Result<Thread, Refusal> {
        let id = id.unwrap_or_else(ThreadId::random);
        self.service.create_thread(self.user_id(), id, Some(metadata), false, Vec::new()).await
    }

    /// Threads, pinned ones first, then the most recently used. Of the state, `values` has the title only.
    ///
    /// # Errors
    /// For a filter that cannot be used.
    pub async fn threads(&self, search: ThreadSearch) -> Result<Vec<Thread>, Refusal> {
        self.service.search_threads(self.user_id(), search).await
    }

    /// A thread with its whole state.
    ///
    /// # Errors
    /// Not found.
    pub async fn thread(&self, id: &ThreadId) -> Result<Thread, Refusal> {
        self.service.thread(self.user_id(), id).await
    }

    /// Deletes a thread with its history, its runs and its files.
    ///
    /// # Errors
    /// Not found; a conflict while a run is live.
    pub async fn delete_thread(&self, id: &ThreadId) -> Result<Deleted, Refusal> {
        self.service.delete_thread(self.user_id(), id).await
    }

    /// The state of a thread now.
    ///
    /// # Errors
    /// Not found.
    pub async fn state(&self, id: &ThreadId) -> Result<State, Refusal> {
        self.state_at(id, &CheckpointChoice::default()).await
    }

    /// The state of a thread at a checkpoint.
    ///
    /// # Errors
    /// Not found: the thread, or the checkpoint.
    pub async fn state_at(&self, id: &ThreadId, checkpoint: &CheckpointChoice) -> Result<State, Refusal> {
        self.service.state(self.user_id(), id, checkpoint).await
    }

    /// The checkpoints of a thread as states, newest first, on all branches; empty for a thread that is not there. A list of
    /// one lacks what would choose a branch: `checkpoint`, `parent_checkpoint`, `tasks` and `interrupts`.
    ///
    /// # Errors
    /// Not found, when [`HistoryQuery::before`] is no checkpoint of it.
    pub async fn history(&self, id: &ThreadId, query: HistoryQuery) -> Result<Vec<Value>, Refusal> {
        self.service.history(self.user_id(), id, query).await
    }

    /// Writes to the state of a thread.
    ///
    /// # Errors
    /// Not found; a conflict while a run is live; for an unknown channel, or a value that does not fit.
    pub async fn update_state(&self, id: &ThreadId, write: StateWrite) -> Result<State, Refusal> {
        self.service.write_state(self.user_id(), id, write).await
    }

    /// The goal of a thread.
    ///
    /// # Errors
    /// Not found, for somebody else's thread.
    pub async fn goal(&self, id: &ThreadId) -> Result<Goal, Refusal> {
        self.service.goal(self.user_id(), id).await
    }

    /// Sets the goal of a thread: runs go on by themselves until it is reached, at most `max_continuations` times (8 or
    /// fewer).
    ///
    /// # Errors
    /// For an objective of no or too many characters; a conflict while a run is live.
    pub async fn set_goal(&self, id: &ThreadId, objective: &str, max_continuations: u32) -> Result<Goal, Refusal> {
        self.service.set_goal(self.user_id(), id, objective, max_continuations).await
    }

    /// Ends the goal of a thread.
    ///
    /// # Errors
    /// A conflict while a run is live.
    pub async fn clear_goal(&self, id: &ThreadId) -> Result<Goal, Refusal> {
        self.service.clear_goal(self.user_id(), id).await
    }
}
