//! Feedback on runs.

use super::Done;
use crate::error::Fault;
use crate::names::now;
use deerflow_core::ports::NewFeedback;
use deerflow_core::{RunId, StoreError, ThreadId, UserId};
use sqlx::SqliteConnection;

/// Longest id of a message, in bytes.
const MESSAGE_ID_BYTES: usize = 128;
/// Longest comment, in characters.
const COMMENT_CHARS: usize = 10_000;

/// The run that feedback is about, as its author sees it.
#[derive(Debug, Clone)]
pub(crate) struct JudgedRun {
    pub(crate) user_id: UserId,
    pub(crate) thread_id: ThreadId,
    pub(crate) run_id: RunId,
}

/// What is done to feedback.
#[derive(Debug)]
pub(crate) enum FeedbackOp {
    Put { run: JudgedRun, feedback: NewFeedback },
    Delete { run: JudgedRun, feedback_id: Option<String> },
}

impl FeedbackOp {
    pub(crate) fn put(run: JudgedRun, feedback: NewFeedback) -> Result<Self, StoreError> {
        let bad = |field, reason| Err(StoreError::BadInput { field, reason });
        if feedback.message_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > MESSAGE_ID_BYTES) {
            return bad("message_id", format!("must be 1 to {MESSAGE_ID_BYTES} bytes"));
        }
        if feedback.comment.as_ref().is_some_and(|comment| comment.chars().count() > COMMENT_CHARS) {
            return bad("comment", format!("must be at most {COMMENT_CHARS} characters"));
        }
        Ok(Self::Put { run, feedback })
    }
}

pub(super) async fn execute(conn: &mut SqliteConnection, op: &FeedbackOp) -> Result<Done, Fault> {
    match op {
        FeedbackOp::Put { run, feedback } => put(conn, run, feedback).await,
        FeedbackOp::Delete { run, feedback_id } => delete(conn, run, feedback_id.as_deref()).await,
    }
}

const PUT: &str = "
    INSERT INTO feedback (feedback_id, thread_key, run_id, user_id, message_id, rating, comment, created_at)
        SELECT $4, t.thread_key, r.run_id, $3, $5, $6, $7, $8
        FROM runs r JOIN threads t ON t.thread_key = r.thread_key
        WHERE r.run_id = $1 AND t.thread_id = $2 AND t.user_id = $3
        ON CONFLICT (thread_key, run_id, user_id, message_id)
            DO UPDATE SET rating = excluded.rating, comment = excluded.comment, created_at = excluded.created_at
        RETURNING feedback_id";

async fn put(conn: &mut SqliteConnection, run: &JudgedRun, feedback: &NewFeedback) -> Result<Done, Fault> {
    let id: Option<String> = sqlx::query_scalar(PUT)
        .bind(run.run_id.as_str().to_owned())
        .bind(run.thread_id.as_str().to_owned())
        .bind(run.user_id.as_str().to_owned())
        .bind(uuid::Uuid::new_v4().to_string())
        .bind(feedback.message_id.clone().unwrap_or_default())
        .bind(feedback.rating.as_number())
        .bind(feedback.comment.clone())
        .bind(now())
        .fetch_optional(conn)
        .await?;
    id.map(Done::Feedback).ok_or_else(|| StoreError::NotFound { what: "run", id: run.run_id.to_string() }.into())
}

const DELETE: &str = "
    DELETE FROM feedback WHERE run_id = $1 AND user_id = $3
        AND thread_key = (SELECT thread_key FROM threads WHERE thread_id = $2 AND user_id = $3)
        AND CASE WHEN $4 IS NULL THEN message_id = '' ELSE feedback_id = $4 END";

async fn delete(conn: &mut SqliteConnection, run: &JudgedRun, feedback_id: Option<&str>) -> Result<Done, Fault> {
    let gone = sqlx::query(DELETE)
        .bind(run.run_id.as_str().to_owned())
        .bind(run.thread_id.as_str().to_owned())
        .bind(run.user_id.as_str().to_owned())
        .bind(feedback_id.map(str::to_owned))
        .execute(conn)
        .await?;
    if gone.rows_affected() == 0 {
        let id = feedback_id.map_or_else(|| format!("of run {}", run.run_id), str::to_owned);
        return Err(StoreError::NotFound { what: "feedback", id }.into());
    }
    Ok(Done::Nothing)
}
