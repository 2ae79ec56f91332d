//! The end of a run.

use super::Done;
use super::content::{PackedEvents, insert_events, insert_pieces, pack_events};
use crate::error::Fault;
use crate::names::{now, signed, thread_status};
use crate::pack::{Block, Pile};
use deerflow_core::ports::{Fence, NewJournalRow, ROLLED_BACK, RunOutcome};
use deerflow_core::{RunId, StoreError};
use sqlx::{Row as _, SqliteConnection};

/// The end of a run without a step.
#[derive(Debug)]
pub(crate) struct FinishOp {
    fence: Fence,
    outcome: RunOutcome,
    events: PackedEvents,
    pieces: Block,
}

impl FinishOp {
    pub(crate) fn pack(fence: Fence, outcome: RunOutcome, rows: &[NewJournalRow]) -> Result<Self, StoreError> {
        let mut pile = Pile::default();
        let events = pack_events(rows, &mut pile)?;
        Ok(Self { fence, outcome, events, pieces: pile.into_block() })
    }
}

const FENCE: &str = "SELECT t.thread_key FROM runs r JOIN threads t ON t.thread_key = r.thread_key
    WHERE r.run_id = $1 AND r.epoch = $2 AND r.status IN ('pending', 'running')";
const COUNT_EVENTS: &str = "UPDATE threads SET last_seq = last_seq + $2 WHERE thread_key = $1 RETURNING last_seq";

/// The thread of a run that is live under this fence.
pub(super) async fn fence_thread(
    conn: &mut SqliteConnection,
    fence: &Fence,
    thread_id: Option<&str>,
) -> Result<Option<i64>, sqlx::Error> {
    let row = sqlx::query(FENCE)
        .bind(fence.run_id.as_str().to_owned())
        .bind(signed(fence.epoch))
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let key: i64 = row.try_get(0)?;
    let Some(thread_id) = thread_id else { return Ok(Some(key)) };
    let same = sqlx::query("SELECT 1 FROM threads WHERE thread_key = $1 AND thread_id = $2")
        .bind(key)
        .bind(thread_id.to_owned())
        .fetch_optional(&mut *conn)
        .await?;
    Ok(same.map(|_| key))
}

const END_RUN: &str = "
    UPDATE runs SET status = $2, error = $3, stop_reason = $4, usage = $5, updated_at = $6, last_seq = $7
        WHERE run_id = $1 AND thread_key = $9;
    UPDATE run_inputs SET state = 'returned' WHERE run_id = $1 AND thread_key = $9 AND state = 'queued';
    UPDATE threads SET status = $8, updated_at = $6 WHERE thread_key = $9";

pub(super) async fn end_run(
    conn: &mut SqliteConnection,
    run_id: &RunId,
    outcome: &RunOutcome,
    now: i64,
    thread_key: i64,
    last_seq: i64,
) -> Result<(), sqlx::Error> {
    let usage = serde_json::to_string(&outcome.usage).map_err(|error| sqlx::Error::Encode(error.into()))?;
    sqlx::query(END_RUN)
        .bind(run_id.as_str().to_owned())
        .bind(outcome.status.as_str())
        .bind(outcome.error.clone())
        .bind(outcome.stop_reason.clone())
        .bind(usage)
        .bind(now)
        .bind(outcome.status.is_terminal().then_some(last_seq))
        .bind(if outcome.stop_reason.as_deref() == Some(ROLLED_BACK) { "idle" } else { thread_status(outcome.status) })
        .bind(thread_key)
        // Rows are collected rather than counted: the text holds several statements.
        .fetch_all(&mut *conn)
        .await?;
    Ok(())
}

pub(super) async fn finish(conn: &mut SqliteConnection, op: &FinishOp) -> Result<Done, Fault> {
    let Some(thread_key) = fence_thread(conn, &op.fence, None).await? else {
        return Err(StoreError::Fenced { run_id: op.fence.run_id.to_string() }.into());
    };
    let (now, count) = (now(), op.events.count);
    let row = sqlx::query(COUNT_EVENTS).bind(thread_key).bind(count).fetch_one(&mut *conn).await?;
    let last_seq: i64 = row.try_get(0)?;
    insert_pieces(conn, thread_key, &op.pieces).await?;
    insert_events(conn, thread_key, op.fence.run_id.as_str(), now, last_seq - count + 1, &op.events).await?;
    end_run(conn, &op.fence.run_id, &op.outcome, now, thread_key, last_seq).await?;
    Ok(Done::Nothing)
}
