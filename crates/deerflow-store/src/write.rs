//! What the writer task executes: each operation as plain data, run inside a transaction that the writer opens.
//!
//! An operation that is refused ([`Fault::Refused`]) has written nothing. It can be run again when the transaction it was
//! batched into had to be rolled back.

mod commit;
mod content;
mod runs;
mod threads;

pub(crate) use commit::{CommitOp, FinishOp};
pub(crate) use runs::AdmitOp;

use crate::error::Fault;
use crate::snapshot::{LogPosition, Snapshot};
use deerflow_core::ports::{Committed, Fence, Worker};
use deerflow_core::{RunId, ThreadId, UserId};
use sqlx::SqliteConnection;

/// An operation of the writer.
#[derive(Debug)]
pub(crate) enum Op {
    Commit(Box<CommitOp>),
    Admit(Box<AdmitOp>),
    Adopt {
        run_id: RunId,
        expected_epoch: u64,
        worker: Worker,
    },
    Start(Fence),
    Finish(Box<FinishOp>),
    DeleteThread {
        user_id: UserId,
        thread_id: ThreadId,
    },
    Snapshot(Box<Snapshot>),
    /// Copies the log back and returns free pages to the file system. Runs outside any transaction.
    Compact,
}

/// What an operation gave.
#[derive(Debug)]
pub(crate) enum Done {
    Nothing,
    /// A step is written; the position is absent for effects.
    Committed(Committed, Option<LogPosition>),
    /// The run is new.
    Admitted {
        created_at: i64,
    },
    /// This run row is the answer; it is read afterwards.
    Run(RunId),
}

/// Runs one operation as a transaction of its own in one call, where that is possible. A failed one leaves the transaction
/// open.
pub(crate) async fn execute_alone(conn: &mut SqliteConnection, op: &Op) -> Option<Result<Done, Fault>> {
    let Op::Commit(op) = op else { return None };
    Box::pin(commit::commit_alone(conn, op)).await
}

/// Runs one operation.
pub(crate) async fn execute(conn: &mut SqliteConnection, op: &Op) -> Result<Done, Fault> {
    match op {
        Op::Commit(op) => Box::pin(commit::commit(conn, op)).await,
        Op::Admit(op) => Box::pin(runs::admit(conn, op)).await,
        Op::Adopt { run_id, expected_epoch, worker } => {
            Box::pin(runs::adopt(conn, run_id, *expected_epoch, worker)).await
        }
        Op::Start(fence) => runs::start(conn, fence).await,
        Op::Finish(op) => Box::pin(commit::finish(conn, op)).await,
        Op::DeleteThread { user_id, thread_id } => threads::delete(conn, user_id, thread_id).await,
        Op::Snapshot(snapshot) => Box::pin(commit::snapshot(conn, snapshot)).await,
        // The writer takes these out of the batch.
        Op::Compact => Ok(Done::Nothing),
    }
}
