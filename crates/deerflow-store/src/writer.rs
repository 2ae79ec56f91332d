//! The one connection that writes, and the task that serves it.
//!
//! The task takes what waits, runs it in one transaction and acknowledges after `COMMIT`: under load many callers share the
//! cost of one. An operation that is refused has written nothing, so it is answered and the others go on. When the database
//! itself fails, the transaction is rolled back and each operation runs in its own, so that a failing one fails alone.
//!
//! A step that finds the connection free is written by its caller, without a change of task.

use crate::error::{Fault, Place};
use crate::write::{Done, Op, execute, execute_alone};
use deerflow_core::StoreError;
use sqlx::{Connection as _, Row as _, SqliteConnection};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Operations that may wait before callers have to.
pub(crate) const QUEUE: usize = 512;
/// Operations in one transaction at most, so that the first does not wait long for the last.
const BATCH: usize = 64;

/// A reader in the way, perhaps of another program, must not hold up the writes that wait behind this. The timeout that
/// is set again is [`crate::files`]'s.
const CUT_LOG: &str = "
    PRAGMA busy_timeout = 20;
    PRAGMA wal_checkpoint(TRUNCATE);
    PRAGMA busy_timeout = 10000";

/// An operation and who waits for it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) op: Op,
    pub(crate) reply: Option<oneshot::Sender<Result<Done, StoreError>>>,
}

/// The connection, held by whoever writes.
#[derive(Debug)]
pub(crate) struct Pen {
    held: Mutex<Held>,
    /// Whether something was written by a caller since the task looked.
    dirty: AtomicBool,
    wake: Notify,
}

#[derive(Debug)]
struct Held {
    /// Absent once the store is closed.
    conn: Option<SqliteConnection>,
    /// A caller went away, or failed, in the middle of its transaction: it may be open still.
    broken_off: bool,
}

impl Pen {
    pub(crate) fn new(conn: SqliteConnection) -> Self {
        let held = Mutex::new(Held { conn: Some(conn), broken_off: false });
        Self { held, dirty: AtomicBool::new(false), wake: Notify::new() }
    }

    /// Writes at once what one call of the driver can, if nobody else writes. `None` when it is the task's to do, which
    /// includes an operation that the database has failed.
    ///
    /// # Cancel safety
    /// The driver may stop anywhere when nobody waits for it; whoever writes next takes back what it did.
    pub(crate) async fn write(&self, op: &Op) -> Option<Result<Done, StoreError>> {
        let mut held = self.held.try_lock().ok().filter(|held| !held.broken_off)?;
        let held = &mut *held;
        let conn = held.conn.as_mut()?;
        let mut alarm = Alarm { wake: &self.wake, armed: true };
        held.broken_off = true;
        let answer = execute_alone(conn, op).await;
        held.broken_off = matches!(answer, Some(Err(Fault::Sql(_))));
        alarm.armed = held.broken_off;
        let answer = match answer? {
            Ok(done) => Ok(done),
            Err(Fault::Refused(error)) => Err(error),
            Err(Fault::Sql(error)) => {
                tracing::debug!(%error, "a write failed and is made again");
                return None;
            }
        };
        if !self.dirty.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
        Some(answer)
    }
}

/// Tells the task when a write is broken off.
struct Alarm<'a> {
    wake: &'a Notify,
    armed: bool,
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.wake.notify_one();
        }
    }
}

/// What the task takes the connection for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Operations wait.
    Write,
    /// A caller has written for the first time, or broken off.
    LookAfter,
    /// Nobody has written for a while.
    CutLog,
}

pub(crate) struct Writer {
    pub(crate) pen: Arc<Pen>,
    pub(crate) place: Place,
    pub(crate) jobs: mpsc::Receiver<Job>,
    pub(crate) closing: CancellationToken,
    /// Idle time after which the log is cut.
    pub(crate) idle: Duration,
}

impl Writer {
    /// Runs until the store is closed or dropped; what was accepted before is written first.
    pub(crate) async fn run(mut self) {
        let pen = Arc::clone(&self.pen);
        let mut batch = Vec::with_capacity(BATCH);
        let mut log_dirty = true;
        loop {
            let turn = tokio::select! {
                biased;
                taken = self.jobs.recv_many(&mut batch, BATCH) => if taken == 0 { break } else { Turn::Write },
                () = self.closing.cancelled(), if !self.jobs.is_closed() => {
                    self.jobs.close();
                    continue;
                }
                () = pen.wake.notified() => Turn::LookAfter,
                () = tokio::time::sleep(self.idle), if log_dirty => Turn::CutLog,
            };
            // Callers that have written meanwhile were not idle.
            if turn == Turn::CutLog && pen.dirty.swap(false, Ordering::AcqRel) {
                continue;
            }
            let mut held = pen.held.lock().await;
            let broken_off = std::mem::take(&mut held.broken_off);
            let Some(conn) = &mut held.conn else { break };
            let mut pass = Pass { conn, place: &self.place };
            if broken_off {
                pass.roll_back().await;
            }
            log_dirty = match turn {
                Turn::LookAfter => true,
                Turn::Write => {
                    pass.serve(&mut batch).await;
                    true
                }
                // A reader may hold the log back; the next idle time tries again.
                Turn::CutLog => !pass.cut_log().await,
            };
        }
        let mut held = pen.held.lock().await;
        let Some(mut conn) = held.conn.take() else { return };
        let mut pass = Pass { conn: &mut conn, place: &self.place };
        if held.broken_off {
            pass.roll_back().await;
        }
        pass.cut_log().await;
        if let Err(error) = conn.close().await {
            tracing::warn!(%error, "the database did not close cleanly");
        }
    }
}

/// The task's turn with the connection.
struct Pass<'a> {
    conn: &'a mut SqliteConnection,
    place: &'a Place,
}

impl Pass<'_> {
    async fn serve(&mut self, batch: &mut Vec<Job>) {
        let compactions: Vec<Job> = batch.extract_if(.., |job| matches!(job.op, Op::Compact)).collect();
        if !batch.is_empty() {
            let answers = match self.at_once(batch).await {
                Ok(answers) => answers,
                Err(error) => {
                    tracing::debug!(%error, operations = batch.len(), "a batch failed and is run one by one");
                    self.one_by_one(batch).await
                }
            };
            for (job, answer) in batch.drain(..).zip(answers) {
                answer_to(job, answer);
            }
        }
        for job in compactions {
            let answer = self.compact().await;
            answer_to(job, answer);
        }
    }

    /// A lone operation in one call of the driver where it can be, else all in one transaction.
    async fn at_once(&mut self, batch: &[Job]) -> Result<Vec<Result<Done, StoreError>>, sqlx::Error> {
        if let [job] = batch
            && let Some(answer) = execute_alone(self.conn, &job.op).await
        {
            return match answer {
                Ok(done) => Ok(vec![Ok(done)]),
                Err(Fault::Refused(error)) => Ok(vec![Err(error)]),
                Err(Fault::Sql(error)) => {
                    self.roll_back().await;
                    Err(error)
                }
            };
        }
        self.together(batch).await
    }

    async fn together(&mut self, batch: &[Job]) -> Result<Vec<Result<Done, StoreError>>, sqlx::Error> {
        self.exec("BEGIN IMMEDIATE").await?;
        let mut answers = Vec::with_capacity(batch.len());
        for job in batch {
            match execute(self.conn, &job.op).await {
                Ok(done) => answers.push(Ok(done)),
                Err(Fault::Refused(error)) => answers.push(Err(error)),
                Err(Fault::Sql(error)) => {
                    self.roll_back().await;
                    return Err(error);
                }
            }
        }
        if let Err(error) = self.exec("COMMIT").await {
            self.roll_back().await;
            return Err(error);
        }
        Ok(answers)
    }

    async fn one_by_one(&mut self, batch: &[Job]) -> Vec<Result<Done, StoreError>> {
        let mut answers = Vec::with_capacity(batch.len());
        for job in batch {
            let answer = self.together(std::slice::from_ref(job)).await;
            answers.push(match answer {
                Ok(mut one) => one.pop().unwrap_or_else(|| Err(StoreError::Database("no answer".to_owned()))),
                Err(error) => Err(self.place.explain(&error)),
            });
        }
        answers
    }

    async fn exec(&mut self, sql: &'static str) -> Result<(), sqlx::Error> {
        // Statements are cached, and the transaction is ours: SQLite may end it by itself when the disk is full, which
        // the driver's own transactions would not notice.
        sqlx::query(sql).execute(&mut *self.conn).await.map(drop)
    }

    async fn roll_back(&mut self) {
        if let Err(error) = self.exec("ROLLBACK").await {
            tracing::debug!(%error, "the transaction had ended already");
        }
    }

    /// Copies the log into the database and cuts it. `false` when readers were in the way.
    async fn cut_log(&mut self) -> bool {
        let rows = sqlx::query(CUT_LOG).fetch_all(&mut *self.conn).await;
        // The checkpoint's row has three columns, the first of which says whether it was held up.
        let blocked = rows.and_then(|rows| {
            let row = rows.iter().find(|row| row.len() == 3).ok_or(sqlx::Error::RowNotFound)?;
            row.try_get::<i64, _>(0)
        });
        match blocked {
            Ok(blocked) => blocked == 0,
            Err(error) => {
                tracing::debug!(%error, "the log could not be cut");
                false
            }
        }
    }

    async fn compact(&mut self) -> Result<Done, StoreError> {
        let freed = sqlx::query("PRAGMA incremental_vacuum").fetch_all(&mut *self.conn).await;
        freed.map_err(|error| self.place.explain(&error))?;
        self.cut_log().await;
        Ok(Done::Nothing)
    }
}

fn answer_to(job: Job, answer: Result<Done, StoreError>) {
    match (job.reply, answer) {
        // A caller that has gone away does not undo the write.
        (Some(reply), answer) => drop(reply.send(answer)),
        (None, Err(error)) => tracing::warn!(%error, "a background write failed"),
        (None, Ok(_)) => {}
    }
}
