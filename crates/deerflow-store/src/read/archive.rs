//! Archived text.

use crate::error::Place;
use crate::names::unsigned;
use crate::words::{excerpt, expression, spaced, words};
use crate::write::PackedBatch;
use deerflow_core::ports::{
    ArchiveHit, ArchivePage, ArchiveRole, ArchivedBatch, EXCERPT_CHARS, PAGE_CHARS, SEARCH_HITS,
};
use deerflow_core::{StoreError, ThreadId, UserId};
use sqlx::{FromRow, SqliteConnection};

#[derive(FromRow)]
struct RawRecord {
    source_id: String,
    role: String,
    text: String,
    created_at: i64,
}

fn role(name: &str) -> Result<ArchiveRole, StoreError> {
    ArchiveRole::from_name(name).ok_or_else(|| StoreError::Damaged(format!("unknown role {name:?} in the archive")))
}

const THREAD: &str = "SELECT thread_key FROM threads WHERE thread_id = $1 AND user_id = $2";
/// The scope says in which thread a record is; it does not count for the order.
const SEARCH: &str = "
    SELECT r.source_id, r.role, r.text, r.created_at FROM archive_index i
        JOIN archive_records r ON r.record_key = i.rowid AND r.thread_key = $3
        WHERE archive_index MATCH $1 ORDER BY bm25(archive_index, 0.0, 1.0), r.record_key DESC LIMIT $2";

pub(crate) async fn search(
    view: &mut SqliteConnection,
    place: &Place,
    (user_id, thread_id): (&UserId, &ThreadId),
    query: &str,
    role_wanted: Option<ArchiveRole>,
    limit: u32,
) -> Result<Vec<ArchiveHit>, StoreError> {
    let explain = |error: sqlx::Error| place.explain(&error);
    let words = words(query);
    let thread_key: Option<i64> = sqlx::query_scalar(THREAD)
        .bind(thread_id.as_str().to_owned())
        .bind(user_id.as_str().to_owned())
        .fetch_optional(&mut *view)
        .await
        .map_err(explain)?;
    let Some(thread_key) = thread_key.filter(|_| !words.is_empty()) else { return Ok(Vec::new()) };
    let mut scopes = vec![format!("t{thread_key}")];
    scopes.extend(role_wanted.map(|role| format!("r{}", role.as_str())));
    let mut rows: Vec<RawRecord> = Vec::new();
    for operator in [" AND ", " OR "] {
        if rows.is_empty() {
            rows = sqlx::query_as(SEARCH)
                .bind(expression(&scopes, &words, operator))
                .bind(limit.min(SEARCH_HITS))
                .bind(thread_key)
                .fetch_all(&mut *view)
                .await
                .map_err(explain)?;
        }
    }
    rows.into_iter()
        .map(|row| {
            Ok(ArchiveHit {
                role: role(&row.role)?,
                excerpt: excerpt(&row.text, &words, EXCERPT_CHARS),
                source_id: row.source_id,
                created_at: row.created_at,
            })
        })
        .collect()
}

const RECORD: &str = "
    SELECT r.source_id, r.role, r.text, r.created_at FROM threads t
        JOIN archive_records r ON r.thread_key = t.thread_key AND r.source_id = $3
        WHERE t.thread_id = $1 AND t.user_id = $2";

pub(crate) async fn page(
    view: &mut SqliteConnection,
    place: &Place,
    (user_id, thread_id): (&UserId, &ThreadId),
    source_id: &str,
    offset: u64,
) -> Result<Option<ArchivePage>, StoreError> {
    let row: Option<RawRecord> = sqlx::query_as(RECORD)
        .bind(thread_id.as_str().to_owned())
        .bind(user_id.as_str().to_owned())
        .bind(source_id.to_owned())
        .fetch_optional(view)
        .await
        .map_err(|error| place.explain(&error))?;
    let Some(row) = row else { return Ok(None) };
    let total = row.text.chars().count();
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(total);
    let end = (start + PAGE_CHARS).min(total);
    Ok(Some(ArchivePage {
        source_id: row.source_id,
        role: role(&row.role)?,
        text: row.text.chars().skip(start).take(end - start).collect(),
        total_chars: total as u64,
        next_offset: (end < total).then_some(end as u64),
    }))
}

#[derive(FromRow)]
struct RawBatch {
    batch_key: i64,
    batch_id: String,
    digest: String,
    records: i64,
    omitted: i64,
    created_at: i64,
}

const BATCHES: &str = "
    SELECT batch_key, batch_id, digest, records, omitted, created_at FROM archive_batches
        WHERE thread_key = $1 AND created_at <= $2 ORDER BY batch_key";
const RECORDS: &str = "
    SELECT source_id, role, text, created_at FROM archive_records WHERE batch_key = $1 ORDER BY record_key";

/// What a thread has archived up to a moment, to be written to another.
pub(crate) async fn batches(
    view: &mut SqliteConnection,
    place: &Place,
    thread_key: i64,
    until: i64,
) -> Result<Vec<PackedBatch>, StoreError> {
    let explain = |error: sqlx::Error| place.explain(&error);
    let batches: Vec<RawBatch> =
        sqlx::query_as(BATCHES).bind(thread_key).bind(until).fetch_all(&mut *view).await.map_err(explain)?;
    let mut packed = Vec::with_capacity(batches.len());
    for batch in batches {
        let rows: Vec<RawRecord> =
            sqlx::query_as(RECORDS).bind(batch.batch_key).fetch_all(&mut *view).await.map_err(explain)?;
        let rows: Vec<_> = rows.iter().map(|row| (&row.source_id, &row.role, &row.text, spaced(&row.text))).collect();
        packed.push(PackedBatch {
            batch: ArchivedBatch {
                batch_id: batch.batch_id,
                digest: batch.digest,
                records: unsigned(batch.records)?,
                omitted_records: unsigned(batch.omitted)?,
            },
            created_at: batch.created_at,
            records: serde_json::json!(rows).to_string(),
        });
    }
    Ok(packed)
}
