//! The one task that writes.
//!
//! It takes what waits, runs it in one transaction and acknowledges after `COMMIT`: under load many callers share the cost
//! of one. An operation that is refused has written nothing, so it is answered and the others go on. When the database
//! itself fails, the transaction is rolled back and each operation runs in its own, so that a failing one fails alone.

use crate::error::{Fault, Place};
use crate::write::{Done, Op, execute, execute_alone};
use deerflow_core::StoreError;
use sqlx::{Connection as _, Row as _, SqliteConnection};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
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

pub(crate) struct Writer {
    pub(crate) conn: SqliteConnection,
    pub(crate) place: Place,
    pub(crate) jobs: mpsc::Receiver<Job>,
    pub(crate) closing: CancellationToken,
    /// Idle time after which the log is cut.
    pub(crate) idle: Duration,
}

impl Writer {
    /// Runs until the store is closed or dropped; what was accepted before is written first.
    pub(crate) async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut log_dirty = true;
        loop {
            let taken = tokio::select! {
                biased;
                taken = self.jobs.recv_many(&mut batch, BATCH) => Some(taken),
                () = self.closing.cancelled(), if !self.jobs.is_closed() => {
                    self.jobs.close();
                    continue;
                }
                () = tokio::time::sleep(self.idle), if log_dirty => None,
            };
            match taken {
                Some(0) => break,
                Some(_) => {
                    log_dirty = true;
                    self.serve(&mut batch).await;
                }
                // A reader may hold the log back; the next idle time tries again.
                None => log_dirty = !self.cut_log().await,
            }
        }
        self.cut_log().await;
        if let Err(error) = self.conn.close().await {
            tracing::warn!(%error, "the database did not close cleanly");
        }
    }

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
            && let Some(answer) = execute_alone(&mut self.conn, &job.op).await
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
            match execute(&mut self.conn, &job.op).await {
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
        sqlx::query(sql).execute(&mut self.conn).await.map(drop)
    }

    async fn roll_back(&mut self) {
        if let Err(error) = self.exec("ROLLBACK").await {
            tracing::debug!(%error, "the transaction had ended already");
        }
    }

    /// Copies the log into the database and cuts it. `false` when readers were in the way.
    async fn cut_log(&mut self) -> bool {
        let rows = sqlx::query(CUT_LOG).fetch_all(&mut self.conn).await;
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
        let freed = sqlx::query("PRAGMA incremental_vacuum").fetch_all(&mut self.conn).await;
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
