//! Who waits and who is live.

use crate::error::{Fault, Place};
use crate::names::id;
use crate::write::live_run;
use deerflow_core::ports::{CancelAction, LiveRun, Worker};
use deerflow_core::{RunId, StoreError, ThreadId};
use sqlx::{Row as _, SqliteConnection};

const CLAIMABLE: &str = "
    SELECT DISTINCT t.thread_id FROM runs q JOIN threads t ON t.thread_key = q.thread_key
        WHERE q.status = 'queued' AND q.not_before <= $1 AND NOT EXISTS (
            SELECT 1 FROM runs l WHERE l.thread_key = q.thread_key AND l.status IN ('pending', 'running'))
        LIMIT $2";
const WAITING: &str = "
    SELECT q.run_id FROM threads t JOIN runs q ON q.thread_key = t.thread_key
        WHERE t.thread_id = $1 AND q.status = 'queued' ORDER BY q.not_before, q.run_key";
const LIVE: &str = "
    SELECT r.run_id, t.thread_id, r.worker_id, r.worker_label, r.epoch, r.lease_until, r.cancel_action
        FROM runs r JOIN threads t ON t.thread_key = r.thread_key
        WHERE r.status IN ('pending', 'running') AND ($1 IS NULL OR r.worker_id = $1) ORDER BY r.run_key";
const REQUESTED: &str = "SELECT cancel_action FROM runs WHERE run_id = $1";

pub(crate) async fn claimable(
    view: &mut SqliteConnection,
    place: &Place,
    now: i64,
    limit: u32,
) -> Result<Vec<ThreadId>, StoreError> {
    let rows = sqlx::query(CLAIMABLE).bind(now).bind(i64::from(limit)).fetch_all(&mut *view).await;
    let rows = rows.map_err(|error| place.explain(&error))?;
    rows.iter().map(|row| id(row.try_get(0).map_err(|error| place.explain(&error))?)).collect()
}

pub(crate) async fn waiting(
    view: &mut SqliteConnection,
    place: &Place,
    thread_id: &ThreadId,
) -> Result<Vec<RunId>, StoreError> {
    let rows = sqlx::query(WAITING).bind(thread_id.as_str().to_owned()).fetch_all(&mut *view).await;
    let rows = rows.map_err(|error| place.explain(&error))?;
    rows.iter().map(|row| id(row.try_get(0).map_err(|error| place.explain(&error))?)).collect()
}

pub(crate) async fn live(
    view: &mut SqliteConnection,
    place: &Place,
    worker: Option<&Worker>,
) -> Result<Vec<LiveRun>, StoreError> {
    let rows = sqlx::query(LIVE).bind(worker.map(|worker| worker.id.clone())).fetch_all(&mut *view).await;
    let rows = rows.map_err(|error| place.explain(&error))?;
    let read = rows.iter().map(live_run).collect::<Result<_, _>>();
    read.map_err(|fault| match fault {
        Fault::Refused(error) => error,
        Fault::Sql(error) => place.explain(&error),
    })
}

pub(crate) async fn requested(
    view: &mut SqliteConnection,
    place: &Place,
    run_id: &RunId,
) -> Result<Option<CancelAction>, StoreError> {
    let row = sqlx::query(REQUESTED).bind(run_id.as_str().to_owned()).fetch_optional(&mut *view).await;
    let name = match row.map_err(|error| place.explain(&error))? {
        Some(row) => row.try_get::<Option<String>, _>(0).map_err(|error| place.explain(&error))?,
        None => None,
    };
    Ok(name.as_deref().and_then(CancelAction::from_name))
}
