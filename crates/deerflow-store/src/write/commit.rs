//! Steps.

use super::Done;
use super::content::{PackedEvents, pack_events};
use super::effects::{EFFECTS, EFFECTS_ALONE, effects_only, pack_effects};
use super::finish::{end_run, fence_thread};
use super::inputs::{acknowledge, applied_ids};
use super::runs::busy;
use crate::error::Fault;
use crate::names::{kind_name, next_name, now, signed, unsigned};
use crate::pack::{Block, Pile, pack_frames, resolve_ids};
use crate::path::{STEP_ROW_BYTES, path_log};
use crate::snapshot::LogPosition;
use deerflow_core::ports::{Committed, Fence, RunOutcome, StepCommit, StepKind};
use deerflow_core::run::Next;
use deerflow_core::{CheckpointId, Lineage, RunId, StoreError};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row as _, Sqlite, SqliteConnection};

/// Run id of journal rows that belong to no run: those of an edit from outside.
pub(crate) const NO_RUN: &str = "-";

/// A step with references, ready to be written.
#[derive(Debug)]
pub(crate) struct CommitOp {
    pub(super) lineage: Lineage,
    pub(super) parent: Option<CheckpointId>,
    pub(super) fence: Option<Fence>,
    run_id: Option<RunId>,
    branch: bool,
    kind: StepKind,
    step: u64,
    next: Next,
    id: CheckpointId,
    pub(super) now: i64,
    updates: String,
    title: Option<String>,
    pub(super) mode: &'static str,
    pub(super) effects: String,
    pub(super) events: PackedEvents,
    /// Ids of the run inputs that the updates apply: a JSON list.
    applied: Option<String>,
    outcome: Option<RunOutcome>,
    pub(crate) pieces: Block,
}

impl CommitOp {
    /// Packs a commit: all the work that needs no database.
    pub(crate) fn pack(mut commit: StepCommit, mode: &'static str) -> Result<Self, StoreError> {
        let mut pile = Pile::default();
        resolve_ids(&mut commit.updates, &commit.state);
        let updates = pack_frames(&commit.updates, &mut pile)?;
        let effects = pack_effects(commit.effects, &mut pile)?;
        let events = pack_events(&commit.events, &mut pile)?;
        Ok(Self {
            lineage: commit.lineage,
            parent: commit.parent,
            run_id: commit.run_id.or_else(|| commit.fence.as_ref().map(|fence| fence.run_id.clone())),
            fence: commit.fence,
            branch: commit.branch,
            kind: commit.kind,
            step: commit.step,
            next: commit.next,
            id: CheckpointId::next(),
            now: now(),
            updates,
            title: commit.state.title.clone(),
            mode,
            effects,
            events,
            applied: applied_ids(&commit.updates),
            outcome: commit.outcome,
            pieces: pile.into_block(),
        })
    }

    pub(super) fn run_text(&self) -> &str {
        self.run_id.as_ref().map_or(NO_RUN, RunId::as_str)
    }

    pub(super) fn parent_text(&self) -> &str {
        self.parent.as_ref().map_or("", CheckpointId::as_str)
    }

    /// Whether it is an edit beside a tool batch that was cut off, which stays open.
    fn keeps_batch(&self) -> bool {
        self.kind == StepKind::Edit && self.next == Next::Tools
    }
}

// Parameters of the statements below: $1 thread, $2 namespace, $3 parent, $4 fence's run, $5 its epoch. The fence holds
// when there is none, or when the run is live, in this thread and of this epoch.

/// Opens a lineage at its first step.
const OPEN_LINEAGE: &str = "
    INSERT INTO lineages (thread_key, namespace, head_id, head_ordinal, log_bytes, snapshot_ordinal, snapshot_channels)
        SELECT thread_key, $2, '', -1, 0, -1, 0 FROM threads
        WHERE thread_id = $1 AND ($3 IS NULL OR EXISTS (
            SELECT 1 FROM runs WHERE run_id = $3 AND epoch = $4 AND runs.thread_key = threads.thread_key
                AND status IN ('pending', 'running')))
        ON CONFLICT (thread_key, namespace) DO NOTHING";

/// A thread that nobody admitted a run to: the library's own use.
const OPEN_THREAD: &str = "
    INSERT INTO threads (thread_id, user_id, metadata, status, mode, last_seq, created_at, updated_at)
        VALUES ($1, 'default', '{}', 'idle', $2, 0, $3, $3) ON CONFLICT (thread_id) DO NOTHING";

/// Moves the head if parent, fence and mode hold, and no run is live beside an edit from outside.
macro_rules! step_head {
    () => {
        "
    UPDATE lineages SET head_id = $6, head_ordinal = head_ordinal + 1, log_bytes = log_bytes + $13
        WHERE thread_key = (SELECT thread_key FROM threads WHERE thread_id = $1 AND mode = $19)
            AND namespace = $2 AND head_id = $3
            AND ($4 IS NULL OR EXISTS (
                SELECT 1 FROM runs WHERE run_id = $4 AND epoch = $5 AND runs.thread_key = lineages.thread_key
                    AND status IN ('pending', 'running')))
            AND ($8 <> 'edit' OR $4 IS NOT NULL OR NOT EXISTS (
                SELECT 1 FROM runs WHERE runs.thread_key = lineages.thread_key AND status IN ('pending', 'running')))
        RETURNING lineage_key, thread_key, head_ordinal, log_bytes, snapshot_ordinal, snapshot_channels;"
    };
}

/// Counts the journal, writes step, content and journal rows, and settles open effects (a model turn cannot follow an open
/// batch; what becomes of it beside an edit is decided later; any other step settles it). All of it does nothing unless
/// the head was moved: the new checkpoint id is in no lineage then.
macro_rules! step_rest {
    () => {
        "
    INSERT INTO steps (lineage_key, ordinal, checkpoint_id, parent, run_id, kind, step, next, created_at, updates)
        SELECT l.lineage_key, l.head_ordinal, $6, NULLIF($3, ''), $7, $8, $9, $10, $11, $12
        FROM threads t JOIN lineages l ON l.thread_key = t.thread_key
        WHERE t.thread_id = $1 AND l.namespace = $2 AND l.head_id = $6;
    UPDATE threads SET last_seq = last_seq + $14, title = CASE WHEN $2 = '' THEN $15 ELSE title END
        WHERE thread_id = $1 AND EXISTS (SELECT 1 FROM lineages l
            WHERE l.thread_key = threads.thread_key AND l.namespace = $2 AND l.head_id = $6)
        RETURNING last_seq;
    INSERT INTO blobs (thread_key, hash, data)
        SELECT l.thread_key, unhex(piece.value ->> 0), substr($17, piece.value ->> 1, piece.value ->> 2)
        FROM threads t JOIN lineages l ON l.thread_key = t.thread_key JOIN json_each($16) piece
        WHERE t.thread_id = $1 AND l.namespace = $2 AND l.head_id = $6
        ON CONFLICT (thread_key, hash) DO NOTHING;
    INSERT INTO events (thread_key, seq, run_id, category, event, content, metadata, created_at)
        SELECT t.thread_key, t.last_seq - $14 + 1 + row.key, COALESCE($7, '-'), row.value ->> 0, row.value ->> 1,
            row.value ->> 2, row.value ->> 3, $11
        FROM threads t JOIN lineages l ON l.thread_key = t.thread_key JOIN json_each($18) row
        WHERE t.thread_id = $1 AND l.namespace = $2 AND l.head_id = $6;
    DELETE FROM effects WHERE $8 NOT IN ('model', 'edit') AND lineage_key = (
        SELECT l.lineage_key FROM threads t JOIN lineages l ON l.thread_key = t.thread_key
        WHERE t.thread_id = $1 AND l.namespace = $2 AND l.head_id = $6)"
    };
}
/// A step in one round trip.
const STEP: &str = concat!(step_head!(), step_rest!());
/// The same as a transaction of its own, in one call of the driver: each costs two changes of thread.
const STEP_ALONE: &str = concat!("BEGIN IMMEDIATE;", step_head!(), step_rest!(), ";COMMIT");
/// What follows when the head has been moved otherwise.
const STEP_REST: &str = step_rest!();

/// The lineage, its head, and where the parent lies.
const BASE: &str = "
    SELECT l.lineage_key, l.head_id, base.ordinal
        FROM threads t JOIN lineages l ON l.thread_key = t.thread_key
        LEFT JOIN steps base ON base.lineage_key = l.lineage_key AND base.checkpoint_id = $3
        WHERE t.thread_id = $1 AND l.namespace = $2";
/// Moves the head off to a step whose parent was not the head.
const BRANCH_HEAD: &str = "
    UPDATE lineages SET head_id = $6, head_ordinal = head_ordinal + 1, log_bytes = $13 + $20, snapshot_ordinal = $21,
            snapshot_channels = $22
        WHERE thread_key = (SELECT thread_key FROM threads WHERE thread_id = $1 AND mode = $19) AND namespace = $2
            AND ($4 IS NULL OR EXISTS (
                SELECT 1 FROM runs WHERE run_id = $4 AND epoch = $5 AND runs.thread_key = lineages.thread_key
                    AND status IN ('pending', 'running')))
            AND ($8 <> 'edit' OR $4 IS NOT NULL OR NOT EXISTS (
                SELECT 1 FROM runs WHERE runs.thread_key = lineages.thread_key AND status IN ('pending', 'running')))
        RETURNING lineage_key, thread_key, head_ordinal, log_bytes, snapshot_ordinal, snapshot_channels";

const WHY: &str = "
    SELECT t.mode, live.run_id, live.worker_label FROM threads t
        LEFT JOIN runs live ON live.thread_key = t.thread_key AND live.status IN ('pending', 'running')
        WHERE t.thread_id = $1";

/// Why a write was refused: the fence first, since a run that lost its thread must not look at the head.
pub(super) async fn refusal(conn: &mut SqliteConnection, op: &CommitOp) -> Result<Fault, sqlx::Error> {
    let thread_id = op.lineage.thread_id.as_str();
    if let Some(fence) = &op.fence
        && fence_thread(conn, fence, Some(thread_id)).await?.is_none()
    {
        return Ok(Fault::Refused(StoreError::Fenced { run_id: fence.run_id.to_string() }));
    }
    let why = sqlx::query(WHY).bind(thread_id.to_owned()).fetch_optional(&mut *conn).await?;
    if let Some(why) = why {
        let mode: String = why.try_get(0)?;
        if mode != op.mode {
            return Ok(Fault::Refused(other_mode(thread_id, mode, op.mode)));
        }
        if let Some(live) = why.try_get::<Option<String>, _>(1)?.filter(|_| op.kind == StepKind::Edit) {
            return Ok(Fault::Refused(busy(thread_id, live, why.try_get(2)?)));
        }
    }
    let parent = op.parent.as_ref().map_or_else(|| "(none)".to_owned(), ToString::to_string);
    Ok(Fault::Refused(if op.branch {
        StoreError::NotFound { what: "checkpoint", id: parent }
    } else {
        StoreError::StaleParent { thread_id: thread_id.to_owned(), parent }
    }))
}

/// The thread is marked for another mode than this process works in.
pub(crate) fn other_mode(thread_id: &str, found: String, configured: &str) -> StoreError {
    StoreError::ModeMismatch { thread_id: thread_id.to_owned(), found, configured: configured.to_owned() }
}

pub(super) async fn commit(conn: &mut SqliteConnection, op: &CommitOp) -> Result<Done, Fault> {
    if op.parent.is_none() {
        open(conn, op).await?;
    }
    match op.kind {
        StepKind::Effects => effects_only(conn, op, EFFECTS).await,
        _ if op.branch => branch(conn, op).await,
        _ => step(conn, op, STEP).await,
    }
}

/// The same as a transaction of its own, when one call suffices for it. What it read of a refusal's reason may be newer.
pub(super) async fn commit_alone(conn: &mut SqliteConnection, op: &CommitOp) -> Option<Result<Done, Fault>> {
    let more = op.parent.is_none() || op.branch || op.applied.is_some() || op.outcome.is_some();
    match op.kind {
        _ if more => None,
        StepKind::Edit => None,
        StepKind::Effects => Some(effects_only(conn, op, EFFECTS_ALONE).await),
        _ => Some(step(conn, op, STEP_ALONE).await),
    }
}

/// The parameters of a step.
fn bound<'q>(sql: &'static str, op: &CommitOp) -> sqlx::query::Query<'q, Sqlite, SqliteArguments> {
    let fence = op.fence.as_ref();
    sqlx::query(sql)
        .bind(op.lineage.thread_id.as_str().to_owned())
        .bind(op.lineage.namespace.clone())
        .bind(op.parent_text().to_owned())
        .bind(fence.map(|fence| fence.run_id.as_str().to_owned()))
        .bind(fence.map(|fence| signed(fence.epoch)))
        .bind(op.id.as_str().to_owned())
        .bind(op.run_id.as_ref().map(|run_id| run_id.as_str().to_owned()))
        .bind(kind_name(op.kind))
        .bind(signed(op.step))
        .bind(next_name(op.next))
        .bind(op.now)
        .bind(op.updates.clone())
        .bind(op.updates.len() as i64 + STEP_ROW_BYTES)
        .bind(op.events.count)
        .bind(op.title.clone())
        .bind(op.pieces.index.clone())
        .bind(op.pieces.data.clone())
        .bind(op.events.rows.clone())
        .bind(op.mode)
}

async fn step(conn: &mut SqliteConnection, op: &CommitOp, sql: &'static str) -> Result<Done, Fault> {
    let rows = bound(sql, op).fetch_all(&mut *conn).await?;
    let [moved, counted] = rows.as_slice() else { return Err(refusal(conn, op).await?) };
    stepped(conn, op, log_position(moved)?, counted.try_get(0)?, op.keeps_batch()).await
}

/// A step on any checkpoint of the lineage. Its log is that of the way to it, so that a load never replays more than
/// elsewhere; a snapshot may come the sooner for it, one more for a branch at most.
async fn branch(conn: &mut SqliteConnection, op: &CommitOp) -> Result<Done, Fault> {
    let row = sqlx::query(BASE)
        .bind(op.lineage.thread_id.as_str().to_owned())
        .bind(op.lineage.namespace.clone())
        .bind(op.parent_text().to_owned())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else { return Err(refusal(conn, op).await?) };
    if row.try_get::<String, _>(1)? == op.parent_text() {
        return step(conn, op, STEP).await;
    }
    let lineage_key: i64 = row.try_get(0)?;
    let base = match (row.try_get::<Option<i64>, _>(2)?, &op.parent) {
        (Some(ordinal), _) => ordinal,
        (None, None) => -1,
        (None, Some(_)) => return Err(refusal(conn, op).await?),
    };
    let log = path_log(conn, lineage_key, base).await?;
    let query = bound(BRANCH_HEAD, op).bind(log.bytes).bind(log.snapshot_ordinal).bind(log.snapshot_channels);
    let Some(moved) = query.fetch_optional(&mut *conn).await? else { return Err(refusal(conn, op).await?) };
    let position = log_position(&moved)?;
    sqlx::query("INSERT INTO branches (lineage_key, ordinal, base_ordinal) VALUES ($1, $2, $3)")
        .bind(lineage_key)
        .bind(position.ordinal)
        .bind(base)
        .execute(&mut *conn)
        .await?;
    let rows = bound(STEP_REST, op).fetch_all(&mut *conn).await?;
    let [counted] = rows.as_slice() else { return Err(sqlx::Error::RowNotFound.into()) };
    stepped(conn, op, position, counted.try_get(0)?, false).await
}

/// What is done when a step is written.
async fn stepped(
    conn: &mut SqliteConnection,
    op: &CommitOp,
    position: LogPosition,
    last_seq: i64,
    keeps_batch: bool,
) -> Result<Done, Fault> {
    if op.kind == StepKind::Edit || op.branch {
        let sql = if keeps_batch {
            "UPDATE effects SET ordinal = ordinal + 1 WHERE lineage_key = $1"
        } else {
            "DELETE FROM effects WHERE lineage_key = $1"
        };
        sqlx::query(sql).bind(position.lineage_key).execute(&mut *conn).await?;
    }
    settle(conn, op, position.thread_key, last_seq).await?;
    Ok(Done::Committed(committed(Some(op.id.clone()), last_seq, op.events.count)?, Some(position)))
}

async fn open(conn: &mut SqliteConnection, op: &CommitOp) -> Result<(), sqlx::Error> {
    if op.fence.is_none() {
        sqlx::query(OPEN_THREAD)
            .bind(op.lineage.thread_id.as_str().to_owned())
            .bind(op.mode)
            .bind(op.now)
            .execute(&mut *conn)
            .await?;
    }
    sqlx::query(OPEN_LINEAGE)
        .bind(op.lineage.thread_id.as_str().to_owned())
        .bind(op.lineage.namespace.clone())
        .bind(op.fence.as_ref().map(|fence| fence.run_id.as_str().to_owned()))
        .bind(op.fence.as_ref().map(|fence| signed(fence.epoch)))
        .execute(&mut *conn)
        .await?;
    Ok(())
}

fn log_position(row: &SqliteRow) -> Result<LogPosition, sqlx::Error> {
    Ok(LogPosition {
        lineage_key: row.try_get(0)?,
        thread_key: row.try_get(1)?,
        ordinal: row.try_get(2)?,
        log_bytes: row.try_get(3)?,
        snapshot_ordinal: row.try_get(4)?,
        snapshot_channels: row.try_get(5)?,
    })
}

pub(super) fn committed(id: Option<CheckpointId>, last_seq: i64, count: i64) -> Result<Committed, StoreError> {
    let last = unsigned(last_seq)?;
    let first = unsigned(last_seq - count + 1)?;
    Ok(Committed { checkpoint_id: id, seqs: (first..=last).collect(), last_seq: last })
}

/// What goes with the last step of a run, or an edit.
pub(super) async fn settle(
    conn: &mut SqliteConnection,
    op: &CommitOp,
    thread_key: i64,
    last_seq: i64,
) -> Result<(), sqlx::Error> {
    if let (Some(applied), Some(run_id)) = (&op.applied, &op.run_id) {
        acknowledge(conn, thread_key, run_id, applied).await?;
    }
    if let (Some(outcome), Some(run_id)) = (&op.outcome, &op.run_id) {
        end_run(conn, run_id, outcome, op.now, thread_key, last_seq).await?;
    } else if op.kind == StepKind::Edit {
        sqlx::query("UPDATE threads SET updated_at = $2 WHERE thread_key = $1")
            .bind(thread_key)
            .bind(op.now)
            .execute(&mut *conn)
            .await?;
    }
    Ok(())
}
