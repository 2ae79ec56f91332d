//! Steps, effects, the end of a run, snapshots.

use super::Done;
use super::content::{PackedEvents, insert_events, insert_pieces, pack_events};
use crate::error::Fault;
use crate::names::{kind_name, next_name, now, signed, thread_status, unsigned};
use crate::pack::{Block, Pile, pack_frames, pack_update, resolve_ids};
use crate::snapshot::{LogPosition, Snapshot};
use deerflow_core::ports::{Committed, EffectRecord, Fence, NewJournalRow, RunOutcome, StepCommit, StepKind};
use deerflow_core::run::Next;
use deerflow_core::{CheckpointId, Lineage, RunId, StoreError};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

/// Run id of journal rows that belong to no run: those of an edit from outside.
pub(crate) const NO_RUN: &str = "-";

/// What a step costs on disk beyond its updates, ids and indexes together, in bytes. Part of the log's weight.
const STEP_ROW_BYTES: i64 = 200;

/// A step with references, ready to be written.
#[derive(Debug)]
pub(crate) struct CommitOp {
    lineage: Lineage,
    parent: Option<CheckpointId>,
    fence: Option<Fence>,
    run_id: Option<RunId>,
    kind: StepKind,
    step: u64,
    next: Next,
    id: CheckpointId,
    now: i64,
    updates: String,
    title: Option<String>,
    mode: &'static str,
    /// A JSON list of step, index, call id, tool, fingerprint, finished update and end of run.
    effects: String,
    events: PackedEvents,
    outcome: Option<RunOutcome>,
    pub(crate) pieces: Block,
}

/// The end of a run without a step.
#[derive(Debug)]
pub(crate) struct FinishOp {
    fence: Fence,
    outcome: RunOutcome,
    events: PackedEvents,
    pieces: Block,
}

impl CommitOp {
    /// Packs a commit: all the work that needs no database.
    pub(crate) fn pack(mut commit: StepCommit, mode: &'static str) -> Result<Self, StoreError> {
        let mut pile = Pile::default();
        resolve_ids(&mut commit.updates, &commit.state);
        let updates = pack_frames(&commit.updates, &mut pile)?;
        let effects = commit.effects.into_iter().map(|effect| pack_effect(effect, &mut pile));
        let effects = Value::Array(effects.collect::<Result<_, _>>()?).to_string();
        let events = pack_events(&commit.events, &mut pile)?;
        Ok(Self {
            lineage: commit.lineage,
            parent: commit.parent,
            run_id: commit.run_id.or_else(|| commit.fence.as_ref().map(|fence| fence.run_id.clone())),
            fence: commit.fence,
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
            outcome: commit.outcome,
            pieces: pile.into_block(),
        })
    }

    fn run_text(&self) -> &str {
        self.run_id.as_ref().map_or(NO_RUN, RunId::as_str)
    }

    fn parent_text(&self) -> &str {
        self.parent.as_ref().map_or("", CheckpointId::as_str)
    }
}

impl FinishOp {
    pub(crate) fn pack(fence: Fence, outcome: RunOutcome, rows: &[NewJournalRow]) -> Result<Self, StoreError> {
        let mut pile = Pile::default();
        let events = pack_events(rows, &mut pile)?;
        Ok(Self { fence, outcome, events, pieces: pile.into_block() })
    }
}

fn pack_effect(effect: EffectRecord, pile: &mut Pile) -> Result<Value, StoreError> {
    Ok(match effect {
        EffectRecord::Started { step, index, call_id, tool, fingerprint } => {
            json!([step, index, call_id, tool, fingerprint.map(|value| value.to_string()), null, 0])
        }
        EffectRecord::Finished { step, index, update, end_run } => {
            json!([step, index, "", "", null, pack_update(&update, pile)?, i64::from(end_run)])
        }
    })
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

/// A step in one round trip: moves the head if parent and fence hold, counts the journal, writes step, content and journal
/// rows, and settles open effects (a model turn cannot follow an open batch; any other step settles it). All but the first
/// statement do nothing unless that one did something: the new checkpoint id is in no lineage then.
macro_rules! step {
    () => {
        "
    UPDATE lineages SET head_id = $6, head_ordinal = head_ordinal + 1, log_bytes = log_bytes + $13
        WHERE thread_key = (SELECT thread_key FROM threads WHERE thread_id = $1) AND namespace = $2 AND head_id = $3
            AND ($4 IS NULL OR EXISTS (
                SELECT 1 FROM runs WHERE run_id = $4 AND epoch = $5 AND runs.thread_key = lineages.thread_key
                    AND status IN ('pending', 'running')))
        RETURNING lineage_key, thread_key, head_ordinal, log_bytes, snapshot_ordinal, snapshot_channels;
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
    INSERT INTO events (thread_key, seq, run_id, category, event, content, created_at)
        SELECT t.thread_key, t.last_seq - $14 + 1 + row.key, COALESCE($7, '-'), row.value ->> 0, row.value ->> 1,
            row.value ->> 2, $11
        FROM threads t JOIN lineages l ON l.thread_key = t.thread_key JOIN json_each($18) row
        WHERE t.thread_id = $1 AND l.namespace = $2 AND l.head_id = $6;
    DELETE FROM effects WHERE $8 <> 'model' AND lineage_key = (
        SELECT l.lineage_key FROM threads t JOIN lineages l ON l.thread_key = t.thread_key
        WHERE t.thread_id = $1 AND l.namespace = $2 AND l.head_id = $6)"
    };
}
const STEP: &str = step!();
/// The same as a transaction of its own, in one call of the driver: each costs two changes of thread.
const STEP_ALONE: &str = concat!("BEGIN IMMEDIATE;", step!(), ";COMMIT");

/// Effects, journal rows and content without a step, under the same checks. Answers one row when they held.
macro_rules! effects {
    () => {
        "
    UPDATE threads SET last_seq = last_seq + $7 WHERE thread_id = $1 AND $7 > 0
        AND EXISTS (SELECT 1 FROM lineages l
            WHERE l.thread_key = threads.thread_key AND l.namespace = $2 AND l.head_id = $3)
        AND ($4 IS NULL OR EXISTS (
            SELECT 1 FROM runs WHERE run_id = $4 AND epoch = $5 AND runs.thread_key = threads.thread_key
                AND status IN ('pending', 'running')));
    INSERT INTO effects (lineage_key, run_id, step, call_index, ordinal, call_id, tool, fingerprint, finished, end_run)
        SELECT l.lineage_key, $6, e.value ->> 0, e.value ->> 1, l.head_ordinal, e.value ->> 2, e.value ->> 3,
            e.value ->> 4, e.value ->> 5, e.value ->> 6
        FROM threads t JOIN lineages l ON l.thread_key = t.thread_key JOIN json_each($8) e
        WHERE t.thread_id = $1 AND l.namespace = $2 AND l.head_id = $3
            AND ($4 IS NULL OR EXISTS (
                SELECT 1 FROM runs WHERE run_id = $4 AND epoch = $5 AND runs.thread_key = t.thread_key
                    AND status IN ('pending', 'running')))
        ON CONFLICT (lineage_key, run_id, step, call_index) DO UPDATE SET ordinal = excluded.ordinal,
            call_id = CASE WHEN excluded.finished IS NULL THEN excluded.call_id ELSE effects.call_id END,
            tool = CASE WHEN excluded.finished IS NULL THEN excluded.tool ELSE effects.tool END,
            fingerprint = CASE WHEN excluded.finished IS NULL THEN excluded.fingerprint ELSE effects.fingerprint END,
            finished = COALESCE(excluded.finished, effects.finished),
            end_run = CASE WHEN excluded.finished IS NULL THEN effects.end_run ELSE excluded.end_run END;
    INSERT INTO blobs (thread_key, hash, data)
        SELECT t.thread_key, unhex(piece.value ->> 0), substr($10, piece.value ->> 1, piece.value ->> 2)
        FROM threads t JOIN lineages l ON l.thread_key = t.thread_key JOIN json_each($9) piece
        WHERE t.thread_id = $1 AND l.namespace = $2 AND l.head_id = $3
            AND ($4 IS NULL OR EXISTS (
                SELECT 1 FROM runs WHERE run_id = $4 AND epoch = $5 AND runs.thread_key = t.thread_key
                    AND status IN ('pending', 'running')))
        ON CONFLICT (thread_key, hash) DO NOTHING;
    INSERT INTO events (thread_key, seq, run_id, category, event, content, created_at)
        SELECT t.thread_key, t.last_seq - $7 + 1 + row.key, $6, row.value ->> 0, row.value ->> 1, row.value ->> 2, $12
        FROM threads t JOIN lineages l ON l.thread_key = t.thread_key JOIN json_each($11) row
        WHERE t.thread_id = $1 AND l.namespace = $2 AND l.head_id = $3
            AND ($4 IS NULL OR EXISTS (
                SELECT 1 FROM runs WHERE run_id = $4 AND epoch = $5 AND runs.thread_key = t.thread_key
                    AND status IN ('pending', 'running')));
    SELECT t.thread_key, t.last_seq FROM threads t JOIN lineages l ON l.thread_key = t.thread_key
        WHERE t.thread_id = $1 AND l.namespace = $2 AND l.head_id = $3
            AND ($4 IS NULL OR EXISTS (
                SELECT 1 FROM runs WHERE run_id = $4 AND epoch = $5 AND runs.thread_key = t.thread_key
                    AND status IN ('pending', 'running')))"
    };
}
const EFFECTS: &str = effects!();
const EFFECTS_ALONE: &str = concat!("BEGIN IMMEDIATE;", effects!(), ";COMMIT");

const FENCE: &str = "SELECT t.thread_key FROM runs r JOIN threads t ON t.thread_key = r.thread_key
    WHERE r.run_id = $1 AND r.epoch = $2 AND r.status IN ('pending', 'running')";
const COUNT_EVENTS: &str = "UPDATE threads SET last_seq = last_seq + $2 WHERE thread_key = $1 RETURNING last_seq";

/// Why a write was refused: the fence first, since a run that lost its thread must not look at the head.
async fn refusal(conn: &mut SqliteConnection, op: &CommitOp) -> Result<Fault, sqlx::Error> {
    if let Some(fence) = &op.fence
        && fence_thread(conn, fence, Some(op.lineage.thread_id.as_str())).await?.is_none()
    {
        return Ok(Fault::Refused(StoreError::Fenced { run_id: fence.run_id.to_string() }));
    }
    let parent = op.parent.as_ref().map_or_else(|| "(none)".to_owned(), ToString::to_string);
    Ok(Fault::Refused(StoreError::StaleParent { thread_id: op.lineage.thread_id.to_string(), parent }))
}

/// The thread of a run that is live under this fence.
async fn fence_thread(
    conn: &mut SqliteConnection,
    fence: &Fence,
    thread_id: Option<&str>,
) -> Result<Option<i64>, sqlx::Error> {
    let row = sqlx::query(FENCE)
        .bind(fence.run_id.as_str().to_owned())
        .bind(signed(fence.epoch))
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let key: i64 = row.try_get(0)?;
    let Some(thread_id) = thread_id else { return Ok(Some(key)) };
    let same = sqlx::query("SELECT 1 FROM threads WHERE thread_key = $1 AND thread_id = $2")
        .bind(key)
        .bind(thread_id.to_owned())
        .fetch_optional(&mut *conn)
        .await?;
    Ok(same.map(|_| key))
}

pub(super) async fn commit(conn: &mut SqliteConnection, op: &CommitOp) -> Result<Done, Fault> {
    if op.parent.is_none() {
        open(conn, op).await?;
    }
    if op.kind == StepKind::Effects {
        effects_only(conn, op, EFFECTS).await
    } else {
        step(conn, op, STEP).await
    }
}

/// The same as a transaction of its own, when one call suffices for it. What it read of a refusal's reason may be newer.
pub(super) async fn commit_alone(conn: &mut SqliteConnection, op: &CommitOp) -> Option<Result<Done, Fault>> {
    if op.parent.is_none() || op.outcome.is_some() || op.kind == StepKind::Edit {
        return None;
    }
    Some(if op.kind == StepKind::Effects {
        effects_only(conn, op, EFFECTS_ALONE).await
    } else {
        step(conn, op, STEP_ALONE).await
    })
}

async fn step(conn: &mut SqliteConnection, op: &CommitOp, sql: &'static str) -> Result<Done, Fault> {
    let count = op.events.count;
    let fence = op.fence.as_ref();
    let rows = sqlx::query(sql)
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
        .bind(count)
        .bind(op.title.clone())
        .bind(op.pieces.index.clone())
        .bind(op.pieces.data.clone())
        .bind(op.events.rows.clone())
        .fetch_all(&mut *conn)
        .await?;
    let [moved, counted] = rows.as_slice() else { return Err(refusal(conn, op).await?) };
    let position = log_position(moved)?;
    let last_seq: i64 = counted.try_get(0)?;
    settle(conn, op, position.thread_key, last_seq).await?;
    Ok(Done::Committed(committed(Some(op.id.clone()), last_seq, count)?, Some(position)))
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

fn committed(id: Option<CheckpointId>, last_seq: i64, count: i64) -> Result<Committed, StoreError> {
    let last = unsigned(last_seq)?;
    let first = unsigned(last_seq - count + 1)?;
    Ok(Committed { checkpoint_id: id, seqs: (first..=last).collect(), last_seq: last })
}

async fn effects_only(conn: &mut SqliteConnection, op: &CommitOp, sql: &'static str) -> Result<Done, Fault> {
    let fence = op.fence.as_ref();
    let count = op.events.count;
    let row = sqlx::query(sql)
        .bind(op.lineage.thread_id.as_str().to_owned())
        .bind(op.lineage.namespace.clone())
        .bind(op.parent_text().to_owned())
        .bind(fence.map(|fence| fence.run_id.as_str().to_owned()))
        .bind(fence.map(|fence| signed(fence.epoch)))
        .bind(op.run_text().to_owned())
        .bind(count)
        .bind(op.effects.clone())
        .bind(op.pieces.index.clone())
        .bind(op.pieces.data.clone())
        .bind(op.events.rows.clone())
        .bind(op.now)
        .fetch_all(&mut *conn)
        .await?;
    let [held] = row.as_slice() else { return Err(refusal(conn, op).await?) };
    let (thread_key, last_seq): (i64, i64) = (held.try_get(0)?, held.try_get(1)?);
    settle(conn, op, thread_key, last_seq).await?;
    Ok(Done::Committed(committed(op.parent.clone(), last_seq, count)?, None))
}

const END_RUN: &str = "
    UPDATE runs SET status = $2, error = $3, stop_reason = $4, usage = $5, updated_at = $6, last_seq = $7
        WHERE run_id = $1;
    UPDATE threads SET status = $8, updated_at = $6 WHERE thread_key = $9";

async fn end_run(
    conn: &mut SqliteConnection,
    run_id: &RunId,
    outcome: &RunOutcome,
    now: i64,
    thread_key: i64,
    last_seq: i64,
) -> Result<(), sqlx::Error> {
    let usage = serde_json::to_string(&outcome.usage).map_err(|error| sqlx::Error::Encode(error.into()))?;
    sqlx::query(END_RUN)
        .bind(run_id.as_str().to_owned())
        .bind(outcome.status.as_str())
        .bind(outcome.error.clone())
        .bind(outcome.stop_reason.clone())
        .bind(usage)
        .bind(now)
        .bind(outcome.status.is_terminal().then_some(last_seq))
        .bind(thread_status(outcome.status))
        .bind(thread_key)
        // Rows are collected rather than counted: the text holds two statements.
        .fetch_all(&mut *conn)
        .await?;
    Ok(())
}

/// What goes with the last step of a run, or an edit.
async fn settle(conn: &mut SqliteConnection, op: &CommitOp, thread_key: i64, last_seq: i64) -> Result<(), sqlx::Error> {
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

pub(super) async fn finish(conn: &mut SqliteConnection, op: &FinishOp) -> Result<Done, Fault> {
    let Some(thread_key) = fence_thread(conn, &op.fence, None).await? else {
        return Err(StoreError::Fenced { run_id: op.fence.run_id.to_string() }.into());
    };
    let (now, count) = (now(), op.events.count);
    let row = sqlx::query(COUNT_EVENTS).bind(thread_key).bind(count).fetch_one(&mut *conn).await?;
    let last_seq: i64 = row.try_get(0)?;
    insert_pieces(conn, thread_key, &op.pieces).await?;
    insert_events(conn, thread_key, op.fence.run_id.as_str(), now, last_seq - count + 1, &op.events).await?;
    end_run(conn, &op.fence.run_id, &op.outcome, now, thread_key, last_seq).await?;
    Ok(Done::Nothing)
}

/// Nothing when the thread is gone, or another snapshot came first: it is an accelerator.
const SNAPSHOT: &str = "
    INSERT INTO snapshots (lineage_key, ordinal, messages, channels)
        SELECT lineage_key, $2, $3, $4 FROM lineages
        WHERE lineage_key = $1 AND thread_key = $5 AND snapshot_ordinal = $7
            AND EXISTS (SELECT 1 FROM steps WHERE lineage_key = $1 AND ordinal = $2 AND checkpoint_id = $6)
        ON CONFLICT (lineage_key, ordinal) DO NOTHING";
const SNAPSHOT_TAKEN: &str = "
    UPDATE lineages SET snapshot_ordinal = $2, snapshot_channels = $3, log_bytes = log_bytes - $4 WHERE lineage_key = $1";

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
