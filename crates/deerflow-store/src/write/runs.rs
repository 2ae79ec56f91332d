//! Admission and ownership of runs.

use super::Done;
use super::commit::other_mode;
use crate::error::{Fault, damaged};
use crate::names::{now, signed, thread_status};
use crate::pack::{Block, Pile, pack_update};
use deerflow_core::ports::{Fence, NewRun, ROLLED_BACK, Worker};
use deerflow_core::{RunId, RunStatus, StoreError, Usage, UserId};
use sqlx::{Row as _, SqliteConnection};

/// A run with references, ready to be admitted.
#[derive(Debug)]
pub(crate) struct AdmitOp {
    run: NewRun,
    input: String,
    options: String,
    usage: String,
    mode: &'static str,
    pieces: Block,
    /// Of a run that waits for its turn: the instant before which it does not come.
    not_before: Option<i64>,
}

impl AdmitOp {
    pub(crate) fn pack(run: NewRun, mode: &'static str) -> Result<Self, StoreError> {
        let mut pile = Pile::default();
        let input = pack_update(&run.input, &mut pile)?;
        let options = run.options.to_string();
        let usage = serde_json::to_string(&Usage::default()).map_err(|error| damaged("usage", error))?;
        Ok(Self { run, input, options, usage, mode, pieces: pile.into_block(), not_before: None })
    }

    /// The same run, to wait for its turn.
    pub(crate) fn waiting(self, not_before: i64) -> Self {
        Self { not_before: Some(not_before), ..self }
    }
}

/// The thread, its live run, the run of this key, and whether the id is taken, in one look. Always one row.
const LOOK: &str = "
    SELECT t.user_id, live.run_id, live.worker_label, keyed.run_id, EXISTS (SELECT 1 FROM runs WHERE run_id = $3),
            t.mode
        FROM (SELECT 1) LEFT JOIN threads t ON t.thread_id = $1
        LEFT JOIN runs live ON live.thread_key = t.thread_key AND live.status IN ('pending', 'running')
        LEFT JOIN runs keyed ON keyed.thread_key = t.thread_key AND keyed.idempotency_key = $2";
const ADMIT: &str = "
    INSERT INTO threads (thread_id, user_id, metadata, status, mode, last_seq, created_at, updated_at)
        VALUES ($1, $2, '{}', iif($14 IS NULL, 'busy', 'idle'), $3, 0, $4, $4)
        ON CONFLICT (thread_id) DO UPDATE SET status = iif($14 IS NULL, excluded.status, status),
            updated_at = excluded.updated_at;
    INSERT INTO runs (run_id, thread_key, user_id, status, worker_id, worker_label, epoch, input, options, usage,
            idempotency_key, first_seq, created_at, updated_at, not_before)
        SELECT $5, thread_key, $2, iif($14 IS NULL, 'pending', 'queued'), $6, $7, 1, $8, $9, $10, $11, last_seq, $4, $4,
            iif($14 IS NULL, NULL, max($14, $4))
        FROM threads WHERE thread_id = $1;
    INSERT INTO blobs (thread_key, hash, data)
        SELECT t.thread_key, unhex(piece.value ->> 0), substr($13, piece.value ->> 1, piece.value ->> 2)
        FROM threads t JOIN json_each($12) piece WHERE t.thread_id = $1
        ON CONFLICT (thread_key, hash) DO NOTHING";

pub(super) async fn admit(conn: &mut SqliteConnection, op: &AdmitOp) -> Result<Done, Fault> {
    let run = &op.run;
    let row = sqlx::query(LOOK)
        .bind(run.thread_id.as_str().to_owned())
        .bind(run.idempotency_key.clone())
        .bind(run.run_id.as_str().to_owned())
        .fetch_one(&mut *conn)
        .await?;
    if let Some(owner) = row.try_get::<Option<String>, _>(0)?
        && owner != run.user_id.as_str()
    {
        return Err(StoreError::NotFound { what: "thread", id: run.thread_id.to_string() }.into());
    }
    if let Some(mode) = row.try_get::<Option<String>, _>(5)?.filter(|mode| mode != op.mode) {
        return Err(other_mode(run.thread_id.as_str(), mode, op.mode).into());
    }
    if let Some(known) = row.try_get::<Option<String>, _>(3)? {
        return Ok(Done::Run(crate::names::id(known)?));
    }
    if let Some(live) = row.try_get::<Option<String>, _>(1)?.filter(|_| op.not_before.is_none()) {
        return Err(busy(run.thread_id.as_str(), live, row.try_get(2)?).into());
    }
    if row.try_get::<i64, _>(4)? != 0 {
        return Err(StoreError::Database(format!("run {} exists already", run.run_id)).into());
    }
    let now = now();
    sqlx::query(ADMIT)
        .bind(run.thread_id.as_str().to_owned())
        .bind(run.user_id.as_str().to_owned())
        .bind(op.mode)
        .bind(now)
        .bind(run.run_id.as_str().to_owned())
        .bind(run.worker.id.clone())
        .bind(run.worker.label.clone())
        .bind(op.input.clone())
        .bind(op.options.clone())
        .bind(op.usage.clone())
        .bind(run.idempotency_key.clone())
        .bind(op.pieces.index.clone())
        .bind(op.pieces.data.clone())
        .bind(op.not_before)
        // Rows are collected rather than counted: the text holds several statements.
        .fetch_all(&mut *conn)
        .await?;
    Ok(Done::Admitted { created_at: now })
}

pub(super) fn busy(thread_id: &str, run_id: String, holder: Option<String>) -> StoreError {
    StoreError::ThreadBusy { thread_id: thread_id.to_owned(), run_id, holder: holder.unwrap_or_default() }
}

const LOOK_RUN: &str = "
    SELECT r.thread_key, r.status, r.epoch, t.thread_id, live.run_id, live.worker_label, r.stop_reason
        FROM runs r JOIN threads t ON t.thread_key = r.thread_key
        LEFT JOIN runs live ON live.thread_key = r.thread_key AND live.status IN ('pending', 'running')
            AND live.run_id <> r.run_id
        WHERE r.run_id = $1";
const TOUCH_THREAD: &str = "UPDATE threads SET status = $2, updated_at = $3 WHERE thread_key = $1";
const ADOPT: &str = "
    UPDATE runs SET epoch = epoch + 1, worker_id = $2, worker_label = $3, updated_at = $4, last_seq = NULL, error = NULL,
            stop_reason = NULL, lease_until = NULL, cancel_action = CASE WHEN status IN ('pending', 'running') THEN cancel_action END,
            status = CASE status WHEN 'pending' THEN 'pending' ELSE 'running' END,
            -- Who died wrote no sum.
            usage = json_patch(usage, COALESCE((
                SELECT json_object('input_tokens', SUM(u.input_tokens), 'output_tokens', SUM(u.output_tokens),
                        'total_tokens', SUM(u.total_tokens),
                        'input_token_details', iif(SUM(u.cache_read) > 0, json_object('cache_read', SUM(u.cache_read)), json('{}')))
                    FROM run_usage u WHERE u.thread_key = runs.thread_key AND u.run_id = runs.run_id
                    HAVING SUM(u.total_tokens) > runs.usage ->> '$.total_tokens'), '{}'))
        WHERE run_id = $1";

pub(super) async fn adopt(
    conn: &mut SqliteConnection,
    run_id: &RunId,
    expected_epoch: u64,
    worker: &Worker,
) -> Result<Done, Fault> {
    let row = sqlx::query(LOOK_RUN).bind(run_id.as_str().to_owned()).fetch_optional(&mut *conn).await?;
    let Some(row) = row else {
        return Err(StoreError::NotFound { what: "run", id: run_id.to_string() }.into());
    };
    let status = crate::names::status(&row.try_get::<String, _>(1)?)?;
    let undone = row.try_get::<Option<String>, _>(6)?.as_deref() == Some(ROLLED_BACK);
    if undone || matches!(status, RunStatus::Success | RunStatus::RolledBack) {
        return Err(StoreError::NotFound { what: "resumable run", id: run_id.to_string() }.into());
    }
    if row.try_get::<i64, _>(2)? != signed(expected_epoch) {
        return Err(StoreError::Fenced { run_id: run_id.to_string() }.into());
    }
    if let Some(live) = row.try_get::<Option<String>, _>(4)? {
        return Err(busy(&row.try_get::<String, _>(3)?, live, row.try_get(5)?).into());
    }
    let now = now();
    sqlx::query(ADOPT)
        .bind(run_id.as_str().to_owned())
        .bind(worker.id.clone())
        .bind(worker.label.clone())
        .bind(now)
        .execute(&mut *conn)
        .await?;
    sqlx::query(TOUCH_THREAD)
        .bind(row.try_get::<i64, _>(0)?)
        .bind(thread_status(RunStatus::Running))
        .bind(now)
        .execute(&mut *conn)
        .await?;
    Ok(Done::Run(run_id.clone()))
}

const START: &str = "UPDATE runs SET status = 'running', updated_at = $3
    WHERE run_id = $1 AND epoch = $2 AND status IN ('pending', 'running')";

pub(super) async fn start(conn: &mut SqliteConnection, fence: &Fence) -> Result<Done, Fault> {
    let done = sqlx::query(START)
        .bind(fence.run_id.as_str().to_owned())
        .bind(signed(fence.epoch))
        .bind(now())
        .execute(&mut *conn)
        .await?;
    if done.rows_affected() == 0 {
        return Err(StoreError::Fenced { run_id: fence.run_id.to_string() }.into());
    }
    Ok(Done::Nothing)
}

const LOOK_ENDED: &str = "
    SELECT r.thread_key, r.status, t.thread_id, r.worker_label FROM runs r JOIN threads t ON t.thread_key = r.thread_key
        WHERE r.run_id = $1 AND r.user_id = $2";
const DELETE: &str = "
    DELETE FROM feedback WHERE thread_key = $1 AND run_id = $2;
    DELETE FROM run_usage WHERE thread_key = $1 AND run_id = $2;
    DELETE FROM runs WHERE thread_key = $1 AND run_id = $2";

/// Deletes the row of a run that has ended.
pub(super) async fn delete(conn: &mut SqliteConnection, user_id: &UserId, run_id: &RunId) -> Result<Done, Fault> {
    let row = sqlx::query(LOOK_ENDED)
        .bind(run_id.as_str().to_owned())
        .bind(user_id.as_str().to_owned())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else {
        return Err(StoreError::NotFound { what: "run", id: run_id.to_string() }.into());
    };
    if !crate::names::status(&row.try_get::<String, _>(1)?)?.is_terminal() {
        return Err(busy(&row.try_get::<String, _>(2)?, run_id.to_string(), row.try_get(3)?).into());
    }
    let query = sqlx::query(DELETE).bind(row.try_get::<i64, _>(0)?).bind(run_id.as_str().to_owned());
    // Rows are collected rather than counted: the text holds several statements.
    query.fetch_all(conn).await?;
    Ok(Done::Nothing)
}
