//! What compaction takes out of a thread, kept to be searched and read.

use crate::{StoreError, ThreadId, UserId};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// Hits of one search at most.
pub const SEARCH_HITS: u32 = 8;
/// Characters of an excerpt at most.
pub const EXCERPT_CHARS: usize = 600;
/// Characters of a page at most.
pub const PAGE_CHARS: usize = 4000;

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArchiveRole {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

impl ArchiveRole {
    /// Stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
    /// Role of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::User, Self::Assistant, Self::Tool].into_iter().find(|role| role.as_str() == name)
    }
}

/// The visible text of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveRecord {
    /// Who said it.
    pub role: ArchiveRole,
    /// What was said.
    pub text: String,
}

/// How much of a thread is archived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Batches of a thread; the oldest goes when there are more.
    pub max_batches: u32,
    /// Records of a batch; the oldest are omitted, and counted.
    pub max_records_per_batch: u32,
    /// Characters of a record; the rest is cut off.
    pub max_record_chars: u32,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self { max_batches: 32, max_records_per_batch: 256, max_record_chars: 16_000 }
    }
}

/// A batch that is in the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedBatch {
    /// Its id, `b` and 32 hexadecimal digits.
    pub batch_id: String,
    /// Hash of its records, 64 hexadecimal digits.
    pub digest: String,
    /// Records kept.
    pub records: u64,
    /// Records left out for [`ArchiveLimits::max_records_per_batch`].
    pub omitted_records: u64,
}

/// A record that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveHit {
    /// Its id, `r` and 32 hexadecimal digits.
    pub source_id: String,
    /// Who said it.
    pub role: ArchiveRole,
    /// Text around the hit, at most [`EXCERPT_CHARS`] characters.
    pub excerpt: String,
    /// When it was archived, in microseconds since 1970, UTC.
    pub created_at: i64,
}

/// A part of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivePage {
    /// The record.
    pub source_id: String,
    /// Who said it.
    pub role: ArchiveRole,
    /// At most [`PAGE_CHARS`] characters from the offset on.
    pub text: String,
    /// Characters of the record.
    pub total_chars: u64,
    /// Where to read on, in characters; `None` at the end.
    pub next_offset: Option<u64>,
}

/// Archived history, per thread. It is deleted and forked with its thread.
#[async_trait]
pub trait HistoryArchive: Send + Sync {
    /// Archives records, oldest first. Blank ones are skipped. The same records of the same thread are one batch, however
    /// often they are given.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the user has no such thread.
    async fn archive(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        records: Vec<ArchiveRecord>,
        limits: ArchiveLimits,
    ) -> Result<ArchivedBatch, StoreError>;

    /// Records that contain every word of `query`, best first; those with some of the words when none has all. Any text is a
    /// valid query. Words of Chinese, Japanese and Korean are found within longer ones. At most `limit` hits, and never more
    /// than [`SEARCH_HITS`].
    ///
    /// # Errors
    /// When the database fails. An unknown thread has no hits.
    async fn search_archive(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        query: &str,
        role: Option<ArchiveRole>,
        limit: u32,
    ) -> Result<Vec<ArchiveHit>, StoreError>;

    /// A page of a record, from `offset` characters on. `None` when the thread has no such record.
    ///
    /// # Errors
    /// When the database fails.
    async fn read_archive(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        source_id: &str,
        offset: u64,
    ) -> Result<Option<ArchivePage>, StoreError>;
}
