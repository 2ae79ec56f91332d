//! Files of one thread, opened name by name beneath their roots.
//!
//! Every operation starts from a directory the server owns, never follows a link that the kernel or [`resolve`] has not
//! checked, and touches regular files only. All functions here block; the sandbox calls them on a blocking thread.

mod edit;
mod ignored;
mod mounts;
mod read;
mod read_dir;
mod resolve;
mod search;
mod walk;
mod write;

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::SandboxConfig;
use crate::{SandboxError, ThreadPaths, VirtualPath};

pub use edit::EditOutcome;
pub use mounts::{Access, Mount, MountTable};
pub use read_dir::{DirEntry, EntryKind};
pub use search::{GlobOutcome, GrepMatch, GrepOutcome, GrepQuery};
pub use write::{Expect, WriteOutcome};

/// Largest file read as text, in bytes.
pub const MAX_TEXT_BYTES: u64 = 32 * 1024 * 1024;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStat {
    /// Kind of the file; links are followed.
    pub kind: FileKind,
    /// Bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Last change, milliseconds since 1970.
    pub modified_ms: i64,
}

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// FIFO, socket, device.
    Other,
}

/// A directory listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Entries in order of their paths.
    pub entries: Vec<ListedEntry>,
    /// More exist.
    pub truncated: bool,
}

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEntry {
    /// Virtual path, without a trailing separator.
    pub path: String,
    /// It is a directory (or a link to one).
    pub is_dir: bool,
    /// Bytes, for files.
    pub size: u64,
}

/// The files of one thread: a mount table and the rules for touching what is behind it.
#[derive(Debug)]
pub struct ThreadFiles {
    mounts: MountTable,
    /// Owner of what is made here, when the server is root.
    owner: Option<u32>,
    min_free_bytes: u64,
    locks: Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

impl ThreadFiles {
    /// The files of a thread. `owner` is the sandbox's user id when the server runs as root.
    #[must_use]
    pub fn new(paths: &ThreadPaths, config: &SandboxConfig, owner: Option<u32>) -> Self {
        Self {
            mounts: MountTable::for_thread(paths, config),
            owner,
            min_free_bytes: config.min_free_mb.saturating_mul(1 << 20),
            locks: Mutex::new(HashMap::new()),
        }
    }

    /// The mount table.
    #[must_use]
    pub fn mounts(&self) -> &MountTable {
        &self.mounts
    }

    /// Parses a path; knows custom mounts.
    ///
    /// # Errors
    /// [`SandboxError::InvalidPath`].
    pub fn parse(&self, input: &str) -> Result<VirtualPath, SandboxError> {
        VirtualPath::parse_with(input, self.mounts.custom_roots())
    }

    /// Opens a regular file for reading. For streaming an artifact to a client.
    ///
    /// # Errors
    /// Any of the path errors.
    pub fn open(&self, path: &VirtualPath) -> Result<(File, FileStat), SandboxError> {
        let (file, stat) = self.open_regular(path)?;
        Ok((file, resolve::file_stat(&stat)))
    }

    /// The lock that serialises writers of one file.
    fn lock_of(&self, path: &str) -> Arc<Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if locks.len() > 256 {
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        Arc::clone(locks.entry(path.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests;
