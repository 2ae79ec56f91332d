//! What the server and its launcher say to each other.
//!
//! The server starts one launcher and talks to it over a packet socket, the launcher's standard input. The first packet is a
//! [`Setup`], answered by a [`Ready`]. Each later packet asks for a sandbox: an [`Ask`] with file descriptors, the control
//! socket first, then the entry of the sandbox's cgroup if it has one, then the mounts that [`Source::Passed`] refers to.
//!
//! The control socket carries a [`Job`] to the sandbox's pid 1 (length, then JSON, with the pipes for stdout and stderr as
//! descriptors), and back [`TAKEN`], white space with the socket of the job's proxy if it has one, and one [`Ended`] (a line of
//! JSON). Pid 1 then waits for a further job if it said so,
//! which only ever comes from the same thread; otherwise it exits. When the server's end closes, the sandbox dies; the
//! launcher keeps its end open until the sandbox's last process is gone, so that end of file means just that.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The argument that makes our binary a launcher.
pub(crate) const LAUNCHER_ARG: &str = "__sandbox-exec";
/// The argument after it that makes it run one command without namespaces; the user to become follows.
pub(crate) const PLAIN_ARG: &str = "plain";
/// Largest packet on the launcher's socket.
pub(crate) const MAX_PACKET: usize = 64 * 1024;
/// Most descriptors with one packet.
pub(crate) const MAX_FDS: usize = 64;
/// What pid 1 says when it has the job: white space before the report.
pub(crate) const TAKEN: &[u8] = b"\n";
/// User and group id inside the sandbox.
pub(crate) const INSIDE_ID: u32 = 1000;
/// Home directory inside the sandbox.
pub(crate) const INSIDE_HOME: &str = "/home/agent";

/// What every job of a launcher has in common.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Host user id to become first, when started as root.
    pub drop_to: Option<u32>,
    /// Directories where jobs have mounts; made in the root of the sandbox.
    pub targets: Vec<String>,
    /// Host directories that mounts come from: the launcher's own mounts keep off them.
    pub keep_visible: Vec<PathBuf>,
}

/// The launcher is ready, or not.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Ready {
    /// Jobs can be started; what is missing.
    Ok {
        /// Protections that this kernel lacks.
        degraded: Vec<String>,
    },
    /// This kernel refuses.
    Failed(Failure),
}

/// A step of the set-up that failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub step: String,
    pub message: String,
}

impl Failure {
    pub(crate) fn new(step: impl Into<String>, cause: impl std::fmt::Display) -> Self {
        Self { step: step.into(), message: cause.to_string() }
    }
}

/// One command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub command: String,
    pub env: Vec<(String, String)>,
    pub cwd: String,
    /// What the sandbox shows; taken from its first job, empty in later ones.
    pub mounts: Vec<JobMount>,
    /// The same in all jobs of a sandbox.
    pub limits: Limits,
    /// Stay for a further job.
    pub stay: bool,
    /// The server runs a proxy for it and wants a listening socket of its network.
    pub proxy: bool,
}

/// Where a host directory appears in a sandbox; without namespaces, where it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct JobMount {
    pub target: String,
    pub read_only: bool,
}

/// The wish for a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ask {
    /// Name of the thread.
    pub thread: String,
    /// The entry of a cgroup follows the control socket.
    pub cgroup: bool,
    /// Where the mounts of the first job come from, in their order.
    pub sources: Vec<Source>,
}

/// Where a mount comes from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Source {
    /// The n-th descriptor after those: a detached mount that the server, as root, made.
    Passed(usize),
    /// A path that the launcher opens as the server's own user.
    Path(PathBuf),
}

/// Limits of one command; 0 is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    pub memory_bytes: u64,
    pub processes: u64,
    pub file_size_bytes: u64,
}

/// What pid 1 says at the end of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub report: Report,
    /// No process is left but pid 1, which takes a further job. Otherwise it is about to exit, with all that is left.
    pub ready: bool,
}

/// How a job ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The shell exited.
    Exited(i32),
    /// A signal ended the shell.
    Signalled(i32),
    /// The process tree used too much memory and was ended.
    OutOfMemory,
    /// The sandbox could not be set up; nothing ran.
    Failed(Failure),
}
