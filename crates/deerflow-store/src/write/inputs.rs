//! The queue of run inputs.

use super::Done;
use super::finish::fence_thread;
use crate::error::{Fault, damaged};
use crate::names::now;
use deerflow_core::ports::{Fence, InputState, NewInput, QUEUED_INPUTS};
use deerflow_core::{NodeUpdate, RunId, RunStatus, StoreError, UserId};
use serde_json::Value;
use sqlx::{Row as _, SqliteConnection};

/// Longest id of an input, in bytes.
const ID_BYTES: usize = 128;

/// Ids of the inputs that updates apply, as a JSON list.
pub(super) fn applied_ids(updates: &[NodeUpdate]) -> Option<String> {
    let ids: Vec<&Value> = updates
        .iter()
        .filter_map(|update| update.update.applied_run_inputs.as_ref()?.get("ids")?.as_array())
        .flatten()
        .filter(|id| id.is_string())
        .collect();
    (!ids.is_empty()).then(|| serde_json::json!(ids).to_string())
}

const ACKNOWLEDGE: &str = "
    UPDATE run_inputs SET state = 'acknowledged'
        WHERE thread_key = $1 AND run_id = $2 AND state = 'queued'
            AND run_input_id IN (SELECT value FROM json_each($3))";

/// Marks what a step of the run applies. The step has passed the fence.
pub(super) async fn acknowledge(
    conn: &mut SqliteConnection,
    thread_key: i64,
    run_id: &RunId,
    ids: &str,
) -> Result<(), sqlx::Error> {
    let query = sqlx::query(ACKNOWLEDGE).bind(thread_key).bind(run_id.as_str().to_owned()).bind(ids.to_owned());
    query.execute(conn).await.map(drop)
}

/// An input ready to be queued.
#[derive(Debug)]
pub(crate) struct EnqueueOp {
    user_id: UserId,
    input: NewInput,
    content: String,
}

impl EnqueueOp {
    pub(crate) fn pack(user_id: UserId, input: NewInput) -> Result<Self, StoreError> {
        let id = &input.run_input_id;
        if id.is_empty() || id.len() > ID_BYTES || id.chars().any(char::is_control) {
            let reason = format!("must be 1 to {ID_BYTES} bytes without control characters");
            return Err(StoreError::BadInput { field: "run_input_id", reason });
        }
        let content =
            serde_json::to_string(&input.content).map_err(|error| damaged("an input cannot be written", error))?;
        Ok(Self { user_id, input, content })
    }
}

/// The run, the input of this id if there is one, and how many wait for the run.
const LOOK: &str = "
    SELECT r.thread_key, r.status, EXISTS (
            SELECT 1 FROM run_inputs i WHERE i.thread_key = r.thread_key AND i.run_input_id = $3),
        (SELECT count(*) FROM run_inputs i
            WHERE i.thread_key = r.thread_key AND i.run_id = r.run_id AND i.state = 'queued')
        FROM runs r WHERE r.run_id = $1 AND r.user_id = $2";
const ENQUEUE: &str = "
    INSERT INTO run_inputs (thread_key, run_input_id, run_id, seq, content, created_by, created_at, state)
        SELECT $1, $2, $3, COALESCE((SELECT max(seq) FROM run_inputs WHERE thread_key = $1), 0) + 1, $4, $5, $6, 'queued'";

pub(super) async fn enqueue(conn: &mut SqliteConnection, op: &EnqueueOp) -> Result<Done, Fault> {
    let input = &op.input;
    let row = sqlx::query(LOOK)
        .bind(input.run_id.as_str().to_owned())
        .bind(op.user_id.as_str().to_owned())
        .bind(input.run_input_id.clone())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else {
        return Err(StoreError::NotFound { what: "run", id: input.run_id.to_string() }.into());
    };
    let thread_key: i64 = row.try_get(0)?;
    if row.try_get::<i64, _>(2)? != 0 {
        return Ok(Done::Thread(thread_key));
    }
    let status: RunStatus = crate::names::status(&row.try_get::<String, _>(1)?)?;
    if status.is_terminal() {
        let over = StoreError::RunOver { run_id: input.run_id.to_string(), status: status.as_str().to_owned() };
        return Err(over.into());
    }
    if row.try_get::<i64, _>(3)? >= i64::from(QUEUED_INPUTS) {
        return Err(StoreError::QueueFull { run_id: input.run_id.to_string(), limit: QUEUED_INPUTS }.into());
    }
    sqlx::query(ENQUEUE)
        .bind(thread_key)
        .bind(input.run_input_id.clone())
        .bind(input.run_id.as_str().to_owned())
        .bind(op.content.clone())
        .bind(input.created_by.as_str().to_owned())
        .bind(now())
        .execute(&mut *conn)
        .await?;
    Ok(Done::Thread(thread_key))
}

const TAKE: &str = "UPDATE run_inputs SET state = 'queued', run_id = $2 WHERE thread_key = $1 AND state = 'returned'
    RETURNING run_input_id";
const RELEASE: &str = "UPDATE run_inputs SET state = 'returned'
    WHERE thread_key = $1 AND run_id = $2 AND state = 'queued' RETURNING run_input_id";

/// Moves waiting inputs to, or away from, the run that holds the fence, and answers with their ids.
pub(super) async fn hand_over(conn: &mut SqliteConnection, fence: &Fence, to: InputState) -> Result<Done, Fault> {
    let Some(thread_key) = fence_thread(conn, fence, None).await? else {
        return Err(StoreError::Fenced { run_id: fence.run_id.to_string() }.into());
    };
    let sql = if to == InputState::Queued { TAKE } else { RELEASE };
    let query = sqlx::query_scalar(sql).bind(thread_key).bind(fence.run_id.as_str().to_owned());
    Ok(Done::Inputs(query.fetch_all(&mut *conn).await?))
}
