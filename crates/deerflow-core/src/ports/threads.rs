//! Thread rows.

use crate::{JsonMap, StoreError, ThreadId, UserId};
use async_trait::async_trait;

/// A thread.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadRow {
    /// Its id.
    pub thread_id: ThreadId,
    /// Owner.
    pub user_id: UserId,
    /// Name of the conversation, mirrored from the state.
    pub title: Option<String>,
    /// Client's metadata.
    pub metadata: JsonMap,
    /// Status of its last run: `idle`, `busy`, `error` or `interrupted`.
    pub status: String,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
    /// Microseconds since 1970, UTC.
    pub updated_at: i64,
}

/// Thread rows. Every query takes the user: one user never sees another's.
#[async_trait]
pub trait ThreadRepo: Send + Sync {
    /// One thread of a user.
    ///
    /// # Errors
    /// When the database fails.
    async fn thread(&self, user_id: &UserId, thread_id: &ThreadId) -> Result<Option<ThreadRow>, StoreError>;

    /// Threads of a user, most recently used first.
    ///
    /// # Errors
    /// When the database fails.
    async fn threads(&self, user_id: &UserId, limit: u32, offset: u32) -> Result<Vec<ThreadRow>, StoreError>;

    /// Deletes a thread with its history, runs and journal; unreferenced content goes too.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::ThreadBusy`] when a run is live.
    async fn delete_thread(&self, user_id: &UserId, thread_id: &ThreadId) -> Result<(), StoreError>;
}
