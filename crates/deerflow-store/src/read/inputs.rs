//! Run inputs.

use crate::error::{Place, damaged};
use crate::names::{id, unsigned};
use deerflow_core::ports::{InputRow, InputState};
use deerflow_core::{RunId, StoreError, ThreadId, UserId};
use sqlx::{FromRow, SqliteConnection};

#[derive(FromRow)]
struct RawInput {
    run_input_id: String,
    thread_id: String,
    run_id: String,
    seq: i64,
    content: String,
    created_by: String,
    created_at: i64,
    state: String,
}

impl RawInput {
    fn read(self) -> Result<InputRow, StoreError> {
        let state = InputState::from_name(&self.state)
            .ok_or_else(|| StoreError::Damaged(format!("unknown state {:?} of an input", self.state)))?;
        Ok(InputRow {
            run_input_id: self.run_input_id,
            thread_id: id(self.thread_id)?,
            run_id: id(self.run_id)?,
            seq: unsigned(self.seq)?,
            content: serde_json::from_str(&self.content).map_err(|error| damaged("a stored input", error))?,
            created_by: id(self.created_by)?,
            created_at: self.created_at,
            state,
        })
    }
}

const OF_RUN: &str = "
    SELECT i.run_input_id, t.thread_id, i.run_id, i.seq, i.content, i.created_by, i.created_at, i.state
        FROM runs r JOIN threads t ON t.thread_key = r.thread_key
        JOIN run_inputs i ON i.thread_key = r.thread_key AND i.run_id = r.run_id AND i.state <> 'acknowledged'
        WHERE r.run_id = $1 AND i.state = 'queued' ORDER BY i.seq";
const RETURNED: &str = "
    SELECT i.run_input_id, t.thread_id, i.run_id, i.seq, i.content, i.created_by, i.created_at, i.state
        FROM threads t JOIN run_inputs i ON i.thread_key = t.thread_key AND i.state <> 'acknowledged'
        WHERE t.thread_id = $1 AND t.user_id = $2 AND i.state = 'returned' ORDER BY i.seq";
const ONE: &str = "
    SELECT i.run_input_id, t.thread_id, i.run_id, i.seq, i.content, i.created_by, i.created_at, i.state
        FROM threads t JOIN run_inputs i ON i.thread_key = t.thread_key
        WHERE t.thread_key = $1 AND i.run_input_id = $2";

/// What waits for a run, oldest first.
pub(crate) async fn queued(
    view: &mut SqliteConnection,
    place: &Place,
    run_id: &RunId,
) -> Result<Vec<InputRow>, StoreError> {
    let query = sqlx::query_as::<_, RawInput>(OF_RUN).bind(run_id.as_str().to_owned());
    let rows = query.fetch_all(view).await.map_err(|error| place.explain(&error))?;
    rows.into_iter().map(RawInput::read).collect()
}

/// What runs of a thread left behind, oldest first.
pub(crate) async fn returned(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    thread_id: &ThreadId,
) -> Result<Vec<InputRow>, StoreError> {
    let query =
        sqlx::query_as::<_, RawInput>(RETURNED).bind(thread_id.as_str().to_owned()).bind(user_id.as_str().to_owned());
    let rows = query.fetch_all(view).await.map_err(|error| place.explain(&error))?;
    rows.into_iter().map(RawInput::read).collect()
}

/// One input of a thread.
pub(crate) async fn input(
    view: &mut SqliteConnection,
    place: &Place,
    thread_key: i64,
    run_input_id: &str,
) -> Result<Option<InputRow>, StoreError> {
    let query = sqlx::query_as::<_, RawInput>(ONE).bind(thread_key).bind(run_input_id.to_owned());
    let row = query.fetch_optional(view).await.map_err(|error| place.explain(&error))?;
    row.map(RawInput::read).transpose()
}
