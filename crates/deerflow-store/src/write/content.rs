//! Rows that come in numbers: content and journal. Any number of them are one statement and one text.

use crate::error::damaged;
use crate::pack::{Block, Pile, pack_journal};
use deerflow_core::StoreError;
use deerflow_core::ports::NewJournalRow;
use sqlx::SqliteConnection;

/// Journal rows with references: a JSON list of category, event, content (a text) and metadata (a text,
/// or null when there is none).
#[derive(Debug)]
pub(crate) struct PackedEvents {
    pub(crate) rows: String,
    pub(crate) count: i64,
}

pub(crate) fn pack_events(rows: &[NewJournalRow], pile: &mut Pile) -> Result<PackedEvents, StoreError> {
    let packed = rows
        .iter()
        .map(|row| {
            let metadata = (!row.metadata.is_empty()).then(|| serde_json::to_string(&row.metadata)).transpose();
            let metadata = metadata.map_err(|error| damaged("journal metadata cannot be written", error))?;
            Ok((&row.category, &row.event, pack_journal(&row.content, pile)?, metadata))
        })
        .collect::<Result<Vec<_>, StoreError>>()?;
    let text = serde_json::to_string(&packed).map_err(|error| damaged("journal rows cannot be written", error))?;
    Ok(PackedEvents { rows: text, count: i64::try_from(rows.len()).unwrap_or(i64::MAX) })
}

const PIECES: &str = "
    INSERT INTO blobs (thread_key, hash, data)
        SELECT $1, unhex(piece.value ->> 0), substr($3, piece.value ->> 1, piece.value ->> 2) FROM json_each($2) piece
        WHERE true ON CONFLICT (thread_key, hash) DO NOTHING";

pub(super) async fn insert_pieces(
    conn: &mut SqliteConnection,
    thread_key: i64,
    pieces: &Block,
) -> Result<(), sqlx::Error> {
    if pieces.pieces > 0 {
        let query = sqlx::query(PIECES).bind(thread_key).bind(pieces.index.clone()).bind(pieces.data.clone());
        query.execute(&mut *conn).await?;
    }
    Ok(())
}

const EVENTS: &str = "
    INSERT INTO events (thread_key, seq, run_id, category, event, content, metadata, created_at)
        SELECT $1, $2 + row.key, $3, row.value ->> 0, row.value ->> 1, row.value ->> 2, row.value ->> 3, $4
        FROM json_each($5) row";

/// Writes rows from `first_seq` on.
pub(super) async fn insert_events(
    conn: &mut SqliteConnection,
    thread_key: i64,
    run_id: &str,
    now: i64,
    first_seq: i64,
    events: &PackedEvents,
) -> Result<(), sqlx::Error> {
    if events.count > 0 {
        let query = sqlx::query(EVENTS).bind(thread_key).bind(first_seq).bind(run_id.to_owned()).bind(now);
        query.bind(events.rows.clone()).execute(&mut *conn).await?;
    }
    Ok(())
}
