//! What can go wrong, by what the caller can do about it. No host path is ever in a message.

use rustix::io::Errno;

/// An error of the sandbox. Paths in it are virtual paths.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The text is not a path inside the sandbox's virtual tree.
    #[error("invalid path '{path}': {reason}")]
    InvalidPath {
        /// The text as given.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A user or thread id is not 1 to 64 of `[A-Za-z0-9_-]`.
    #[error("invalid {what} id: use 1 to 64 of A-Z a-z 0-9 _ -")]
    InvalidId {
        /// `user` or `thread`.
        what: &'static str,
    },
    /// Nothing is there.
    #[error("file not found: {path}")]
    NotFound {
        /// Virtual path.
        path: String,
    },
    /// The mode of the file, or the kernel, forbids it.
    #[error("permission denied: {path}")]
    PermissionDenied {
        /// Virtual path.
        path: String,
    },
    /// The place is read-only for file tools (skills, the ACP workspace, read-only mounts).
    #[error("read-only: {path}")]
    ReadOnly {
        /// Virtual path.
        path: String,
    },
    /// A link or mount on the way leads out of the virtual tree.
    #[error("refused: '{path}' is or passes through a link that leads outside the sandbox")]
    OutsideRoot {
        /// Virtual path as asked for.
        path: String,
    },
    /// Too many links, or a loop of them.
    #[error("too many levels of links: {path}")]
    LinkLoop {
        /// Virtual path.
        path: String,
    },
    /// A file was asked for, a directory is there.
    #[error("path is a directory, not a file: {path}")]
    IsDirectory {
        /// Virtual path.
        path: String,
    },
    /// A directory was asked for, something else is there.
    #[error("path is not a directory: {path}")]
    NotDirectory {
        /// Virtual path.
        path: String,
    },
    /// A FIFO, socket or device: only regular files are read and written.
    #[error("not a regular file ({kind}): {path}")]
    NotRegular {
        /// Virtual path.
        path: String,
        /// `fifo`, `socket`, `device`.
        kind: &'static str,
    },
    /// The file is larger than the limit of this operation.
    #[error("file too large: {path} has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// Virtual path.
        path: String,
        /// Bytes.
        size: u64,
        /// Bytes.
        limit: u64,
    },
    /// The file is not text.
    #[error(
        "'{path}' is a binary file ({kind}, {size} bytes), not text; hint: inspect it with a command or a tool for its type"
    )]
    Binary {
        /// Virtual path.
        path: String,
        /// Media type when known, else `unknown type`.
        kind: String,
        /// Bytes.
        size: u64,
    },
    /// The text cannot be written back in the encoding of the file without loss.
    #[error(
        "cannot write '{path}' as {encoding}: the text has characters that this encoding lacks, or the file is not valid {encoding}"
    )]
    Encoding {
        /// Virtual path.
        path: String,
        /// Encoding label.
        encoding: String,
    },
    /// The edit itself makes no sense.
    #[error("invalid edit of '{path}': {reason}")]
    InvalidEdit {
        /// Virtual path.
        path: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The text to replace is not in the file.
    #[error("text to replace not found in file: {path}")]
    NoMatch {
        /// Virtual path.
        path: String,
    },
    /// The text to replace occurs more than once and not all were asked for.
    #[error("text to replace occurs {count} times in {path}: {}; hint: give more context, or ask to replace all", list_matches(.matches))]
    AmbiguousMatch {
        /// Virtual path.
        path: String,
        /// How often it occurs.
        count: usize,
        /// The first of them: 1-based line number and that line.
        matches: Vec<(usize, String)>,
    },
    /// The file is not the one that was read.
    #[error("'{path}' changed since it was read; hint: read it again before writing")]
    Changed {
        /// Virtual path.
        path: String,
    },
    /// A glob or regular expression does not parse.
    #[error("invalid {what}: {message}")]
    InvalidPattern {
        /// `glob pattern` or `regex pattern`.
        what: &'static str,
        /// The parser's words.
        message: String,
    },
    /// Writing would eat the reserve of free disk space, or the disk is full.
    #[error("not enough disk space to write {path}")]
    DiskFull {
        /// Virtual path.
        path: String,
    },
    /// An environment variable name is not `[A-Za-z_][A-Za-z0-9_]*`, or its value has a NUL.
    #[error("invalid environment variable: {name}")]
    InvalidEnv {
        /// The name.
        name: String,
    },
    /// Commands are not offered here; the reasons are for the operator.
    #[error("commands are not available: {}", .reasons.join("; "))]
    ShellUnavailable {
        /// Why each tier was refused.
        reasons: Vec<String>,
    },
    /// The sandbox of a command could not be set up.
    #[error("could not start the sandbox: {step}: {message}")]
    Launch {
        /// Step that failed.
        step: String,
        /// Cause.
        message: String,
    },
    /// The configuration asks for something that does not exist or is not safe.
    #[error("sandbox configuration: {message}")]
    Config {
        /// What to change.
        message: String,
    },
    /// Any other failure of the operating system.
    #[error("{action} failed{}: {message}", at(.path))]
    Io {
        /// What was tried.
        action: &'static str,
        /// Virtual path, if any.
        path: Option<String>,
        /// The system's words.
        message: String,
    },
}

fn at(path: &Option<String>) -> String {
    path.as_deref().map(|path| format!(" for {path}")).unwrap_or_default()
}

fn list_matches(matches: &[(usize, String)]) -> String {
    matches.iter().map(|(line, text)| format!("line {line} ({text})")).collect::<Vec<_>>().join(", ")
}

impl SandboxError {
    /// The error of a system call on a virtual path.
    pub(crate) fn at(action: &'static str, path: &str, errno: Errno) -> Self {
        let path = path.to_owned();
        match errno {
            Errno::NOENT => Self::NotFound { path },
            Errno::ACCESS | Errno::PERM => Self::PermissionDenied { path },
            Errno::ROFS => Self::ReadOnly { path },
            Errno::ISDIR => Self::IsDirectory { path },
            Errno::NOTDIR => Self::NotDirectory { path },
            Errno::LOOP => Self::LinkLoop { path },
            Errno::XDEV => Self::OutsideRoot { path },
            Errno::NOSPC | Errno::DQUOT => Self::DiskFull { path },
            Errno::NXIO => Self::NotRegular { path, kind: "fifo, socket or device" },
            Errno::NAMETOOLONG => Self::InvalidPath { path, reason: "a name in it is too long" },
            other => Self::Io {
                action,
                path: Some(path),
                message: std::io::Error::from_raw_os_error(other.raw_os_error()).to_string(),
            },
        }
    }

    /// The same for an [`std::io::Error`].
    pub(crate) fn io(action: &'static str, path: &str, error: &std::io::Error) -> Self {
        match error.raw_os_error() {
            Some(code) => Self::at(action, path, Errno::from_raw_os_error(code)),
            None => Self::Io { action, path: Some(path.to_owned()), message: error.kind().to_string() },
        }
    }

    /// A failure that has no path.
    pub(crate) fn system(action: &'static str, error: &std::io::Error) -> Self {
        Self::Io { action, path: None, message: error.to_string() }
    }
}
