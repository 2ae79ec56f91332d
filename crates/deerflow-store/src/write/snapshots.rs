//! Snapshots.

use super::Done;
use super::content::insert_pieces;
use crate::error::Fault;
use crate::snapshot::Snapshot;
use sqlx::SqliteConnection;

/// Nothing when the thread is gone, or another snapshot came first: it is an accelerator.
const SNAPSHOT: &str = "
    INSERT INTO snapshots (lineage_key, ordinal, messages, channels)
        SELECT lineage_key, $2, $3, $4 FROM lineages
        WHERE lineage_key = $1 AND thread_key = $5 AND snapshot_ordinal = $7
            AND EXISTS (SELECT 1 FROM steps WHERE lineage_key = $1 AND ordinal = $2 AND checkpoint_id = $6)
        ON CONFLICT (lineage_key, ordinal) DO NOTHING";
/// A head that has branched off since does not stand on it.
const SNAPSHOT_TAKEN: &str = "
    UPDATE lineages SET snapshot_ordinal = $2, snapshot_channels = $3, log_bytes = log_bytes - $4
        WHERE lineage_key = $1 AND NOT EXISTS (SELECT 1 FROM branches WHERE lineage_key = $1 AND ordinal > $2)";

pub(super) async fn snapshot(conn: &mut SqliteConnection, snapshot: &Snapshot) -> Result<Done, Fault> {
    let at = snapshot.at;
    let written = sqlx::query(SNAPSHOT)
        .bind(at.lineage_key)
        .bind(at.ordinal)
        .bind(snapshot.messages.clone())
        .bind(snapshot.channels.clone())
        .bind(at.thread_key)
        .bind(snapshot.id.as_str().to_owned())
        .bind(at.snapshot_ordinal)
        .execute(&mut *conn)
        .await?
        .rows_affected();
    if written == 0 {
        return Ok(Done::Nothing);
    }
    insert_pieces(conn, at.thread_key, &snapshot.pieces).await?;
    sqlx::query(SNAPSHOT_TAKEN)
        .bind(at.lineage_key)
        .bind(at.ordinal)
        .bind(snapshot.channels.len() as i64)
        .bind(at.log_bytes)
        .execute(&mut *conn)
        .await?;
    Ok(Done::Nothing)
}
