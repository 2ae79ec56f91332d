//! Deleting a thread.

use super::Done;
use crate::error::Fault;
use deerflow_core::{StoreError, ThreadId, UserId};
use sqlx::{Row as _, SqliteConnection};

const LOOK: &str = "
    SELECT t.thread_key, live.run_id, live.worker_label FROM threads t
        LEFT JOIN runs live ON live.thread_key = t.thread_key AND live.status IN ('pending', 'running')
        WHERE t.thread_id = $1 AND t.user_id = $2";
/// Content belongs to one thread, so that nothing has to be searched for other uses.
const DELETE: &str = "
    DELETE FROM effects WHERE lineage_key IN (SELECT lineage_key FROM lineages WHERE thread_key = $1);
    DELETE FROM snapshots WHERE lineage_key IN (SELECT lineage_key FROM lineages WHERE thread_key = $1);
    DELETE FROM steps WHERE lineage_key IN (SELECT lineage_key FROM lineages WHERE thread_key = $1);
    DELETE FROM lineages WHERE thread_key = $1;
    DELETE FROM blobs WHERE thread_key = $1;
    DELETE FROM events WHERE thread_key = $1;
    DELETE FROM runs WHERE thread_key = $1;
    DELETE FROM threads WHERE thread_key = $1";

pub(super) async fn delete(conn: &mut SqliteConnection, user_id: &UserId, thread_id: &ThreadId) -> Result<Done, Fault> {
    let row = sqlx::query(LOOK)
        .bind(thread_id.as_str().to_owned())
        .bind(user_id.as_str().to_owned())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else {
        return Err(StoreError::NotFound { what: "thread", id: thread_id.to_string() }.into());
    };
    if let Some(run_id) = row.try_get::<Option<String>, _>(1)? {
        let holder = row.try_get::<Option<String>, _>(2)?.unwrap_or_default();
        return Err(StoreError::ThreadBusy { thread_id: thread_id.to_string(), run_id, holder }.into());
    }
    // Rows are collected rather than counted: the text holds several statements.
    sqlx::query(DELETE).bind(row.try_get::<i64, _>(0)?).fetch_all(&mut *conn).await?;
    Ok(Done::Nothing)
}
