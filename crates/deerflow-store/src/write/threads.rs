//! Thread rows: making, changing and deleting them.

use super::Done;
use super::runs::busy;
use crate::config::ChannelMode;
use crate::error::{Fault, damaged};
use crate::names::now;
use deerflow_core::ports::ThreadPatch;
use deerflow_core::{JsonMap, StoreError, ThreadId, UserId};
use sqlx::{Row as _, SqliteConnection};

pub(super) fn no_thread(thread_id: &ThreadId) -> StoreError {
    StoreError::NotFound { what: "thread", id: thread_id.to_string() }
}

const CREATE: &str = "
    INSERT INTO threads (thread_id, user_id, metadata, status, mode, last_seq, created_at, updated_at)
        VALUES ($1, $2, $3, 'idle', $4, 0, $5, $5) ON CONFLICT (thread_id) DO NOTHING RETURNING thread_key";
const OWNER: &str = "SELECT user_id FROM threads WHERE thread_id = $1";

pub(super) async fn create(
    conn: &mut SqliteConnection,
    user_id: &UserId,
    thread_id: &ThreadId,
    metadata: &JsonMap,
    mode: &'static str,
) -> Result<Done, Fault> {
    let made = sqlx::query(CREATE)
        .bind(thread_id.as_str().to_owned())
        .bind(user_id.as_str().to_owned())
        .bind(text(metadata)?)
        .bind(mode)
        .bind(now())
        .fetch_optional(&mut *conn)
        .await?;
    if made.is_none() {
        let query = sqlx::query_scalar::<_, String>(OWNER).bind(thread_id.as_str().to_owned());
        if query.fetch_one(&mut *conn).await? != user_id.as_str() {
            return Err(no_thread(thread_id).into());
        }
    }
    Ok(Done::Created(made.is_some()))
}

fn text(metadata: &JsonMap) -> Result<String, StoreError> {
    serde_json::to_string(metadata).map_err(|error| damaged("metadata cannot be written", error))
}

const METADATA: &str = "SELECT thread_key, metadata FROM threads WHERE thread_id = $1 AND user_id = $2";
const PATCH: &str = "
    UPDATE threads SET metadata = $2, title = CASE WHEN $3 THEN $4 ELSE title END,
            updated_at = CASE WHEN $5 THEN updated_at ELSE $6 END
        WHERE thread_key = $1";

pub(super) async fn patch(
    conn: &mut SqliteConnection,
    user_id: &UserId,
    thread_id: &ThreadId,
    patch: &ThreadPatch,
) -> Result<Done, Fault> {
    let row = sqlx::query(METADATA)
        .bind(thread_id.as_str().to_owned())
        .bind(user_id.as_str().to_owned())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else { return Err(no_thread(thread_id).into()) };
    let mut metadata: JsonMap =
        serde_json::from_str(&row.try_get::<String, _>(1)?).map_err(|error| damaged("thread metadata", error))?;
    for (key, value) in &patch.metadata {
        if value.is_null() {
            metadata.shift_remove(key);
        } else {
            metadata.insert(key.clone(), value.clone());
        }
    }
    sqlx::query(PATCH)
        .bind(row.try_get::<i64, _>(0)?)
        .bind(text(&metadata)?)
        .bind(patch.title.is_some())
        .bind(patch.title.clone().flatten())
        .bind(patch.quiet)
        .bind(now())
        .execute(&mut *conn)
        .await?;
    Ok(Done::Nothing)
}

pub(super) async fn migrate(
    conn: &mut SqliteConnection,
    user_id: &UserId,
    thread_id: &ThreadId,
    mode: ChannelMode,
) -> Result<Done, Fault> {
    let thread_key = idle(conn, user_id, thread_id).await?;
    let query = sqlx::query("UPDATE threads SET mode = $2 WHERE thread_key = $1").bind(thread_key).bind(mode.as_str());
    query.execute(&mut *conn).await?;
    Ok(Done::Nothing)
}

const LOOK: &str = "
    SELECT t.thread_key, live.run_id, live.worker_label FROM threads t
        LEFT JOIN runs live ON live.thread_key = t.thread_key AND live.status IN ('pending', 'running')
        WHERE t.thread_id = $1 AND t.user_id = $2";
/// Content belongs to one thread, so that nothing has to be searched for other uses.
const DELETE: &str = "
    DELETE FROM effects WHERE lineage_key IN (SELECT lineage_key FROM lineages WHERE thread_key = $1);
    DELETE FROM snapshots WHERE lineage_key IN (SELECT lineage_key FROM lineages WHERE thread_key = $1);
    DELETE FROM branches WHERE lineage_key IN (SELECT lineage_key FROM lineages WHERE thread_key = $1);
    DELETE FROM steps WHERE lineage_key IN (SELECT lineage_key FROM lineages WHERE thread_key = $1);
    DELETE FROM lineages WHERE thread_key = $1;
    DELETE FROM archive_index WHERE rowid IN (SELECT record_key FROM archive_records WHERE thread_key = $1);
    DELETE FROM archive_records WHERE thread_key = $1;
    DELETE FROM archive_batches WHERE thread_key = $1;
    DELETE FROM run_inputs WHERE thread_key = $1;
    DELETE FROM blobs WHERE thread_key = $1;
    DELETE FROM events WHERE thread_key = $1;
    DELETE FROM feedback WHERE thread_key = $1;
    DELETE FROM runs WHERE thread_key = $1;
    DELETE FROM threads WHERE thread_key = $1";

pub(super) async fn delete(conn: &mut SqliteConnection, user_id: &UserId, thread_id: &ThreadId) -> Result<Done, Fault> {
    let thread_key = idle(conn, user_id, thread_id).await?;
    // Rows are collected rather than counted: the text holds several statements.
    sqlx::query(DELETE).bind(thread_key).fetch_all(&mut *conn).await?;
    Ok(Done::Nothing)
}

/// Deletes a thread unless it has been used since, or a run is live on it.
pub(super) async fn delete_unused(
    conn: &mut SqliteConnection,
    user_id: &UserId,
    thread_id: &ThreadId,
    since: i64,
) -> Result<Done, Fault> {
    let unused = sqlx::query("SELECT 1 FROM threads WHERE thread_id = $1 AND updated_at < $2")
        .bind(thread_id.as_str().to_owned())
        .bind(since)
        .fetch_optional(&mut *conn)
        .await?;
    if unused.is_none() {
        return Err(no_thread(thread_id).into());
    }
    delete(conn, user_id, thread_id).await
}

/// The key of a user's thread that no run is live on.
async fn idle(conn: &mut SqliteConnection, user_id: &UserId, thread_id: &ThreadId) -> Result<i64, Fault> {
    let row = sqlx::query(LOOK)
        .bind(thread_id.as_str().to_owned())
        .bind(user_id.as_str().to_owned())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else { return Err(no_thread(thread_id).into()) };
    if let Some(run_id) = row.try_get::<Option<String>, _>(1)? {
        return Err(busy(thread_id.as_str(), run_id, row.try_get(2)?).into());
    }
    Ok(row.try_get(0)?)
}
