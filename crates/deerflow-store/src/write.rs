//! What the writer task executes: each operation as plain data, run inside a transaction that the writer opens.
//!
//! An operation that is refused ([`Fault::Refused`]) has written nothing. It can be run again when the transaction it was
//! batched into had to be rolled back.

mod api_keys;
mod archive;
mod commit;
mod content;
mod effects;
mod feedback;
mod finish;
mod fork;
mod inputs;
mod items;
mod runs;
mod snapshots;
mod threads;
mod users;

pub(crate) use api_keys::ApiKeyOp;
pub(crate) use archive::{ArchiveOp, PackedBatch};
pub(crate) use commit::{CommitOp, other_mode};
pub(crate) use feedback::{FeedbackOp, JudgedRun};
pub(crate) use finish::FinishOp;
pub(crate) use fork::{Copied, CopiedHistory, ForkOp};
pub(crate) use inputs::EnqueueOp;
pub(crate) use items::{ItemOp, namespace_text};
pub(crate) use runs::AdmitOp;
pub(crate) use users::{UserOp, email_key};

use crate::config::ChannelMode;
use crate::error::Fault;
use crate::snapshot::{LogPosition, Snapshot};
use deerflow_core::ports::{ArchivedBatch, Committed, Fence, InputState, ThreadPatch, Worker};
use deerflow_core::{JsonMap, RunId, ThreadId, UserId};
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
    CreateThread {
        user_id: UserId,
        thread_id: ThreadId,
        metadata: JsonMap,
        mode: &'static str,
    },
    PatchThread {
        user_id: UserId,
        thread_id: ThreadId,
        patch: ThreadPatch,
    },
    MigrateThread {
        user_id: UserId,
        thread_id: ThreadId,
        mode: ChannelMode,
    },
    DeleteThread {
        user_id: UserId,
        thread_id: ThreadId,
        /// Only if it has not been used since.
        unused_since: Option<i64>,
    },
    Fork(Box<ForkOp>),
    Enqueue(Box<EnqueueOp>),
    HandOver {
        fence: Fence,
        to: InputState,
    },
    Archive(Box<ArchiveOp>),
    User(Box<UserOp>),
    ApiKey(Box<ApiKeyOp>),
    Feedback(Box<FeedbackOp>),
    Item(Box<ItemOp>),
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
    /// Whether it is new.
    Created(bool),
    /// Key of the thread whose row is the answer.
    Thread(i64),
    /// Ids of the threads that were moved.
    Threads(Vec<ThreadId>),
    /// Id of the feedback whose row is the answer.
    Feedback(String),
    /// Ids of the inputs that were moved.
    Inputs(Vec<String>),
    /// The batch, new or not.
    Archived(ArchivedBatch),
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
        Op::Finish(op) => Box::pin(finish::finish(conn, op)).await,
        Op::CreateThread { user_id, thread_id, metadata, mode } => {
            threads::create(conn, user_id, thread_id, metadata, mode).await
        }
        Op::PatchThread { user_id, thread_id, patch } => threads::patch(conn, user_id, thread_id, patch).await,
        Op::MigrateThread { user_id, thread_id, mode } => threads::migrate(conn, user_id, thread_id, *mode).await,
        Op::DeleteThread { user_id, thread_id, unused_since: None } => threads::delete(conn, user_id, thread_id).await,
        Op::DeleteThread { user_id, thread_id, unused_since: Some(since) } => {
            threads::delete_unused(conn, user_id, thread_id, *since).await
        }
        Op::Fork(op) => Box::pin(fork::fork(conn, op)).await,
        Op::Enqueue(op) => Box::pin(inputs::enqueue(conn, op)).await,
        Op::HandOver { fence, to } => inputs::hand_over(conn, fence, *to).await,
        Op::Archive(op) => Box::pin(archive::archive(conn, op)).await,
        Op::User(op) => Box::pin(users::execute(conn, op)).await,
        Op::ApiKey(op) => Box::pin(api_keys::execute(conn, op)).await,
        Op::Feedback(op) => Box::pin(feedback::execute(conn, op)).await,
        Op::Item(op) => Box::pin(items::execute(conn, op)).await,
        Op::Snapshot(snapshot) => Box::pin(snapshots::snapshot(conn, snapshot)).await,
        // The writer takes these out of the batch.
        Op::Compact => Ok(Done::Nothing),
    }
}
