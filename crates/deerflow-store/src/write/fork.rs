//! A thread made from another.

use super::Done;
use super::archive::{PackedBatch, insert_batch};
use super::threads::no_thread;
use crate::error::{Fault, damaged};
use crate::names::now;
use crate::path::path_log;
use deerflow_core::ports::{FORKED_FROM_CHECKPOINT, FORKED_FROM_THREAD, ThreadFork};
use deerflow_core::{CheckpointId, StoreError, UserId};
use serde_json::Value;
use sqlx::{Row as _, SqliteConnection};

/// What of the original is copied, as a reader found it. None of it can change, only go away with its thread.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) thread_key: i64,
    /// Absent when there is no step.
    pub(crate) history: Option<CopiedHistory>,
    pub(crate) archive: Vec<PackedBatch>,
}

/// Steps to copy.
#[derive(Debug)]
pub(crate) struct CopiedHistory {
    pub(crate) lineage_key: i64,
    pub(crate) at: CheckpointId,
    /// Ordinal of the last step.
    pub(crate) ordinal: i64,
    /// Ordinals of snapshots: a JSON list.
    pub(crate) snapshots: String,
    /// What steps and snapshots refer to: a JSON list of hashes.
    pub(crate) hashes: String,
    /// Name of the conversation at the last step.
    pub(crate) title: Option<String>,
}

/// A fork ready to be written.
#[derive(Debug)]
pub(crate) struct ForkOp {
    user_id: UserId,
    fork: ThreadFork,
    metadata: String,
    copied: Copied,
}

impl ForkOp {
    pub(crate) fn pack(user_id: UserId, mut fork: ThreadFork, copied: Copied) -> Result<Self, StoreError> {
        let at = copied.history.as_ref().map_or(Value::Null, |history| Value::from(history.at.as_str()));
        fork.metadata.insert(FORKED_FROM_THREAD.to_owned(), Value::from(fork.from.as_str()));
        fork.metadata.insert(FORKED_FROM_CHECKPOINT.to_owned(), at);
        let metadata =
            serde_json::to_string(&fork.metadata).map_err(|error| damaged("metadata cannot be written", error))?;
        Ok(Self { user_id, fork, metadata, copied })
    }
}

const LOOK: &str = "
    SELECT EXISTS (SELECT 1 FROM threads WHERE thread_key = $1 AND thread_id = $2 AND user_id = $3),
        EXISTS (SELECT 1 FROM threads WHERE thread_id = $4)";
const THREAD: &str = "
    INSERT INTO threads (thread_id, user_id, title, metadata, status, mode, last_seq, created_at, updated_at)
        SELECT $2, user_id, $3, $4, 'idle', mode, 0, $5, $5 FROM threads WHERE thread_key = $1 RETURNING thread_key";
const LINEAGE: &str = "
    INSERT INTO lineages (thread_key, namespace, head_id, head_ordinal, log_bytes, snapshot_ordinal, snapshot_channels)
        VALUES ($1, '', $2, $3, $4, $5, $6) RETURNING lineage_key";
/// $1 new lineage, $2 old one, $3 last ordinal, $4 snapshots, $5 new thread, $6 old one, $7 hashes.
const HISTORY: &str = "
    INSERT INTO steps (lineage_key, ordinal, checkpoint_id, parent, run_id, kind, step, next, created_at, updates)
        SELECT $1, ordinal, checkpoint_id, parent, run_id, kind, step, next, created_at, updates
        FROM steps WHERE lineage_key = $2 AND ordinal <= $3 ORDER BY ordinal;
    INSERT INTO branches (lineage_key, ordinal, base_ordinal)
        SELECT $1, ordinal, base_ordinal FROM branches WHERE lineage_key = $2 AND ordinal <= $3;
    INSERT INTO snapshots (lineage_key, ordinal, messages, channels)
        SELECT $1, ordinal, messages, channels FROM snapshots
        WHERE lineage_key = $2 AND ordinal IN (SELECT value FROM json_each($4));
    INSERT INTO blobs (thread_key, hash, data)
        SELECT $5, b.hash, b.data FROM json_each($7) wanted CROSS JOIN blobs b
        ON b.thread_key = $6 AND b.hash = unhex(wanted.value)";

pub(super) async fn fork(conn: &mut SqliteConnection, op: &ForkOp) -> Result<Done, Fault> {
    let (fork, copied) = (&op.fork, &op.copied);
    let row = sqlx::query(LOOK)
        .bind(copied.thread_key)
        .bind(fork.from.as_str().to_owned())
        .bind(op.user_id.as_str().to_owned())
        .bind(fork.new_thread_id.as_str().to_owned())
        .fetch_one(&mut *conn)
        .await?;
    if !row.try_get::<bool, _>(0)? {
        return Err(no_thread(&fork.from).into());
    }
    if row.try_get::<bool, _>(1)? {
        return Err(StoreError::Exists { what: "thread", id: fork.new_thread_id.to_string() }.into());
    }
    let thread_key: i64 = sqlx::query_scalar(THREAD)
        .bind(copied.thread_key)
        .bind(fork.new_thread_id.as_str().to_owned())
        .bind(copied.history.as_ref().and_then(|history| history.title.clone()))
        .bind(op.metadata.clone())
        .bind(now())
        .fetch_one(&mut *conn)
        .await?;
    if let Some(history) = &copied.history {
        let log = path_log(conn, history.lineage_key, history.ordinal).await?;
        let lineage_key: i64 = sqlx::query_scalar(LINEAGE)
            .bind(thread_key)
            .bind(history.at.as_str().to_owned())
            .bind(history.ordinal)
            .bind(log.bytes)
            .bind(log.snapshot_ordinal)
            .bind(log.snapshot_channels)
            .fetch_one(&mut *conn)
            .await?;
        sqlx::query(HISTORY)
            .bind(lineage_key)
            .bind(history.lineage_key)
            .bind(history.ordinal)
            .bind(history.snapshots.clone())
            .bind(thread_key)
            .bind(copied.thread_key)
            .bind(history.hashes.clone())
            // Rows are collected rather than counted: the text holds several statements.
            .fetch_all(&mut *conn)
            .await?;
    }
    for batch in &copied.archive {
        insert_batch(conn, thread_key, batch).await?;
    }
    Ok(Done::Nothing)
}
