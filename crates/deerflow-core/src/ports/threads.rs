//! Thread rows.

use crate::{CheckpointId, JsonMap, StoreError, ThreadId, UserId};
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

/// What to change of a thread's row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThreadPatch {
    /// Merged into the metadata key by key; `null` deletes a key. Nested values are replaced whole.
    pub metadata: JsonMap,
    /// A new name; `Some(None)` takes it away. The next step that is committed puts the state's title here again.
    pub title: Option<Option<String>>,
    /// Keeps `updated_at` as it is, so that the thread stays where it is in lists.
    pub quiet: bool,
}

/// By which column threads are sorted. The id decides between equals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ThreadSort {
    /// Last use.
    #[default]
    UpdatedAt,
    /// Creation.
    CreatedAt,
    /// Id.
    ThreadId,
}

/// Which threads of a user are meant. All conditions hold together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThreadFilter {
    /// Keys the metadata must have with these values; it may have more. Numbers are equal by value, `null` means that the
    /// key is absent or `null`, and a nested value is equal when its keys stand in the same order too.
    pub metadata: JsonMap,
    /// One of these statuses; any when empty.
    pub status: Vec<String>,
    /// One of these ids; any when absent.
    pub ids: Option<Vec<ThreadId>>,
}

/// A page of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadQuery {
    /// Which ones.
    pub filter: ThreadFilter,
    /// Threads whose metadata has `true` under this key come before all others.
    pub pinned_by: Option<String>,
    /// Order.
    pub sort: ThreadSort,
    /// Smallest first.
    pub ascending: bool,
    /// At most this many.
    pub limit: u32,
    /// Skips this many.
    pub offset: u32,
}

impl Default for ThreadQuery {
    fn default() -> Self {
        Self {
            filter: ThreadFilter::default(),
            pinned_by: None,
            sort: ThreadSort::default(),
            ascending: false,
            limit: 100,
            offset: 0,
        }
    }
}

/// A thread to be made from another.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadFork {
    /// The thread to copy.
    pub from: ThreadId,
    /// Its last checkpoint to copy; the head when absent.
    pub at: Option<CheckpointId>,
    /// Id of the new thread.
    pub new_thread_id: ThreadId,
    /// Metadata of the new thread. [`FORKED_FROM_THREAD`] and [`FORKED_FROM_CHECKPOINT`] are added.
    pub metadata: JsonMap,
}

/// Metadata key that names the thread a fork was made from.
pub const FORKED_FROM_THREAD: &str = "branch_parent_thread_id";
/// Metadata key that names the checkpoint a fork was made at.
pub const FORKED_FROM_CHECKPOINT: &str = "branch_parent_checkpoint_id";

/// Thread rows. Every query takes the user: one user never sees another's.
#[async_trait]
pub trait ThreadRepo: Send + Sync {
    /// One thread of a user.
    ///
    /// # Errors
    /// When the database fails.
    async fn thread(&self, user_id: &UserId, thread_id: &ThreadId) -> Result<Option<ThreadRow>, StoreError>;

    /// Whether a thread of this id is there and belongs to another user: its id must not be used, and nothing be told of it.
    ///
    /// # Errors
    /// When the database fails.
    async fn is_foreign(&self, user_id: &UserId, thread_id: &ThreadId) -> Result<bool, StoreError>;

    /// Threads of a user, most recently used first.
    ///
    /// # Errors
    /// When the database fails.
    async fn threads(&self, user_id: &UserId, limit: u32, offset: u32) -> Result<Vec<ThreadRow>, StoreError>;

    /// Makes a thread without history, or answers with the user's own thread of this id as it is. The flag says whether it
    /// is new.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the id is another user's.
    async fn create_thread(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        metadata: JsonMap,
    ) -> Result<(ThreadRow, bool), StoreError>;

    /// Changes metadata or title of a thread.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn patch_thread(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        patch: ThreadPatch,
    ) -> Result<ThreadRow, StoreError>;

    /// A page of a user's threads.
    ///
    /// # Errors
    /// When the database fails.
    async fn search_threads(&self, user_id: &UserId, query: ThreadQuery) -> Result<Vec<ThreadRow>, StoreError>;

    /// How many threads of a user there are.
    ///
    /// # Errors
    /// When the database fails.
    async fn count_threads(&self, user_id: &UserId, filter: ThreadFilter) -> Result<u64, StoreError>;

    /// Makes a thread whose own history is that of another up to a checkpoint: same checkpoints, same ids, same states.
    /// Histories of sub-agents, runs and journal stay with the original. Nothing that can change is shared. Costs what is
    /// copied.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] for thread or checkpoint; [`StoreError::Exists`] when the new id is taken.
    async fn fork_thread(&self, user_id: &UserId, fork: ThreadFork) -> Result<ThreadRow, StoreError>;

    /// Deletes a thread with its history, runs and journal; unreferenced content goes too.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::ThreadBusy`] when a run is live.
    async fn delete_thread(&self, user_id: &UserId, thread_id: &ThreadId) -> Result<(), StoreError>;
}
