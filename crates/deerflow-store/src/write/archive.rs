//! Archived text.

use super::Done;
use crate::error::{Fault, damaged};
use crate::names::now;
use crate::words::spaced;
use deerflow_core::ports::{ArchiveLimits, ArchiveRecord, ArchivedBatch};
use deerflow_core::{StoreError, ThreadId, UserId};
use sqlx::{Row as _, SqliteConnection};

/// A batch ready to be archived.
#[derive(Debug)]
pub(crate) struct ArchiveOp {
    user_id: UserId,
    thread_id: ThreadId,
    batch: PackedBatch,
    max_batches: u32,
}

/// A batch as the database takes it.
#[derive(Debug)]
pub(crate) struct PackedBatch {
    pub(crate) batch: ArchivedBatch,
    pub(crate) created_at: i64,
    /// A JSON list of source id, role, text and indexed text.
    pub(crate) records: String,
}

impl ArchiveOp {
    pub(crate) fn pack(
        user_id: UserId,
        thread_id: ThreadId,
        records: Vec<ArchiveRecord>,
        limits: ArchiveLimits,
    ) -> Result<Self, StoreError> {
        let mut kept: Vec<ArchiveRecord> =
            records.into_iter().filter(|record| !record.text.trim().is_empty()).collect();
        let omitted = kept.len().saturating_sub(limits.max_records_per_batch as usize);
        kept.drain(..omitted);
        let mut hasher = blake3::Hasher::new();
        for record in &mut kept {
            if let Some((cut, _)) = record.text.char_indices().nth(limits.max_record_chars as usize) {
                record.text.truncate(cut);
            }
            hasher.update(record.role.as_str().as_bytes());
            hasher.update(&(record.text.len() as u64).to_le_bytes());
            hasher.update(record.text.as_bytes());
        }
        let digest = hasher.finalize().to_hex().to_string();
        let source_id = |position: usize| {
            let hash = blake3::hash(format!("{digest} {position}").as_bytes()).to_hex();
            format!("r{}", &hash[..32])
        };
        let rows: Vec<_> = kept
            .iter()
            .enumerate()
            .map(|(n, record)| (source_id(n), record.role.as_str(), &record.text, spaced(&record.text)))
            .collect();
        let records = serde_json::to_string(&rows).map_err(|error| damaged("records cannot be written", error))?;
        let batch = ArchivedBatch {
            batch_id: format!("b{}", &digest[..32]),
            digest,
            records: kept.len() as u64,
            omitted_records: omitted as u64,
        };
        let batch = PackedBatch { batch, created_at: now(), records };
        Ok(Self { user_id, thread_id, batch, max_batches: limits.max_batches.max(1) })
    }
}

const LOOK: &str = "
    SELECT t.thread_key, b.batch_id, b.records, b.omitted FROM threads t
        LEFT JOIN archive_batches b ON b.thread_key = t.thread_key AND b.digest = $3
        WHERE t.thread_id = $1 AND t.user_id = $2";
/// The oldest batches beyond a number.
const BEYOND: &str = "
    SELECT batch_key FROM archive_batches WHERE thread_key = $1 ORDER BY batch_key DESC LIMIT -1 OFFSET $2";
const DROP: &str = "
    DELETE FROM archive_index WHERE rowid IN (SELECT record_key FROM archive_records WHERE batch_key = $1);
    DELETE FROM archive_records WHERE batch_key = $1;
    DELETE FROM archive_batches WHERE batch_key = $1";

pub(super) async fn archive(conn: &mut SqliteConnection, op: &ArchiveOp) -> Result<Done, Fault> {
    let row = sqlx::query(LOOK)
        .bind(op.thread_id.as_str().to_owned())
        .bind(op.user_id.as_str().to_owned())
        .bind(op.batch.batch.digest.clone())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else {
        return Err(StoreError::NotFound { what: "thread", id: op.thread_id.to_string() }.into());
    };
    let thread_key: i64 = row.try_get(0)?;
    if row.try_get::<Option<String>, _>(1)?.is_none() {
        insert_batch(conn, thread_key, &op.batch).await?;
        let beyond: Vec<i64> =
            sqlx::query_scalar(BEYOND).bind(thread_key).bind(op.max_batches).fetch_all(&mut *conn).await?;
        for batch_key in beyond {
            sqlx::query(DROP).bind(batch_key).fetch_all(&mut *conn).await?;
        }
    }
    Ok(Done::Archived(op.batch.batch.clone()))
}

const BATCH: &str = "
    INSERT INTO archive_batches (thread_key, batch_id, digest, records, omitted, created_at)
        VALUES ($1, $2, $3, $4, $5, $6) RETURNING batch_key";
const RECORDS: &str = "
    INSERT INTO archive_records (thread_key, batch_key, source_id, role, text, created_at)
        SELECT $1, $2, row.value ->> 0, row.value ->> 1, row.value ->> 2, $3 FROM json_each($4) row ORDER BY row.key;
    INSERT INTO archive_index (rowid, scope, body)
        SELECT r.record_key, 't' || $1 || ' r' || r.role, row.value ->> 3
        FROM json_each($4) row JOIN archive_records r ON r.thread_key = $1 AND r.source_id = row.value ->> 0";

pub(super) async fn insert_batch(
    conn: &mut SqliteConnection,
    thread_key: i64,
    packed: &PackedBatch,
) -> Result<(), sqlx::Error> {
    let PackedBatch { batch, created_at, records } = packed;
    let batch_key: i64 = sqlx::query_scalar(BATCH)
        .bind(thread_key)
        .bind(batch.batch_id.clone())
        .bind(batch.digest.clone())
        .bind(batch.records as i64)
        .bind(batch.omitted_records as i64)
        .bind(created_at)
        .fetch_one(&mut *conn)
        .await?;
    let query = sqlx::query(RECORDS).bind(thread_key).bind(batch_key).bind(created_at).bind(records.clone());
    // Rows are collected rather than counted: the text holds several statements.
    query.fetch_all(&mut *conn).await.map(drop)
}
