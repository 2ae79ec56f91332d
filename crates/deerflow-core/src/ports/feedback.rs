//! What users think of answers.

use crate::{RunId, StoreError, ThreadId, UserId};
use async_trait::async_trait;

/// A judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rating {
    /// `1`
    Good,
    /// `-1`
    Bad,
}

impl Rating {
    /// The number on the wire: 1 or -1.
    #[must_use]
    pub fn as_number(self) -> i8 {
        match self {
            Self::Good => 1,
            Self::Bad => -1,
        }
    }
    /// The judgement of this number; 1 and -1 are the only ones.
    #[must_use]
    pub fn from_number(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Good),
            -1 => Some(Self::Bad),
            _ => None,
        }
    }
}

/// Feedback to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFeedback {
    /// The message it is about; the run as a whole when absent. At most 128 bytes.
    pub message_id: Option<String>,
    /// The judgement.
    pub rating: Rating,
    /// Words to it; at most 10 000 characters.
    pub comment: Option<String>,
}

/// Feedback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedbackRow {
    /// Its id. It stays when the user thinks again.
    pub feedback_id: String,
    /// The run.
    pub run_id: RunId,
    /// The thread of the run.
    pub thread_id: ThreadId,
    /// Who thinks so.
    pub user_id: UserId,
    /// The message it is about; the run as a whole when absent.
    pub message_id: Option<String>,
    /// The judgement.
    pub rating: Rating,
    /// Words to it.
    pub comment: Option<String>,
    /// When it was given last, in microseconds since 1970, UTC.
    pub created_at: i64,
}

/// Judgements of a run, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FeedbackStats {
    /// Good ones.
    pub positive: u64,
    /// Bad ones.
    pub negative: u64,
}

/// Feedback of users on runs of their own threads. It is deleted with its thread or run.
#[async_trait]
pub trait FeedbackRepo: Send + Sync {
    /// Stores what a user thinks of a run, or of a message of it, in place of what the user thought before.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the user has no such run in this thread; [`StoreError::BadInput`].
    async fn put_feedback(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        run_id: &RunId,
        feedback: NewFeedback,
    ) -> Result<FeedbackRow, StoreError>;

    /// What a user thinks about a thread, or about one run of it, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    async fn feedback(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        run_id: Option<&RunId>,
    ) -> Result<Vec<FeedbackRow>, StoreError>;

    /// Takes one back: by its id, or what was said of the run as a whole.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is none.
    async fn delete_feedback(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        run_id: &RunId,
        feedback_id: Option<&str>,
    ) -> Result<(), StoreError>;

    /// Counts the judgements of a run.
    ///
    /// # Errors
    /// When the database fails. An unknown run has none.
    async fn feedback_stats(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        run_id: &RunId,
    ) -> Result<FeedbackStats, StoreError>;
}
