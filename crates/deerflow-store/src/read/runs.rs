//! Run rows.

use super::fetch;
use crate::error::{Place, damaged};
use crate::names::{id, status, unsigned};
use crate::pack::{PackedFrame, Shelf};
use deerflow_core::ports::{RunCounts, RunFilter, RunRow, Worker};
use deerflow_core::{RunId, StoreError, UserId};
use sqlx::{FromRow, SqliteConnection};
use std::collections::BTreeMap;

const DEFAULT_LIMIT: u32 = 100;

#[derive(FromRow)]
struct RawRun {
    thread_key: i64,
    thread_id: String,
    run_id: String,
    user_id: String,
    status: String,
    worker_id: String,
    worker_label: String,
    epoch: i64,
    input: String,
    options: String,
    error: Option<String>,
    stop_reason: Option<String>,
    usage: String,
    counts: Option<String>,
    created_at: i64,
    updated_at: i64,
}

impl RawRun {
    fn read(self, input: PackedFrame, shelf: &mut Shelf) -> Result<RunRow, StoreError> {
        Ok(RunRow {
            run_id: id(self.run_id)?,
            thread_id: id(self.thread_id)?,
            user_id: id(self.user_id)?,
            status: status(&self.status)?,
            worker: Worker { id: self.worker_id, label: self.worker_label },
            epoch: unsigned(self.epoch)?,
            input: input.unpack(shelf)?,
            options: serde_json::from_str(&self.options).map_err(|error| damaged("run options", error))?,
            error: self.error,
            stop_reason: self.stop_reason,
            usage: serde_json::from_str(&self.usage).map_err(|error| damaged("run usage", error))?,
            counts: match self.counts {
                Some(counts) => serde_json::from_str(&counts).map_err(|error| damaged("run counters", error))?,
                None => RunCounts::default(),
            },
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}

const ONE: &str = "
    SELECT r.thread_key, t.thread_id, r.run_id, r.user_id, r.status, r.worker_id, r.worker_label, r.epoch, r.input,
            r.options, r.error, r.stop_reason, r.usage, r.counts, r.created_at, r.updated_at
        FROM runs r JOIN threads t ON t.thread_key = r.thread_key WHERE r.run_id = $1";
/// The statuses are one parameter, `,a,b,`, so that the text is the same for any number.
const OF_USER: &str = "
    SELECT r.thread_key, t.thread_id, r.run_id, r.user_id, r.status, r.worker_id, r.worker_label, r.epoch, r.input,
            r.options, r.error, r.stop_reason, r.usage, r.counts, r.created_at, r.updated_at
        FROM runs r JOIN threads t ON t.thread_key = r.thread_key
        WHERE r.user_id = $1 AND ($2 = '' OR $2 LIKE '%,' || r.status || ',%')
        ORDER BY r.created_at DESC, r.run_key DESC LIMIT $3 OFFSET $4";
const OF_THREAD: &str = "
    SELECT r.thread_key, t.thread_id, r.run_id, r.user_id, r.status, r.worker_id, r.worker_label, r.epoch, r.input,
            r.options, r.error, r.stop_reason, r.usage, r.counts, r.created_at, r.updated_at
        FROM runs r JOIN threads t ON t.thread_key = r.thread_key
        WHERE t.thread_id = $5 AND t.user_id = $1 AND ($2 = '' OR $2 LIKE '%,' || r.status || ',%')
        ORDER BY r.created_at DESC, r.run_key DESC LIMIT $3 OFFSET $4";

pub(crate) async fn run(
    view: &mut SqliteConnection,
    place: &Place,
    run_id: &RunId,
) -> Result<Option<RunRow>, StoreError> {
    let rows = sqlx::query_as::<_, RawRun>(ONE)
        .bind(run_id.as_str().to_owned())
        .fetch_all(&mut *view)
        .await
        .map_err(|error| place.explain(&error))?;
    Ok(with_inputs(view, place, rows).await?.pop())
}

/// The statuses as one text.
fn statuses(filter: &RunFilter) -> String {
    let mut statuses = String::new();
    for status in &filter.status {
        statuses.push(',');
        statuses.push_str(status.as_str());
    }
    if !statuses.is_empty() {
        statuses.push(',');
    }
    statuses
}

pub(crate) async fn runs(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    filter: &RunFilter,
) -> Result<Vec<RunRow>, StoreError> {
    let limit = if filter.limit == 0 { DEFAULT_LIMIT } else { filter.limit };
    let query = sqlx::query_as::<_, RawRun>(if filter.thread_id.is_some() { OF_THREAD } else { OF_USER })
        .bind(user_id.as_str().to_owned())
        .bind(statuses(filter))
        .bind(i64::from(limit))
        .bind(i64::from(filter.offset));
    let query = match &filter.thread_id {
        Some(thread_id) => query.bind(thread_id.as_str().to_owned()),
        None => query,
    };
    let rows = query.fetch_all(&mut *view).await.map_err(|error| place.explain(&error))?;
    with_inputs(view, place, rows).await
}

const COUNT: &str = "
    SELECT count(*) FROM runs r JOIN threads t ON t.thread_key = r.thread_key
        WHERE r.user_id = $1 AND t.user_id = $1 AND ($2 = '' OR $2 LIKE '%,' || r.status || ',%')
            AND ($3 IS NULL OR t.thread_id = $3)";

pub(crate) async fn count_runs(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    filter: &RunFilter,
) -> Result<u64, StoreError> {
    let count = sqlx::query_scalar(COUNT)
        .bind(user_id.as_str().to_owned())
        .bind(statuses(filter))
        .bind(filter.thread_id.as_ref().map(|thread_id| thread_id.as_str().to_owned()))
        .fetch_one(view)
        .await
        .map_err(|error| place.explain(&error))?;
    unsigned(count)
}

async fn with_inputs(view: &mut SqliteConnection, place: &Place, rows: Vec<RawRun>) -> Result<Vec<RunRow>, StoreError> {
    let mut wanted: BTreeMap<i64, Vec<_>> = BTreeMap::new();
    let mut read = Vec::with_capacity(rows.len());
    for row in rows {
        let input = PackedFrame::parse(&row.input)?;
        input.references(wanted.entry(row.thread_key).or_default());
        read.push((row, input));
    }
    let mut shelf = Shelf::default();
    for (thread_key, hashes) in wanted {
        // A hash names the same content in every thread.
        fetch(view, place, thread_key, hashes, &mut shelf).await?;
    }
    read.into_iter().map(|(row, input)| row.read(input, &mut shelf)).collect()
}
