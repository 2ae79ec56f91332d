//! Journal rows as clients read them.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::wire::iso;
use deerflow_core::ports::{FeedbackRepo as _, FeedbackRow, JournalRow, RunFilter, RunRepo as _, RunRow};
use deerflow_core::{JsonMap, RunId, ThreadId};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use utoipa::ToSchema;

/// Runs of a thread that are looked through for what belongs to its messages.
const RUNS: u32 = 1000;

/// Something that happened.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EventRow {
    thread_id: String,
    run_id: String,
    user_id: String,
    /// `llm.ai.response`, `run.end` …
    #[schema(example = "llm.ai.response")]
    event_type: String,
    /// `message`, `trace`, `outputs` …
    #[schema(example = "message")]
    category: String,
    /// The message, or what the event says.
    #[schema(value_type = Object)]
    content: Value,
    /// Who caused it, what it used.
    #[schema(value_type = Object)]
    metadata: JsonMap,
    /// Order within the thread.
    pub(super) seq: u64,
    /// ISO 8601.
    created_at: String,
    /// What the user thinks of it: on the last answer of a run.
    #[schema(value_type = Option<Object>)]
    feedback: Option<Value>,
}

impl EventRow {
    pub(super) fn plain(caller: &Caller, thread_id: &ThreadId, row: JournalRow) -> Self {
        Self {
            thread_id: thread_id.to_string(),
            run_id: row.run_id.to_string(),
            user_id: caller.user_id.to_string(),
            event_type: row.row.event,
            category: row.row.category,
            content: row.row.content,
            metadata: row.row.metadata,
            seq: row.seq,
            created_at: iso(row.created_at),
            feedback: None,
        }
    }

    fn is_answer(&self) -> bool {
        self.content.get("type").and_then(Value::as_str) == Some("ai")
    }
}

/// What is shown beside the messages of a thread: how long its runs took, and what the user thinks of them.
pub(super) struct Dressing {
    caller: Caller,
    thread_id: ThreadId,
    pub(super) runs: HashMap<RunId, RunRow>,
    feedback: HashMap<RunId, FeedbackRow>,
}

impl Dressing {
    pub(super) async fn of(app: &AppState, caller: &Caller, thread_id: &ThreadId) -> Result<Self, ApiError> {
        let filter = RunFilter { thread_id: Some(thread_id.clone()), limit: RUNS, ..RunFilter::default() };
        let runs = app.store.runs(&caller.user_id, filter).await?;
        let feedback = app.store.feedback(&caller.user_id, thread_id, None).await?;
        Ok(Self {
            caller: caller.clone(),
            thread_id: thread_id.clone(),
            runs: runs.into_iter().map(|run| (run.run_id.clone(), run)).collect(),
            feedback: feedback.into_iter().map(|row| (row.run_id.clone(), row)).collect(),
        })
    }

    /// The rows, oldest first, with duration and feedback on the last answer of each run.
    pub(super) fn dress(&self, rows: Vec<JournalRow>) -> Vec<EventRow> {
        let ids: Vec<RunId> = rows.iter().map(|row| row.run_id.clone()).collect();
        let mut rows: Vec<EventRow> =
            rows.into_iter().map(|row| EventRow::plain(&self.caller, &self.thread_id, row)).collect();
        let mut seen = HashSet::new();
        for (row, run_id) in rows.iter_mut().zip(&ids).rev() {
            if !row.is_answer() || !seen.insert(run_id) {
                continue;
            }
            if let Some(run) = self.runs.get(run_id).filter(|run| run.status.is_terminal()) {
                let seconds = (run.updated_at - run.created_at) / 1_000_000;
                if let Some(Value::Object(kwargs)) = row.content.get_mut("additional_kwargs") {
                    kwargs.insert("turn_duration".to_owned(), json!(seconds));
                }
            }
            row.feedback = self.feedback.get(run_id).map(|given| {
                json!({
                    "feedback_id": given.feedback_id, "rating": given.rating.as_number(), "comment": given.comment
                })
            });
        }
        rows
    }
}
