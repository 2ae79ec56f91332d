//! What a fork copies.

use super::archive::batches;
use super::steps::StepRow;
use crate::error::Place;
use crate::pack::{Hash, PackedFrame};
use crate::write::{Copied, CopiedHistory};
use deerflow_core::{StoreError, ThreadId, UserId};
use sqlx::{Row as _, SqliteConnection};
use std::collections::BTreeSet;

const THREAD: &str = "SELECT thread_key FROM threads WHERE thread_id = $1 AND user_id = $2";
const STEPS: &str = "SELECT updates FROM steps WHERE lineage_key = $1 AND ordinal <= $2";
const SNAPSHOTS: &str = "SELECT ordinal, messages, channels FROM snapshots WHERE lineage_key = $1 AND ordinal <= $2";

/// Key of a user's thread.
pub(crate) async fn thread_key(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    thread_id: &ThreadId,
) -> Result<Option<i64>, StoreError> {
    let query = sqlx::query_scalar(THREAD).bind(thread_id.as_str().to_owned()).bind(user_id.as_str().to_owned());
    query.fetch_optional(view).await.map_err(|error| place.explain(&error))
}

/// Collects what a history up to a step consists of. What was archived later than the step is left out, unless it is the
/// head.
pub(crate) async fn copied(
    view: &mut SqliteConnection,
    place: &Place,
    thread_key: i64,
    at: Option<(StepRow, Option<String>)>,
) -> Result<Copied, StoreError> {
    let explain = |error: sqlx::Error| place.explain(&error);
    let until = at.as_ref().filter(|(row, _)| !row.is_head).map_or(i64::MAX, |(row, _)| row.entry.created_at);
    let archive = batches(view, place, thread_key, until).await?;
    let Some((row, title)) = at else { return Ok(Copied { thread_key, history: None, archive }) };
    let mut found: Vec<Hash> = Vec::new();
    let mut hashes = BTreeSet::new();
    let updates: Vec<String> = sqlx::query_scalar(STEPS)
        .bind(row.lineage_key)
        .bind(row.ordinal)
        .fetch_all(&mut *view)
        .await
        .map_err(explain)?;
    for text in updates {
        PackedFrame::parse_list(&text)?.iter().for_each(|frame| frame.references(&mut found));
        hashes.extend(found.drain(..));
    }
    let mut snapshots = Vec::new();
    let query = sqlx::query(SNAPSHOTS).bind(row.lineage_key).bind(row.ordinal);
    for snapshot in query.fetch_all(&mut *view).await.map_err(explain)? {
        snapshots.push(snapshot.try_get::<i64, _>(0).map_err(explain)?);
        hashes.extend(Hash::list(&snapshot.try_get::<Vec<u8>, _>(1).map_err(explain)?)?);
        let channels: String = snapshot.try_get(2).map_err(explain)?;
        PackedFrame::parse_channels(&channels)?.references(&mut found);
        hashes.extend(found.drain(..));
    }
    let history = CopiedHistory {
        lineage_key: row.lineage_key,
        at: row.entry.id,
        ordinal: row.ordinal,
        snapshots: serde_json::json!(snapshots).to_string(),
        hashes: serde_json::Value::from(hashes.iter().map(Hash::hex).collect::<Vec<_>>()).to_string(),
        title,
    };
    Ok(Copied { thread_key, history: Some(history), archive })
}
