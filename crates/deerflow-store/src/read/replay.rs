//! States: the nearest snapshot and the updates since.

use super::fetch;
use super::steps::StepRow;
use crate::error::{Place, damaged};
use crate::pack::{Hash, PackedFrame, Shelf};
use crate::path::segments;
use deerflow_core::ports::StepKind;
use deerflow_core::{StateUpdate, StoreError, ThreadState};
use sqlx::{Row as _, SqliteConnection};

/// More than this is replayed off the reactor, in bytes of content.
const SMALL_BYTES: usize = 64 * 1024;

const SNAPSHOT: &str = "SELECT messages, channels FROM snapshots WHERE lineage_key = $1 AND ordinal = $2";
const STEPS: &str = "
    SELECT ordinal, kind, updates FROM steps WHERE lineage_key = $1 AND ordinal BETWEEN $2 AND $3 ORDER BY ordinal";

/// What a state is rebuilt from.
pub(crate) struct Log {
    snapshot: Option<(Vec<Hash>, PackedFrame)>,
    steps: Vec<(StepKind, Vec<PackedFrame>)>,
    shelf: Shelf,
}

/// Reads what the state at a checkpoint is rebuilt from.
pub(crate) async fn log(view: &mut SqliteConnection, place: &Place, at: &StepRow) -> Result<Log, StoreError> {
    let explain = |error: sqlx::Error| place.explain(&error);
    let mut segments = segments(view, at.lineage_key, at.ordinal).await.map_err(explain)?;
    segments.reverse();
    let mut wanted = Vec::new();
    let snapshot = match segments.first().and_then(|segment| segment.snapshot) {
        None => None,
        Some(ordinal) => {
            let query = sqlx::query(SNAPSHOT).bind(at.lineage_key).bind(ordinal);
            let row = query.fetch_one(&mut *view).await.map_err(explain)?;
            let hashes = Hash::list(&row.try_get::<Vec<u8>, _>(0).map_err(explain)?)?;
            let frame = PackedFrame::parse_channels(&row.try_get::<String, _>(1).map_err(explain)?)?;
            wanted.extend_from_slice(&hashes);
            frame.references(&mut wanted);
            Some((hashes, frame))
        }
    };
    let mut steps = Vec::new();
    for segment in segments {
        let rows = sqlx::query(STEPS)
            .bind(at.lineage_key)
            .bind(segment.first())
            .bind(segment.high)
            .fetch_all(&mut *view)
            .await
            .map_err(explain)?;
        let mut next = segment.first();
        for row in rows {
            let ordinal: i64 = row.try_get(0).map_err(explain)?;
            if ordinal != next {
                return Err(missing(next, ordinal - 1));
            }
            next = ordinal + 1;
            let kind = crate::names::kind(&row.try_get::<String, _>(1).map_err(explain)?)?;
            let frames = PackedFrame::parse_list(&row.try_get::<String, _>(2).map_err(explain)?)?;
            frames.iter().for_each(|frame| frame.references(&mut wanted));
            steps.push((kind, frames));
        }
        if next != segment.high + 1 {
            return Err(missing(next, segment.high));
        }
    }
    let mut shelf = Shelf::default();
    fetch(view, place, at.thread_key, wanted, &mut shelf).await?;
    Ok(Log { snapshot, steps, shelf })
}

fn missing(first: i64, last: i64) -> StoreError {
    StoreError::Damaged(format!("steps {first} to {last} are missing"))
}

impl Log {
    /// Bytes of content it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.shelf.bytes()
    }

    /// Whether it may be replayed where one must not block.
    pub(crate) fn is_small(&self) -> bool {
        self.bytes() < SMALL_BYTES
    }

    /// The state.
    pub(crate) fn replay(self) -> Result<ThreadState, StoreError> {
        let Self { snapshot, steps, mut shelf } = self;
        let mut state = match snapshot {
            None => ThreadState::default(),
            Some((hashes, frame)) => frame.unpack_state(&hashes, &mut shelf)?,
        };
        for (kind, frames) in steps {
            let updates: Vec<StateUpdate> =
                frames.into_iter().map(|frame| frame.unpack(&mut shelf)).collect::<Result<_, _>>()?;
            let applied = match kind {
                StepKind::Tools => state.apply_concurrent(&updates),
                _ => updates.iter().try_for_each(|update| state.apply(update)),
            };
            applied.map_err(|error| damaged("a step does not replay", error))?;
        }
        Ok(state)
    }
}
