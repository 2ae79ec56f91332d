//! The two traits the rest of the house uses: a provider gives sandboxes, a sandbox has files and a shell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::capability::Capability;
use crate::egress::{NetworkAccess, NetworkUse};
use crate::files::{
    DirEntry, EditOutcome, Expect, FileStat, GlobOutcome, GrepOutcome, GrepQuery, Listing, ThreadFiles, WriteOutcome,
};
use crate::text::TextFile;
use crate::{SandboxError, VirtualPath};

/// Gives each thread its computer.
#[async_trait]
pub trait SandboxProvider: Send + Sync {
    /// `isolated` or `host`.
    fn name(&self) -> &'static str;

    /// Which tier is in force, whether commands are offered, and why not.
    fn capability(&self) -> &Capability;

    /// What commands can reach.
    fn network(&self) -> NetworkAccess {
        NetworkAccess::Off
    }

    /// User and group that files put into a thread from outside must belong to; `None` where that is the server's own.
    fn file_owner(&self) -> Option<(u32, u32)> {
        None
    }

    /// The sandbox of a thread; its directories are made when absent. Cheap when the thread has one already.
    ///
    /// # Errors
    /// [`SandboxError::InvalidId`], or the failure to make the directories.
    async fn acquire(&self, user_id: &str, thread_id: &str) -> Result<Arc<dyn Sandbox>, SandboxError>;
}

/// One thread's computer. All paths are virtual, and no result or error names a host path.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// Stable id: `<provider>:<user>:<thread>`.
    fn id(&self) -> &str;

    /// Parses a path; knows the custom mounts of the configuration.
    ///
    /// # Errors
    /// [`SandboxError::InvalidPath`].
    fn parse_path(&self, input: &str) -> Result<VirtualPath, SandboxError>;

    /// The files by themselves, for streaming uploads and artifacts, where they are on this machine. What is written through
    /// them belongs to whom the commands need it to belong.
    fn files(&self) -> Option<Arc<ThreadFiles>> {
        None
    }

    /// Replaces host paths of this thread by virtual ones.
    fn mask(&self, text: &str) -> String;

    /// Runs a command with the shell and waits for it. Everything it started is dead when this returns.
    ///
    /// A timeout, a limit or a cancellation is an [`ExecOutput`] that says so, with the output until then.
    ///
    /// # Errors
    /// [`SandboxError::ShellUnavailable`] when commands are not offered; [`SandboxError::InvalidEnv`];
    /// [`SandboxError::Launch`] when the sandbox cannot be set up.
    async fn execute(&self, request: ExecRequest, cancel: CancellationToken) -> Result<ExecOutput, SandboxError>;

    /// The bytes of a regular file of at most `max` bytes.
    ///
    /// # Errors
    /// Any of the path errors; [`SandboxError::TooLarge`].
    async fn read_bytes(&self, path: &VirtualPath, max: u64) -> Result<Vec<u8>, SandboxError>;

    /// A text file, decoded, with what an edit must keep.
    ///
    /// # Errors
    /// Any of the path errors; [`SandboxError::Binary`]; [`SandboxError::TooLarge`] above [`crate::MAX_TEXT_BYTES`].
    async fn read_text(&self, path: &VirtualPath) -> Result<TextFile, SandboxError>;

    /// Replaces or makes a file with UTF-8 text, at once (never half written); missing parents are made, the mode is kept.
    ///
    /// # Errors
    /// Any of the path errors; [`SandboxError::Changed`] if `expect` does not hold; [`SandboxError::DiskFull`].
    async fn write_text(&self, path: &VirtualPath, text: &str, expect: Expect) -> Result<WriteOutcome, SandboxError> {
        self.write_bytes(path, text.as_bytes().to_vec(), expect).await
    }

    /// The same with bytes.
    ///
    /// # Errors
    /// As [`Sandbox::write_text`].
    async fn write_bytes(
        &self,
        path: &VirtualPath,
        bytes: Vec<u8>,
        expect: Expect,
    ) -> Result<WriteOutcome, SandboxError>;

    /// Adds text at the end of a file (in the encoding that its byte order mark names), making it when absent.
    ///
    /// # Errors
    /// As [`Sandbox::write_text`].
    async fn append(&self, path: &VirtualPath, text: &str) -> Result<WriteOutcome, SandboxError>;

    /// Replaces exact text. `\n` in `old` also matches `\r\n`; encoding, byte order mark, line ends, mode and a missing final
    /// newline stay.
    ///
    /// # Errors
    /// [`SandboxError::NoMatch`], [`SandboxError::AmbiguousMatch`], [`SandboxError::InvalidEdit`] (empty or unchanged text),
    /// [`SandboxError::Binary`], [`SandboxError::Encoding`], [`SandboxError::Changed`], any of the path errors.
    async fn replace_text(&self, path: &VirtualPath, edit: Replacement) -> Result<EditOutcome, SandboxError>;

    /// Files and directories beneath a directory, sorted, ignored names left out.
    ///
    /// # Errors
    /// Any of the path errors.
    async fn list_dir(&self, path: &VirtualPath, max_depth: usize) -> Result<Listing, SandboxError>;

    /// The entries of one directory, in order of names: nothing left out, links told and not followed.
    ///
    /// # Errors
    /// Any of the path errors.
    async fn read_dir(&self, path: &VirtualPath) -> Result<Vec<DirEntry>, SandboxError>;

    /// Paths beneath a directory that match a glob: `**` is any depth, a pattern without `/` matches names at any depth.
    ///
    /// # Errors
    /// [`SandboxError::InvalidPattern`], any of the path errors.
    async fn glob(
        &self,
        path: &VirtualPath,
        pattern: &str,
        include_dirs: bool,
        max_results: usize,
    ) -> Result<GlobOutcome, SandboxError>;

    /// Lines that match a regular expression (or literal text), in a file or beneath a directory.
    ///
    /// # Errors
    /// [`SandboxError::InvalidPattern`], any of the path errors.
    async fn grep(&self, path: &VirtualPath, query: GrepQuery) -> Result<GrepOutcome, SandboxError>;

    /// What is there.
    ///
    /// # Errors
    /// Any of the path errors.
    async fn stat(&self, path: &VirtualPath) -> Result<FileStat, SandboxError>;

    /// SHA-256 of a regular file, lower-case hex.
    ///
    /// # Errors
    /// Any of the path errors.
    async fn sha256(&self, path: &VirtualPath) -> Result<String, SandboxError>;
}

/// A command to run.
#[derive(Debug, Clone, Default)]
pub struct ExecRequest {
    /// Shell text (`bash -c`, or `sh -c` where there is no bash).
    pub command: String,
    /// Variables of this command, over those of the configuration.
    pub env: BTreeMap<String, String>,
    /// Limit; `None` is that of the configuration.
    pub timeout: Option<Duration>,
    /// Working directory; `None` is the workspace.
    pub cwd: Option<VirtualPath>,
}

impl ExecRequest {
    /// A command with all else by default.
    #[must_use]
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), ..Self::default() }
    }
}

/// What a command did. Exactly one of `exit_code`, `signal`, `timed_out`, `cancelled` or `limit_hit` says how it ended,
/// except that a limit may also show as the exit code or signal it caused.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExecOutput {
    /// Standard output; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
    /// Status of the shell when it exited by itself.
    pub exit_code: Option<i32>,
    /// Signal that ended the shell.
    pub signal: Option<i32>,
    /// The time limit ended it.
    pub timed_out: bool,
    /// The caller ended it.
    pub cancelled: bool,
    /// The limit that ended it or made it fail, when known.
    pub limit_hit: Option<LimitHit>,
    /// What was left out of `stdout`.
    pub stdout_cut: Option<Cut>,
    /// What was left out of `stderr`.
    pub stderr_cut: Option<Cut>,
    /// What it did on the network; `None` where that is off, or not ours to watch.
    pub network: Option<NetworkUse>,
    /// From the request to the death of the last process.
    pub duration: Duration,
}

impl ExecOutput {
    /// True if the command exited with 0 and nothing ended it early.
    #[must_use]
    pub fn success(&self) -> bool {
        self.exit_code == Some(0) && !self.timed_out && !self.cancelled
    }
}

/// Bytes left out of the middle of an output; the text has a notice at that place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// All bytes the command wrote.
    pub total_bytes: u64,
    /// Bytes left out.
    pub dropped_bytes: u64,
}

/// A limit of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitHit {
    /// Memory of the process tree (`memory_mb`).
    Memory,
    /// Size of one file (`file_size_mb`).
    FileSize,
    /// Disk space of the thread (`disk_mb`).
    Disk,
    /// The disk space of the thread cannot be measured, which is as if it were over the limit (`disk_mb`).
    DiskUnknown,
    /// Reserve of free disk space (`min_free_mb`).
    FreeSpace,
}

impl std::fmt::Display for LimitHit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory limit reached",
            Self::FileSize => "file size limit reached",
            Self::Disk => "disk space limit of the thread reached",
            Self::DiskUnknown => {
                "disk use of the thread cannot be measured: directories nested more than 256 deep, or closed; remove them"
            }
            Self::FreeSpace => "the disk is nearly full",
        })
    }
}

/// A text replacement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replacement {
    /// Text to find, exact.
    pub old: String,
    /// Text to put in its place.
    pub new: String,
    /// Replace every occurrence; otherwise there must be just one.
    pub replace_all: bool,
    /// Compute the outcome, write nothing.
    pub dry_run: bool,
    /// What the file must be.
    pub expect: Expect,
}

impl Replacement {
    /// A replacement of one occurrence.
    #[must_use]
    pub fn one(old: impl Into<String>, new: impl Into<String>) -> Self {
        Self { old: old.into(), new: new.into(), ..Self::default() }
    }

    /// A replacement of every occurrence.
    #[must_use]
    pub fn all(old: impl Into<String>, new: impl Into<String>) -> Self {
        Self { replace_all: true, ..Self::one(old, new) }
    }
}
