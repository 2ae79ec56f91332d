//! What the database said, in the vocabulary of [`StoreError`].

use crate::config::ChannelMode;
use deerflow_core::StoreError;
use std::path::{Path, PathBuf};

/// Below this much free space an input/output error counts as a full disk.
const FULL_BELOW_BYTES: u64 = 1 << 20;

/// Why an operation inside a batch ended.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The operation was refused before it wrote anything: the transaction goes on.
    Refused(StoreError),
    /// The database failed: what the transaction has done so far does not count.
    Sql(sqlx::Error),
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

/// Where the database is, for error messages, and how it is used.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    path: PathBuf,
    /// Storage mode this process works in.
    mode: ChannelMode,
}

impl Place {
    pub(crate) fn new(path: &Path, mode: ChannelMode) -> Self {
        Self { path: path.to_owned(), mode }
    }

    pub(crate) fn mode(&self) -> &'static str {
        self.mode.as_str()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn shown(&self) -> String {
        self.path.display().to_string()
    }

    pub(crate) fn unavailable(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Unavailable { path: self.shown(), reason: reason.into() }
    }

    pub(crate) fn explain(&self, error: &sqlx::Error) -> StoreError {
        match error {
            sqlx::Error::PoolTimedOut => self.unavailable("no reader became free in time"),
            sqlx::Error::PoolClosed => self.unavailable("the store is closed"),
            sqlx::Error::WorkerCrashed => self.unavailable("the connection broke down"),
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                StoreError::Damaged(format!("{}: {error}", self.shown()))
            }
            _ => self.explain_code(error),
        }
    }

    /// Result codes of SQLite: <https://www.sqlite.org/rescode.html>. The low byte is the kind.
    fn explain_code(&self, error: &sqlx::Error) -> StoreError {
        let database = error.as_database_error();
        let code = database.and_then(|e| e.code()).and_then(|code| code.parse::<i32>().ok()).unwrap_or(0);
        let message = database.map_or_else(|| error.to_string(), |e| e.message().to_owned());
        match code & 0xff {
            5 | 6 => self.unavailable(format!("another process holds it: {message}")),
            8 => self.unavailable("it is read-only; hint: check the owner and mode of the file and its folder"),
            10 if self.is_full() => StoreError::DiskFull { path: self.shown() },
            10 => self.unavailable(format!("input/output error: {message}")),
            11 => StoreError::Damaged(format!(
                "{} is corrupt ({message}); hint: restore a backup, or move the file away to start afresh",
                self.shown()
            )),
            13 => StoreError::DiskFull { path: self.shown() },
            14 => self.unavailable("it cannot be opened; hint: check the owner and mode of the file and its folder"),
            26 => self
                .unavailable("the file is not an SQLite database; hint: set `database.sqlite_dir` to another folder"),
            _ => StoreError::Database(message),
        }
    }

    fn is_full(&self) -> bool {
        rustix::fs::statvfs(&self.path).is_ok_and(|stat| stat.f_bavail.saturating_mul(stat.f_frsize) < FULL_BELOW_BYTES)
    }
}

pub(crate) fn damaged(what: &str, error: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("{what}: {error}"))
}
