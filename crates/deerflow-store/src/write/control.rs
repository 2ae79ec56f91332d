//! The queue of a thread, leases, and requests to stop.

use super::Done;
use crate::error::{Fault, damaged};
use crate::names::{id, now, unsigned};
use deerflow_core::ports::{CancelAction, LiveRun, RunCounts, Worker};
use deerflow_core::{RunId, StoreError, ThreadId};
use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};

const CLAIM: &str = "
    UPDATE runs SET status = 'pending', worker_id = $2, worker_label = $3, epoch = epoch + 1, lease_until = $4,
            updated_at = $5, first_seq = (SELECT t.last_seq FROM threads t WHERE t.thread_key = runs.thread_key)
        WHERE run_key = (
            SELECT q.run_key FROM threads t JOIN runs q ON q.thread_key = t.thread_key
                WHERE t.thread_id = $1 AND q.status = 'queued' AND q.not_before <= $5 AND NOT EXISTS (
                    SELECT 1 FROM runs l WHERE l.thread_key = q.thread_key AND l.status IN ('pending', 'running'))
                ORDER BY q.not_before, q.run_key LIMIT 1)
        RETURNING run_id, thread_key";
const BUSY: &str = "UPDATE threads SET status = 'busy', updated_at = $2 WHERE thread_key = $1";

pub(super) async fn claim(
    conn: &mut SqliteConnection,
    thread_id: &ThreadId,
    worker: &Worker,
    lease_until: i64,
) -> Result<Done, Fault> {
    let now = now();
    let row = sqlx::query(CLAIM)
        .bind(thread_id.as_str().to_owned())
        .bind(worker.id.clone())
        .bind(worker.label.clone())
        .bind(lease_until)
        .bind(now)
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else { return Ok(Done::Nothing) };
    sqlx::query(BUSY).bind(row.try_get::<i64, _>(1)?).bind(now).execute(&mut *conn).await?;
    Ok(Done::Run(id(row.try_get(0)?)?))
}

const WITHDRAW: &str = "
    UPDATE runs SET status = 'interrupted', error = $2, updated_at = $3, last_seq = first_seq
        WHERE run_id = $1 AND status = 'queued'";

pub(super) async fn withdraw(conn: &mut SqliteConnection, run_id: &RunId, reason: &str) -> Result<Done, Fault> {
    let done = sqlx::query(WITHDRAW)
        .bind(run_id.as_str().to_owned())
        .bind(reason.to_owned())
        .bind(now())
        .execute(&mut *conn)
        .await?;
    Ok(Done::Changed(done.rows_affected() > 0))
}

const RENEW: &str = "
    UPDATE runs SET lease_until = $2 WHERE worker_id = $1 AND status IN ('pending', 'running')
        RETURNING run_id, (SELECT t.thread_id FROM threads t WHERE t.thread_key = runs.thread_key), worker_id,
            worker_label, epoch, lease_until, cancel_action";

pub(super) async fn renew(conn: &mut SqliteConnection, worker: &Worker, lease_until: i64) -> Result<Done, Fault> {
    let rows = sqlx::query(RENEW).bind(worker.id.clone()).bind(lease_until).fetch_all(&mut *conn).await?;
    Ok(Done::Live(rows.iter().map(live_run).collect::<Result<_, _>>()?))
}

/// Columns: run, thread, worker id and label, epoch, lease, request.
pub(crate) fn live_run(row: &SqliteRow) -> Result<LiveRun, Fault> {
    let cancel = match row.try_get::<Option<String>, _>(6)? {
        None => None,
        Some(name) => {
            let action = CancelAction::from_name(&name);
            Some(action.ok_or_else(|| StoreError::Damaged(format!("unknown cancel action {name:?}")))?)
        }
    };
    Ok(LiveRun {
        run_id: id(row.try_get(0)?)?,
        thread_id: id(row.try_get(1)?)?,
        worker: Worker { id: row.try_get(2)?, label: row.try_get(3)? },
        epoch: unsigned(row.try_get(4)?)?,
        lease_until: row.try_get(5)?,
        cancel,
    })
}

const REQUEST: &str = "
    UPDATE runs SET cancel_action = coalesce(cancel_action, $2)
        WHERE run_id = $1 AND status IN ('pending', 'running')";

pub(super) async fn request_cancel(
    conn: &mut SqliteConnection,
    run_id: &RunId,
    action: CancelAction,
) -> Result<Done, Fault> {
    let done = sqlx::query(REQUEST).bind(run_id.as_str().to_owned()).bind(action.as_str()).execute(&mut *conn).await?;
    Ok(Done::Changed(done.rows_affected() > 0))
}

pub(super) async fn record(conn: &mut SqliteConnection, run_id: &RunId, counts: &RunCounts) -> Result<Done, Fault> {
    let counts = serde_json::to_string(counts).map_err(|error| damaged("run counters", error))?;
    sqlx::query("UPDATE runs SET counts = $2 WHERE run_id = $1")
        .bind(run_id.as_str().to_owned())
        .bind(counts)
        .execute(&mut *conn)
        .await?;
    Ok(Done::Nothing)
}
