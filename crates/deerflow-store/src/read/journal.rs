//! The journal.

use super::fetch;
use crate::error::{Place, damaged};
use crate::names::{id, signed, unsigned};
use crate::pack::{Shelf, journal_references, unpack_journal};
use deerflow_core::ports::{JournalQuery, JournalRow, NewJournalRow};
use deerflow_core::{JsonMap, RunId, StoreError, ThreadId, UserId};
use serde_json::Value;
use sqlx::{FromRow, SqliteConnection};

#[derive(FromRow)]
struct RawEvent {
    thread_key: i64,
    seq: i64,
    run_id: String,
    category: String,
    event: String,
    content: String,
    metadata: Option<String>,
    created_at: i64,
}

const OF_THREAD: &str = "
    SELECT e.thread_key, e.seq, e.run_id, e.category, e.event, e.content, e.metadata, e.created_at
        FROM threads t JOIN events e ON e.thread_key = t.thread_key AND e.seq > $2
        WHERE t.thread_id = $1 ORDER BY e.seq LIMIT $3";
/// A run knows between which rows its own lie.
const OF_RUN: &str = "
    SELECT e.thread_key, e.seq, e.run_id, e.category, e.event, e.content, e.metadata, e.created_at
        FROM threads t JOIN runs r ON r.thread_key = t.thread_key AND r.run_id = $4
        JOIN events e ON e.thread_key = t.thread_key AND e.seq > $2 AND e.seq > r.first_seq
            AND e.seq <= COALESCE(r.last_seq, t.last_seq) AND e.run_id = r.run_id
        WHERE t.thread_id = $1 ORDER BY e.seq LIMIT $3";

pub(crate) async fn journal(
    view: &mut SqliteConnection,
    place: &Place,
    thread_id: &ThreadId,
    run_id: Option<&RunId>,
    after_seq: u64,
    limit: u32,
) -> Result<Vec<JournalRow>, StoreError> {
    let query = sqlx::query_as::<_, RawEvent>(if run_id.is_some() { OF_RUN } else { OF_THREAD })
        .bind(thread_id.as_str().to_owned())
        .bind(signed(after_seq))
        .bind(i64::from(limit));
    let query = match run_id {
        Some(run_id) => query.bind(run_id.as_str().to_owned()),
        None => query,
    };
    let rows = query.fetch_all(&mut *view).await.map_err(|error| place.explain(&error))?;
    unpack(view, place, rows).await
}

/// $1 thread, $2 user, $3 run, $4 after, $5 before, $6 category, $7 events as a JSON list, $8 task, $9 limit. A run that was
/// deleted does not know any more between which rows its own lie.
macro_rules! page {
    ($order:literal) => {
        concat!(
            "SELECT e.thread_key, e.seq, e.run_id, e.category, e.event, e.content, e.metadata, e.created_at
                FROM threads t LEFT JOIN runs r ON r.thread_key = t.thread_key AND r.run_id = $3
                JOIN events e ON e.thread_key = t.thread_key AND e.seq > max($4, COALESCE(r.first_seq, 0))
                    AND e.seq < min($5, COALESCE(r.last_seq, t.last_seq) + 1)
                WHERE t.thread_id = $1 AND t.user_id = $2 AND ($3 IS NULL OR e.run_id = $3)
                    AND ($6 IS NULL OR e.category = $6)
                    AND ($7 IS NULL OR e.event IN (SELECT value FROM json_each($7)))
                    AND ($8 IS NULL OR e.metadata ->> '$.task_id' = $8)
                ORDER BY e.seq ",
            $order,
            " LIMIT $9"
        )
    };
}
const OLDEST: &str = page!("ASC");
const NEWEST: &str = page!("DESC");

pub(crate) async fn journal_page(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    thread_id: &ThreadId,
    query: &JournalQuery,
) -> Result<Vec<JournalRow>, StoreError> {
    let events = (!query.events.is_empty()).then(|| serde_json::json!(query.events).to_string());
    let rows = sqlx::query_as::<_, RawEvent>(if query.newest_first { NEWEST } else { OLDEST })
        .bind(thread_id.as_str().to_owned())
        .bind(user_id.as_str().to_owned())
        .bind(query.run_id.as_ref().map(|run_id| run_id.as_str().to_owned()))
        .bind(signed(query.after_seq.unwrap_or(0)))
        .bind(signed(query.before_seq.unwrap_or(u64::MAX)))
        .bind(query.category.clone())
        .bind(events)
        .bind(query.task_id.clone())
        .bind(i64::from(query.limit))
        .fetch_all(&mut *view)
        .await
        .map_err(|error| place.explain(&error))?;
    unpack(view, place, rows).await
}

async fn unpack(
    view: &mut SqliteConnection,
    place: &Place,
    rows: Vec<RawEvent>,
) -> Result<Vec<JournalRow>, StoreError> {
    let Some(thread_key) = rows.first().map(|row| row.thread_key) else { return Ok(Vec::new()) };
    let mut wanted = Vec::new();
    let mut read = Vec::with_capacity(rows.len());
    for row in rows {
        let content: Value = serde_json::from_str(&row.content).map_err(|error| damaged("a journal row", error))?;
        journal_references(&content, &mut wanted);
        read.push((row, content));
    }
    let mut shelf = Shelf::default();
    fetch(view, place, thread_key, wanted, &mut shelf).await?;
    read.into_iter()
        .map(|(row, content)| {
            Ok(JournalRow {
                seq: unsigned(row.seq)?,
                run_id: id(row.run_id)?,
                created_at: row.created_at,
                row: NewJournalRow {
                    category: row.category,
                    event: row.event,
                    content: unpack_journal(content, &shelf)?,
                    metadata: match row.metadata {
                        Some(text) => {
                            serde_json::from_str(&text).map_err(|error| damaged("journal metadata", error))?
                        }
                        None => JsonMap::new(),
                    },
                },
            })
        })
        .collect()
}
