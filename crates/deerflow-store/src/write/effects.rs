//! Effects of a tool batch: progress without a step.

use super::Done;
use super::commit::{CommitOp, committed, refusal, settle};
use crate::error::Fault;
use crate::names::signed;
use crate::pack::{Pile, pack_update};
use deerflow_core::StoreError;
use deerflow_core::ports::EffectRecord;
use serde_json::{Value, json};
use sqlx::{Row as _, SqliteConnection};

/// Effects as a JSON list of lists: step, index, call id, tool, fingerprint, finished update and end of run.
pub(super) fn pack_effects(effects: Vec<EffectRecord>, pile: &mut Pile) -> Result<String, StoreError> {
    let packed = effects.into_iter().map(|effect| pack_effect(effect, pile)).collect::<Result<_, _>>()?;
    Ok(Value::Array(packed).to_string())
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

// Parameters: as in `commit.rs`, then $6 run of the rows, $7 number of journal rows, $13 mode.

/// Effects, journal rows and content without a step, under the same checks. Answers one row when they held.
macro_rules! effects {
    () => {
        "
    UPDATE threads SET last_seq = last_seq + $7 WHERE thread_id = $1 AND mode = $13 AND $7 > 0
        AND EXISTS (SELECT 1 FROM lineages l
            WHERE l.thread_key = threads.thread_key AND l.namespace = $2 AND l.head_id = $3)
        AND ($4 IS NULL OR EXISTS (
            SELECT 1 FROM runs WHERE run_id = $4 AND epoch = $5 AND runs.thread_key = threads.thread_key
                AND status IN ('pending', 'running')));
    INSERT INTO effects (lineage_key, run_id, step, call_index, ordinal, call_id, tool, fingerprint, finished, end_run)
        SELECT l.lineage_key, $6, e.value ->> 0, e.value ->> 1, l.head_ordinal, e.value ->> 2, e.value ->> 3,
            e.value ->> 4, e.value ->> 5, e.value ->> 6
        FROM threads t JOIN lineages l ON l.thread_key = t.thread_key JOIN json_each($8) e
        WHERE t.thread_id = $1 AND t.mode = $13 AND l.namespace = $2 AND l.head_id = $3
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
        WHERE t.thread_id = $1 AND t.mode = $13 AND l.namespace = $2 AND l.head_id = $3
            AND ($4 IS NULL OR EXISTS (
                SELECT 1 FROM runs WHERE run_id = $4 AND epoch = $5 AND runs.thread_key = t.thread_key
                    AND status IN ('pending', 'running')))
        ON CONFLICT (thread_key, hash) DO NOTHING;
    INSERT INTO events (thread_key, seq, run_id, category, event, content, metadata, created_at)
        SELECT t.thread_key, t.last_seq - $7 + 1 + row.key, $6, row.value ->> 0, row.value ->> 1, row.value ->> 2,
            row.value ->> 3, $12
        FROM threads t JOIN lineages l ON l.thread_key = t.thread_key JOIN json_each($11) row
        WHERE t.thread_id = $1 AND t.mode = $13 AND l.namespace = $2 AND l.head_id = $3
            AND ($4 IS NULL OR EXISTS (
                SELECT 1 FROM runs WHERE run_id = $4 AND epoch = $5 AND runs.thread_key = t.thread_key
                    AND status IN ('pending', 'running')));
    SELECT t.thread_key, t.last_seq FROM threads t JOIN lineages l ON l.thread_key = t.thread_key
        WHERE t.thread_id = $1 AND t.mode = $13 AND l.namespace = $2 AND l.head_id = $3
            AND ($4 IS NULL OR EXISTS (
                SELECT 1 FROM runs WHERE run_id = $4 AND epoch = $5 AND runs.thread_key = t.thread_key
                    AND status IN ('pending', 'running')))"
    };
}
pub(super) const EFFECTS: &str = effects!();
pub(super) const EFFECTS_ALONE: &str = concat!("BEGIN IMMEDIATE;", effects!(), ";COMMIT");

pub(super) async fn effects_only(conn: &mut SqliteConnection, op: &CommitOp, sql: &'static str) -> Result<Done, Fault> {
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
        .bind(op.mode)
        .fetch_all(&mut *conn)
        .await?;
    let [held] = row.as_slice() else { return Err(refusal(conn, op).await?) };
    let (thread_key, last_seq): (i64, i64) = (held.try_get(0)?, held.try_get(1)?);
    settle(conn, op, thread_key, last_seq).await?;
    Ok(Done::Committed(committed(op.parent.clone(), last_seq, count)?, None))
}
