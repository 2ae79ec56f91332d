//! Checkpoints without their states, and open effects.

use super::fetch;
use crate::error::{Place, damaged};
use crate::names::{id, kind, next, unsigned};
use crate::pack::{PackedFrame, Shelf};
use crate::write::other_mode;
use deerflow_core::ports::{Checkpoint, HistoryEntry, OpenEffect};
use deerflow_core::run::Next;
use deerflow_core::{CheckpointId, Lineage, StoreError, ThreadState};
use sqlx::{FromRow, SqliteConnection};

/// A checkpoint and where it lies.
pub(crate) struct StepRow {
    pub(crate) entry: HistoryEntry,
    pub(crate) thread_key: i64,
    pub(crate) lineage_key: i64,
    pub(crate) ordinal: i64,
    pub(crate) is_head: bool,
}

#[derive(FromRow)]
struct RawStep {
    thread_key: i64,
    thread_id: String,
    mode: String,
    lineage_key: i64,
    head_ordinal: i64,
    ordinal: i64,
    checkpoint_id: String,
    parent: Option<String>,
    run_id: Option<String>,
    kind: String,
    step: i64,
    next: String,
    created_at: i64,
}

impl RawStep {
    fn read(self, place: &Place) -> Result<StepRow, StoreError> {
        if self.mode != place.mode() {
            return Err(other_mode(&self.thread_id, self.mode, place.mode()));
        }
        Ok(StepRow {
            thread_key: self.thread_key,
            lineage_key: self.lineage_key,
            ordinal: self.ordinal,
            is_head: self.ordinal == self.head_ordinal,
            entry: HistoryEntry {
                id: id(self.checkpoint_id)?,
                parent: self.parent.map(id).transpose()?,
                run_id: self.run_id.map(id).transpose()?,
                kind: kind(&self.kind)?,
                step: unsigned(self.step)?,
                next: next(&self.next)?,
                created_at: self.created_at,
            },
        })
    }
}

/// A history entry with its state.
pub(crate) fn checkpoint(entry: HistoryEntry, state: ThreadState, open_effects: Vec<OpenEffect>) -> Checkpoint {
    Checkpoint {
        id: entry.id,
        parent: entry.parent,
        run_id: entry.run_id,
        kind: entry.kind,
        step: entry.step,
        next: entry.next,
        created_at: entry.created_at,
        state,
        open_effects,
    }
}

const HEAD: &str = "
    SELECT t.thread_key, t.thread_id, t.mode, l.lineage_key, l.head_ordinal, s.ordinal, s.checkpoint_id, s.parent, s.run_id, s.kind,
            s.step, s.next, s.created_at
        FROM threads t JOIN lineages l ON l.thread_key = t.thread_key
        JOIN steps s ON s.lineage_key = l.lineage_key AND s.ordinal = l.head_ordinal
        WHERE t.thread_id = $1 AND l.namespace = $2";
const AT: &str = "
    SELECT t.thread_key, t.thread_id, t.mode, l.lineage_key, l.head_ordinal, s.ordinal, s.checkpoint_id, s.parent, s.run_id, s.kind,
            s.step, s.next, s.created_at
        FROM steps s JOIN lineages l ON l.lineage_key = s.lineage_key
        JOIN threads t ON t.thread_key = l.thread_key
        WHERE s.checkpoint_id = $3 AND t.thread_id = $1 AND l.namespace = $2";
const BEFORE: &str = "
    SELECT t.thread_key, t.thread_id, t.mode, l.lineage_key, l.head_ordinal, s.ordinal, s.checkpoint_id, s.parent, s.run_id, s.kind,
            s.step, s.next, s.created_at
        FROM threads t JOIN lineages l ON l.thread_key = t.thread_key
        JOIN steps s ON s.lineage_key = l.lineage_key AND s.ordinal < $3
        WHERE t.thread_id = $1 AND l.namespace = $2 ORDER BY s.ordinal DESC LIMIT $4";

/// One checkpoint of a lineage, the head when `at` is absent.
pub(crate) async fn step(
    view: &mut SqliteConnection,
    place: &Place,
    lineage: &Lineage,
    at: Option<&CheckpointId>,
) -> Result<Option<StepRow>, StoreError> {
    let query = sqlx::query_as::<_, RawStep>(if at.is_some() { AT } else { HEAD })
        .bind(lineage.thread_id.as_str().to_owned())
        .bind(lineage.namespace.clone());
    let query = match at {
        Some(at) => query.bind(at.as_str().to_owned()),
        None => query,
    };
    let row = query.fetch_optional(&mut *view).await.map_err(|error| place.explain(&error))?;
    row.map(|row| row.read(place)).transpose()
}

/// Checkpoints, newest first.
pub(crate) async fn history(
    view: &mut SqliteConnection,
    place: &Place,
    lineage: &Lineage,
    before: Option<&CheckpointId>,
    limit: u32,
) -> Result<Vec<HistoryEntry>, StoreError> {
    let below = match before {
        None => i64::MAX,
        Some(before) => match step(view, place, lineage, Some(before)).await? {
            Some(row) => row.ordinal,
            None => return Err(StoreError::NotFound { what: "checkpoint", id: before.to_string() }),
        },
    };
    let rows = sqlx::query_as::<_, RawStep>(BEFORE)
        .bind(lineage.thread_id.as_str().to_owned())
        .bind(lineage.namespace.clone())
        .bind(below)
        .bind(i64::from(limit))
        .fetch_all(&mut *view)
        .await
        .map_err(|error| place.explain(&error))?;
    rows.into_iter().map(|row| row.read(place).map(|row| row.entry)).collect()
}

#[derive(FromRow)]
struct RawEffect {
    call_index: i64,
    call_id: String,
    tool: String,
    fingerprint: Option<String>,
    finished: Option<String>,
    end_run: i64,
}

const EFFECTS: &str = "
    SELECT call_index, call_id, tool, fingerprint, finished, end_run FROM effects
        WHERE lineage_key = $1 AND ordinal = $2 ORDER BY call_index, run_id, step";

/// Effects of a batch that began after this checkpoint and was not committed.
pub(crate) async fn open_effects(
    view: &mut SqliteConnection,
    place: &Place,
    at: &StepRow,
) -> Result<Vec<OpenEffect>, StoreError> {
    if at.entry.next != Next::Tools {
        return Ok(Vec::new());
    }
    let rows = sqlx::query_as::<_, RawEffect>(EFFECTS)
        .bind(at.lineage_key)
        .bind(at.ordinal)
        .fetch_all(&mut *view)
        .await
        .map_err(|error| place.explain(&error))?;
    let mut wanted = Vec::new();
    let mut read = Vec::with_capacity(rows.len());
    for mut row in rows {
        let frame = row.finished.take().map(|text| PackedFrame::parse(&text)).transpose()?;
        if let Some(frame) = &frame {
            frame.references(&mut wanted);
        }
        read.push((row, frame));
    }
    let mut shelf = Shelf::default();
    fetch(view, place, at.thread_key, wanted, &mut shelf).await?;
    read.into_iter()
        .map(|(row, frame)| {
            let fingerprint = row.fingerprint.map(|text| serde_json::from_str(&text)).transpose();
            let finished = frame.map(|frame| frame.unpack(&mut shelf)).transpose()?;
            Ok(OpenEffect {
                index: usize::try_from(row.call_index).map_err(|error| damaged("an effect", error))?,
                call_id: row.call_id,
                tool: row.tool,
                fingerprint: fingerprint.map_err(|error| damaged("an effect", error))?,
                finished: finished.map(|update| (update, row.end_run != 0)),
            })
        })
        .collect()
}
