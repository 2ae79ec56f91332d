//! Feedback on runs.

use crate::error::Place;
use crate::names::{id, unsigned};
use deerflow_core::ports::{FeedbackRow, FeedbackStats, Rating};
use deerflow_core::{RunId, StoreError, ThreadId, UserId};
use sqlx::{FromRow, Row as _, SqliteConnection};

#[derive(FromRow)]
struct RawFeedback {
    feedback_id: String,
    run_id: String,
    thread_id: String,
    user_id: String,
    message_id: String,
    rating: i64,
    comment: Option<String>,
    created_at: i64,
}

impl RawFeedback {
    fn read(self) -> Result<FeedbackRow, StoreError> {
        let rating = Rating::from_number(self.rating);
        Ok(FeedbackRow {
            feedback_id: self.feedback_id,
            run_id: id(self.run_id)?,
            thread_id: id(self.thread_id)?,
            user_id: id(self.user_id)?,
            message_id: Some(self.message_id).filter(|id| !id.is_empty()),
            rating: rating.ok_or_else(|| StoreError::Damaged(format!("unknown rating {}", self.rating)))?,
            comment: self.comment,
            created_at: self.created_at,
        })
    }
}

const MANY: &str = "
    SELECT f.feedback_id, f.run_id, t.thread_id, f.user_id, f.message_id, f.rating, f.comment, f.created_at
        FROM threads t JOIN feedback f ON f.thread_key = t.thread_key
        WHERE t.thread_id = $1 AND t.user_id = $2 AND f.user_id = $2 AND ($3 IS NULL OR f.run_id = $3)
        ORDER BY f.created_at, f.feedback_id";
const STATS: &str = "
    SELECT count(*) FILTER (WHERE f.rating > 0), count(*) FILTER (WHERE f.rating < 0)
        FROM threads t JOIN feedback f ON f.thread_key = t.thread_key AND f.run_id = $3
        WHERE t.thread_id = $1 AND t.user_id = $2";

pub(crate) async fn feedback(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    thread_id: &ThreadId,
    run_id: Option<&RunId>,
) -> Result<Vec<FeedbackRow>, StoreError> {
    let query = sqlx::query_as::<_, RawFeedback>(MANY)
        .bind(thread_id.as_str().to_owned())
        .bind(user_id.as_str().to_owned())
        .bind(run_id.map(|run_id| run_id.as_str().to_owned()));
    let rows = query.fetch_all(view).await.map_err(|error| place.explain(&error))?;
    rows.into_iter().map(RawFeedback::read).collect()
}

pub(crate) async fn feedback_stats(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    thread_id: &ThreadId,
    run_id: &RunId,
) -> Result<FeedbackStats, StoreError> {
    let explain = |error: sqlx::Error| place.explain(&error);
    let row = sqlx::query(STATS)
        .bind(thread_id.as_str().to_owned())
        .bind(user_id.as_str().to_owned())
        .bind(run_id.as_str().to_owned())
        .fetch_one(view)
        .await
        .map_err(explain)?;
    let count = |column: usize| unsigned(row.try_get::<i64, _>(column).map_err(explain)?);
    Ok(FeedbackStats { positive: count(0)?, negative: count(1)? })
}
