//! Rows that come in numbers: content and journal.

use crate::pack::Hash;
use sqlx::SqliteConnection;

/// A journal row with references.
#[derive(Debug)]
pub(crate) struct PackedEvent {
    pub(crate) category: String,
    pub(crate) event: String,
    pub(crate) content: String,
}

const PIECES_1: &str =
    "INSERT INTO blobs (thread_key, hash, data) VALUES ($1, $2, $3) ON CONFLICT (thread_key, hash) DO NOTHING";
const PIECES_4: &str = "INSERT INTO blobs (thread_key, hash, data)
    VALUES ($1, $2, $3), ($1, $4, $5), ($1, $6, $7), ($1, $8, $9) ON CONFLICT (thread_key, hash) DO NOTHING";

pub(super) async fn insert_pieces(
    conn: &mut SqliteConnection,
    thread_key: i64,
    pieces: &[(Hash, Vec<u8>)],
) -> Result<(), sqlx::Error> {
    let (fours, ones) = pieces.as_chunks::<4>();
    for four in fours {
        let mut query = sqlx::query(PIECES_4).bind(thread_key);
        for (hash, data) in four {
            query = query.bind(hash.bytes().to_vec()).bind(data.clone());
        }
        query.execute(&mut *conn).await?;
    }
    for (hash, data) in ones {
        let query = sqlx::query(PIECES_1).bind(thread_key).bind(hash.bytes().to_vec()).bind(data.clone());
        query.execute(&mut *conn).await?;
    }
    Ok(())
}

const EVENTS_1: &str = "INSERT INTO events (thread_key, run_id, created_at, seq, category, event, content)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const EVENTS_2: &str = "INSERT INTO events (thread_key, run_id, created_at, seq, category, event, content)
    VALUES ($1, $2, $3, $4, $5, $6, $7), ($1, $2, $3, $4 + 1, $8, $9, $10)";
const EVENTS_4: &str = "INSERT INTO events (thread_key, run_id, created_at, seq, category, event, content)
    VALUES ($1, $2, $3, $4, $5, $6, $7), ($1, $2, $3, $4 + 1, $8, $9, $10),
        ($1, $2, $3, $4 + 2, $11, $12, $13), ($1, $2, $3, $4 + 3, $14, $15, $16)";

/// Writes rows from `first_seq` on.
pub(super) async fn insert_events(
    conn: &mut SqliteConnection,
    thread_key: i64,
    run_id: &str,
    now: i64,
    first_seq: i64,
    mut rows: &[PackedEvent],
) -> Result<(), sqlx::Error> {
    let mut seq = first_seq;
    while !rows.is_empty() {
        let (sql, count) = match rows.len() {
            1 => (EVENTS_1, 1),
            2 | 3 => (EVENTS_2, 2),
            _ => (EVENTS_4, 4),
        };
        let mut query = sqlx::query(sql).bind(thread_key).bind(run_id.to_owned()).bind(now).bind(seq);
        let (these, rest) = rows.split_at(count);
        for row in these {
            query = query.bind(row.category.clone()).bind(row.event.clone()).bind(row.content.clone());
        }
        query.execute(&mut *conn).await?;
        seq += these.len() as i64;
        rows = rest;
    }
    Ok(())
}
