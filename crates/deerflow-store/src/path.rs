//! The way from the first step to a checkpoint, over all branches between.

use sqlx::{FromRow, SqliteConnection};

/// What a step costs on disk beyond its updates, ids and indexes together, in bytes. Part of the log's weight.
pub(crate) const STEP_ROW_BYTES: i64 = 200;

/// Steps that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub(crate) struct Segment {
    /// Ordinal of the first.
    pub(crate) low: i64,
    /// Ordinal of the last that counts.
    pub(crate) high: i64,
    /// Ordinal of the last snapshot among them.
    pub(crate) snapshot: Option<i64>,
}

impl Segment {
    /// Ordinal of the first step to be replayed.
    pub(crate) fn first(&self) -> i64 {
        self.snapshot.map_or(self.low, |snapshot| snapshot + 1)
    }
}

/// Follows the bases of branches down, and ends with the first segment that has a snapshot.
const SEGMENTS: &str = "
    WITH RECURSIVE segment (low, high) AS (
        SELECT COALESCE((SELECT max(ordinal) FROM branches WHERE lineage_key = $1 AND ordinal <= $2), 0), $2
        UNION ALL
        SELECT COALESCE((SELECT max(x.ordinal) FROM branches x
                WHERE x.lineage_key = $1 AND x.ordinal <= b.base_ordinal), 0), b.base_ordinal
            FROM segment s JOIN branches b ON b.lineage_key = $1 AND b.ordinal = s.low
            WHERE b.base_ordinal >= 0 AND NOT EXISTS (
                SELECT 1 FROM snapshots p WHERE p.lineage_key = $1 AND p.ordinal BETWEEN s.low AND s.high)
    )
    SELECT low, high,
            (SELECT max(ordinal) FROM snapshots WHERE lineage_key = $1 AND ordinal BETWEEN low AND high) AS snapshot
        FROM segment";

/// The segments from the nearest snapshot on the way to a step, the last one first.
pub(crate) async fn segments(
    conn: &mut SqliteConnection,
    lineage_key: i64,
    ordinal: i64,
) -> Result<Vec<Segment>, sqlx::Error> {
    sqlx::query_as(SEGMENTS).bind(lineage_key).bind(ordinal).fetch_all(conn).await
}

/// Weight of the log on the way to a step since the nearest snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathLog {
    pub(crate) bytes: i64,
    /// Ordinal of the snapshot, -1 when there is none.
    pub(crate) snapshot_ordinal: i64,
    /// Bytes of its channels.
    pub(crate) snapshot_channels: i64,
}

const WEIGHT: &str = "
    SELECT COALESCE(sum(octet_length(updates) + $4), 0) FROM steps
        WHERE lineage_key = $1 AND ordinal BETWEEN $2 AND $3";
const CHANNELS: &str = "SELECT octet_length(channels) FROM snapshots WHERE lineage_key = $1 AND ordinal = $2";

/// Weighs the log that a load of a step replays. Costs as much as the load.
pub(crate) async fn path_log(
    conn: &mut SqliteConnection,
    lineage_key: i64,
    ordinal: i64,
) -> Result<PathLog, sqlx::Error> {
    let mut log = PathLog { bytes: 0, snapshot_ordinal: -1, snapshot_channels: 0 };
    if ordinal < 0 {
        return Ok(log);
    }
    for segment in segments(conn, lineage_key, ordinal).await? {
        log.bytes += sqlx::query_scalar::<_, i64>(WEIGHT)
            .bind(lineage_key)
            .bind(segment.first())
            .bind(segment.high)
            .bind(STEP_ROW_BYTES)
            .fetch_one(&mut *conn)
            .await?;
        if let Some(snapshot) = segment.snapshot {
            log.snapshot_ordinal = snapshot;
            log.snapshot_channels =
                sqlx::query_scalar(CHANNELS).bind(lineage_key).bind(snapshot).fetch_one(&mut *conn).await?;
        }
    }
    Ok(log)
}
