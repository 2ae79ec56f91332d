//! Feedback on runs.

use super::SqliteStore;
use crate::read;
use crate::write::{Done, FeedbackOp, JudgedRun, Op};
use async_trait::async_trait;
use deerflow_core::ports::{FeedbackRepo, FeedbackRow, FeedbackStats, NewFeedback};
use deerflow_core::{RunId, StoreError, ThreadId, UserId};

fn judged(user_id: &UserId, thread_id: &ThreadId, run_id: &RunId) -> JudgedRun {
    JudgedRun { user_id: user_id.clone(), thread_id: thread_id.clone(), run_id: run_id.clone() }
}

#[async_trait]
impl FeedbackRepo for SqliteStore {
    async fn put_feedback(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        run_id: &RunId,
        feedback: NewFeedback,
    ) -> Result<FeedbackRow, StoreError> {
        let op = FeedbackOp::put(judged(user_id, thread_id, run_id), feedback)?;
        let Done::Feedback(id) = self.write(Op::Feedback(Box::new(op))).await? else {
            return Err(StoreError::Database("no feedback was answered".to_owned()));
        };
        let rows = self.feedback(user_id, thread_id, Some(run_id)).await?;
        let row = rows.into_iter().find(|row| row.feedback_id == id);
        row.ok_or(StoreError::NotFound { what: "feedback", id })
    }

    async fn feedback(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        run_id: Option<&RunId>,
    ) -> Result<Vec<FeedbackRow>, StoreError> {
        let mut view = self.view().await?;
        read::feedback(&mut view, &self.place, user_id, thread_id, run_id).await
    }

    async fn delete_feedback(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        run_id: &RunId,
        feedback_id: Option<&str>,
    ) -> Result<(), StoreError> {
        let run = judged(user_id, thread_id, run_id);
        let op = FeedbackOp::Delete { run, feedback_id: feedback_id.map(str::to_owned) };
        self.write(Op::Feedback(Box::new(op))).await.map(drop)
    }

    async fn feedback_stats(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        run_id: &RunId,
    ) -> Result<FeedbackStats, StoreError> {
        let mut view = self.view().await?;
        read::feedback_stats(&mut view, &self.place, user_id, thread_id, run_id).await
    }
}
