//! The store: one writer, a few readers, and the ports over them.

mod api_keys;
mod archive;
mod feedback;
mod inputs;
mod items;
mod retention;
mod threads;
mod users;

pub use retention::Pruned;

use crate::cache::HeadCache;
use crate::config::StoreOptions;
use crate::error::{Place, damaged};
use crate::snapshot::{LogPosition, Snapshot};
use crate::write::{AdmitOp, CommitOp, Done, FinishOp, Op};
use crate::writer::{Job, Pen, QUEUE, Writer};
use crate::{files, read};
use async_trait::async_trait;
use deerflow_core::ports::{
    Checkpoint, Committed, EventRepo, Fence, HistoryEntry, JournalRow, NewJournalRow, NewRun, RunFilter, RunOutcome,
    RunRepo, RunRow, StepCommit, StepLog, Worker,
};
use deerflow_core::run::Next;
use deerflow_core::{CheckpointId, Lineage, RunId, RunStatus, StoreError, ThreadId, ThreadState, Usage, UserId};
use sqlx::{Sqlite, SqlitePool, Transaction};
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// States with more messages than this are packed off the reactor.
const SMALL_STATE: usize = 64;

/// Threads, runs, history and journal in one SQLite file.
///
/// Implements [`StepLog`], [`RunRepo`], [`EventRepo`], [`ThreadRepo`](deerflow_core::ports::ThreadRepo),
/// [`InputQueue`](deerflow_core::ports::InputQueue) and [`HistoryArchive`](deerflow_core::ports::HistoryArchive). Several processes may open one file.
///
/// # Cancel safety
/// A write whose future is dropped may still happen: it is in the writer's queue. Nothing is ever written in part.
#[derive(Debug)]
pub struct SqliteStore {
    place: Place,
    options: StoreOptions,
    readers: SqlitePool,
    pen: Arc<Pen>,
    jobs: mpsc::Sender<Job>,
    closing: CancellationToken,
    tasks: TaskTracker,
    heads: HeadCache,
    /// Lineages whose snapshot is being taken.
    snapshots: Arc<Mutex<HashSet<i64>>>,
}

impl SqliteStore {
    /// Opens the database file, making folder (0700), file (0600) and schema as needed.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the file cannot be made or written, is no database, or has a newer schema;
    /// [`StoreError::Damaged`] when it is corrupt; [`StoreError::DiskFull`].
    pub async fn open(path: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let place = Place::new(path, options.mode);
        let opened = place.clone();
        let lock = blocking(move || {
            files::prepare(&opened)?;
            files::lock_schema(&opened)
        })
        .await?;
        let mut conn = files::writer(&place, &options).await?;
        files::migrate(&mut conn, &place).await?;
        drop(lock);

        let (jobs, receiver) = mpsc::channel(QUEUE);
        let closing = CancellationToken::new();
        let tasks = TaskTracker::new();
        let pen = Arc::new(Pen::new(conn));
        let writer = Writer {
            pen: Arc::clone(&pen),
            place: place.clone(),
            jobs: receiver,
            closing: closing.clone(),
            idle: options.idle,
        };
        // It ends when the store is closed, or dropped and with it the sender.
        tasks.spawn(writer.run());
        Ok(Self {
            readers: files::readers(&place, &options),
            heads: HeadCache::new(options.cache_bytes),
            snapshots: Arc::default(),
            place,
            options,
            pen,
            jobs,
            closing,
            tasks,
        })
    }

    /// Writes what was accepted, copies the log back and closes every connection. Later calls fail.
    pub async fn close(&self) {
        self.closing.cancel();
        self.readers.close().await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Returns the space of deleted threads to the file system and cuts the write-ahead log. Writes wait meanwhile: some
    /// milliseconds per freed megabyte.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn compact(&self) -> Result<(), StoreError> {
        self.write(Op::Compact).await.map(drop)
    }

    /// The database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    async fn write(&self, op: Op) -> Result<Done, StoreError> {
        let closed = || self.place.unavailable("the store is closed");
        // Others that wait are written together with it.
        if self.jobs.capacity() == QUEUE
            && !self.closing.is_cancelled()
            && let Some(answer) = self.pen.write(&op).await
        {
            return answer;
        }
        let (reply, answer) = oneshot::channel();
        self.jobs.send(Job { op, reply: Some(reply) }).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// A consistent view for several queries.
    async fn view(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        self.readers.begin().await.map_err(|error| self.place.explain(&error))
    }

    /// The head, if one query says that it is the one this process remembers and that nothing else belongs to it.
    async fn remembered(&self, lineage: &Lineage) -> Result<Option<Checkpoint>, StoreError> {
        let mut reader = self.readers.acquire().await.map_err(|error| self.place.explain(&error))?;
        let row = read::step(&mut reader, &self.place, lineage, None).await?;
        let row = row.filter(|row| row.entry.next != Next::Tools);
        Ok(row.and_then(|row| {
            let state = self.heads.get(lineage, &row.entry.id)?;
            Some(read::checkpoint(row.entry, ThreadState::clone(&state), Vec::new()))
        }))
    }

    async fn run_of(&self, done: Done) -> Result<RunRow, StoreError> {
        let Done::Run(run_id) = done else { return Err(StoreError::Database("no run was answered".to_owned())) };
        let row = self.run(&run_id).await?;
        row.ok_or_else(|| StoreError::NotFound { what: "run", id: run_id.to_string() })
    }

    /// Writes a snapshot when the log outweighs it, after the step and without keeping its caller waiting.
    fn maybe_snapshot(&self, at: LogPosition, id: CheckpointId, state: Arc<ThreadState>) {
        if !at.wants_snapshot(state.messages.len(), self.options.snapshot_frequency) {
            return;
        }
        let pending = Arc::clone(&self.snapshots);
        if !lock(&pending).insert(at.lineage_key) {
            return;
        }
        let jobs = self.jobs.downgrade();
        self.tasks.spawn(async move {
            let taken = if state.messages.len() > SMALL_STATE {
                blocking(move || Snapshot::take(at, id, &state)).await
            } else {
                Snapshot::take(at, id, &state)
            };
            match taken {
                Ok(snapshot) => {
                    // A store that closes meanwhile does without: the next step writes one.
                    if let Some(jobs) = jobs.upgrade() {
                        drop(jobs.send(Job { op: Op::Snapshot(Box::new(snapshot)), reply: None }).await);
                    }
                }
                Err(error) => tracing::warn!(%error, "no snapshot was taken"),
            }
            lock(&pending).remove(&at.lineage_key);
        });
    }
}

/// The row of a run that was admitted now.
fn admitted(run: NewRun, created_at: i64) -> RunRow {
    RunRow {
        run_id: run.run_id,
        thread_id: run.thread_id,
        user_id: run.user_id,
        status: RunStatus::Pending,
        worker: run.worker,
        epoch: 1,
        input: run.input,
        options: run.options,
        error: None,
        stop_reason: None,
        usage: Usage::default(),
        created_at,
        updated_at: created_at,
    }
}

fn lock(pending: &Mutex<HashSet<i64>>) -> MutexGuard<'_, HashSet<i64>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| damaged("a storage task failed", error))?
}

#[async_trait]
impl StepLog for SqliteStore {
    async fn commit(&self, commit: StepCommit) -> Result<Committed, StoreError> {
        let (lineage, parent, state) = (commit.lineage.clone(), commit.parent.clone(), commit.state.clone());
        let op = CommitOp::pack(commit, self.options.mode.as_str())?;
        let added = op.pieces.data.len();
        let Done::Committed(committed, position) = self.write(Op::Commit(Box::new(op))).await? else {
            return Err(StoreError::Database("no step was answered".to_owned()));
        };
        if let (Some(position), Some(id)) = (position, &committed.checkpoint_id) {
            self.heads.advance(&lineage, parent.as_ref(), id.clone(), state.clone(), added);
            self.maybe_snapshot(position, id.clone(), state);
        }
        Ok(committed)
    }

    async fn load(&self, lineage: &Lineage, at: Option<&CheckpointId>) -> Result<Option<Checkpoint>, StoreError> {
        if at.is_none()
            && let Some(checkpoint) = self.remembered(lineage).await?
        {
            return Ok(Some(checkpoint));
        }
        let mut view = self.view().await?;
        let Some(row) = read::step(&mut view, &self.place, lineage, at).await? else {
            return match at {
                Some(at) => Err(StoreError::NotFound { what: "checkpoint", id: at.to_string() }),
                None => Ok(None),
            };
        };
        let open_effects =
            if row.is_head { read::open_effects(&mut view, &self.place, &row).await? } else { Vec::new() };
        let cached = if row.is_head { self.heads.get(lineage, &row.entry.id) } else { None };
        let state = match cached {
            Some(state) => ThreadState::clone(&state),
            None => {
                let log = read::log(&mut view, &self.place, &row).await?;
                let bytes = log.bytes();
                let state = if log.is_small() { log.replay()? } else { blocking(move || log.replay()).await? };
                if row.is_head {
                    self.heads.put(lineage, row.entry.id.clone(), Arc::new(state.clone()), bytes);
                }
                state
            }
        };
        Ok(Some(read::checkpoint(row.entry, state, open_effects)))
    }

    async fn history(
        &self,
        lineage: &Lineage,
        before: Option<&CheckpointId>,
        limit: u32,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        let mut view = self.view().await?;
        read::history(&mut view, &self.place, lineage, before, limit).await
    }
}

#[async_trait]
impl RunRepo for SqliteStore {
    async fn admit(&self, run: NewRun) -> Result<RunRow, StoreError> {
        let op = AdmitOp::pack(run.clone(), self.options.mode.as_str())?;
        match self.write(Op::Admit(Box::new(op))).await? {
            Done::Admitted { created_at } => Ok(admitted(run, created_at)),
            done => self.run_of(done).await,
        }
    }

    async fn adopt(&self, run_id: &RunId, expected_epoch: u64, worker: &Worker) -> Result<RunRow, StoreError> {
        let op = Op::Adopt { run_id: run_id.clone(), expected_epoch, worker: worker.clone() };
        let done = self.write(op).await?;
        self.run_of(done).await
    }

    async fn start(&self, fence: &Fence) -> Result<(), StoreError> {
        self.write(Op::Start(fence.clone())).await.map(drop)
    }

    async fn finish(&self, fence: &Fence, outcome: RunOutcome, events: Vec<NewJournalRow>) -> Result<(), StoreError> {
        let op = FinishOp::pack(fence.clone(), outcome, &events)?;
        self.write(Op::Finish(Box::new(op))).await.map(drop)
    }

    async fn run(&self, run_id: &RunId) -> Result<Option<RunRow>, StoreError> {
        let mut view = self.view().await?;
        read::run(&mut view, &self.place, run_id).await
    }

    async fn runs(&self, user_id: &UserId, filter: RunFilter) -> Result<Vec<RunRow>, StoreError> {
        let mut view = self.view().await?;
        read::runs(&mut view, &self.place, user_id, &filter).await
    }
}

#[async_trait]
impl EventRepo for SqliteStore {
    async fn journal(
        &self,
        thread_id: &ThreadId,
        run_id: Option<&RunId>,
        after_seq: u64,
        limit: u32,
    ) -> Result<Vec<JournalRow>, StoreError> {
        let mut view = self.view().await?;
        read::journal(&mut view, &self.place, thread_id, run_id, after_seq, limit).await
    }
}
