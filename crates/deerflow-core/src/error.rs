//! The error taxonomy. Variants say what the caller can do about it.

use crate::state::Channel;
use std::time::Duration;

/// A reducer refused a write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Two nodes of one step wrote a channel that takes one value.
    #[error("channel {channel:?} was written twice in one step")]
    ConcurrentWrite {
        /// The channel.
        channel: Channel,
    },
    /// A thread already holds another sandbox.
    #[error("the thread holds sandbox {held:?} and cannot switch to {incoming:?}")]
    SandboxConflict {
        /// The one held.
        held: Option<String>,
        /// The one refused.
        incoming: Option<String>,
    },
    /// A removal named a message that is not there.
    #[error("cannot remove message {id:?}: no message has this id")]
    NoSuchMessage {
        /// The id.
        id: String,
    },
}

/// What went wrong with a model call, by what can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelErrorKind {
    /// The key is missing or refused: get another one.
    Auth,
    /// No credit or quota left: pay, or use another model.
    Quota,
    /// Too many requests in too short a time: wait longer.
    BurstRate,
    /// The provider is overloaded or rate limits: retry.
    Busy,
    /// A network fault or a server error: retry.
    Transient,
    /// The stream broke off or stayed silent: retry, perhaps with a smaller task.
    StreamInterrupted,
    /// The history does not fit: shrink it.
    ContextLength,
    /// The provider does not know the model: correct the name.
    UnknownModel,
    /// The address cannot be reached: correct `base_url`, or start the server.
    Unreachable,
    /// The provider refused the request as invalid.
    BadRequest,
    /// The reply could not be understood.
    BadResponse,
    /// The run was cancelled.
    Cancelled,
}

impl ModelErrorKind {
    /// Whether trying the same request again can help.
    #[must_use]
    pub fn is_retriable(self) -> bool {
        matches!(self, Self::BurstRate | Self::Busy | Self::Transient | Self::StreamInterrupted | Self::Unreachable)
    }
    /// Whether another provider may do better with the same request: this one is down, out of quota, refuses the key, does
    /// not know the model, or talks nonsense.
    #[must_use]
    pub fn is_the_providers(self) -> bool {
        self.is_retriable() || matches!(self, Self::Auth | Self::Quota | Self::UnknownModel | Self::BadResponse)
    }
    /// Stable name, as in `additional_kwargs.error_reason`.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Quota => "quota",
            Self::BurstRate => "burst_rate",
            Self::Busy => "busy",
            Self::Transient | Self::Unreachable => "transient",
            Self::StreamInterrupted => "stream_interrupted",
            Self::ContextLength => "context_length",
            Self::UnknownModel => "unknown_model",
            Self::BadRequest | Self::BadResponse => "generic",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A model call failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}{}", .hint.as_ref().map(|h| format!("; hint: {h}")).unwrap_or_default())]
pub struct ModelError {
    /// What can be done.
    pub kind: ModelErrorKind,
    /// What happened, naming model and host; never a secret.
    pub message: String,
    /// What to do about it, where known.
    pub hint: Option<String>,
    /// HTTP status, if there was a reply.
    pub status: Option<u16>,
    /// How long the provider asked to wait.
    pub retry_after: Option<Duration>,
    /// Whether a part of the reply had come before. Set by whoever passes replies on.
    pub begun: bool,
}

impl ModelError {
    /// An error with a message only.
    #[must_use]
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, status: None, retry_after: None, begun: false }
    }
    /// The same error with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    /// The run was cancelled.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(ModelErrorKind::Cancelled, "cancelled")
    }
}

/// A tool could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// Tell the model; the run goes on. The text starts with `Error: ` when it reaches the model.
    #[error("{0}")]
    Respond(String),
    /// The run cannot go on.
    #[error("{0}")]
    Fatal(String),
    /// The run was cancelled while the tool worked.
    #[error("cancelled")]
    Cancelled,
}

impl ToolError {
    /// A failure the model can act on.
    #[must_use]
    pub fn respond(text: impl Into<String>) -> Self {
        Self::Respond(text.into())
    }
}

/// Storage failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No such row.
    #[error("{what} {id} does not exist")]
    NotFound {
        /// Kind of thing.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// Another run of the thread is live.
    #[error("thread {thread_id} has an active run {run_id} (held by {holder})")]
    ThreadBusy {
        /// The thread.
        thread_id: String,
        /// The live run.
        run_id: String,
        /// Who runs it: process, host.
        holder: String,
    },
    /// The write came from a worker that no longer owns the run.
    #[error("run {run_id} is owned by another worker now; nothing was written")]
    Fenced {
        /// The run.
        run_id: String,
    },
    /// The parent checkpoint is not the head any more.
    #[error("thread {thread_id} has moved on since checkpoint {parent}; nothing was written")]
    StaleParent {
        /// The thread.
        thread_id: String,
        /// The checkpoint the write was built on.
        parent: String,
    },
    /// The id is taken.
    #[error("{what} {id} exists already")]
    Exists {
        /// Kind of thing.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// The thread is marked for another storage mode than this process is set to.
    #[error(
        "thread {thread_id} is stored in mode {found}, but `database.checkpoint_channel_mode` is {configured}; \
         hint: run `deerflow threads migrate {thread_id} --to {configured}`, or change the setting"
    )]
    ModeMismatch {
        /// The thread.
        thread_id: String,
        /// Its mode.
        found: String,
        /// That of this process.
        configured: String,
    },
    /// The run has ended.
    #[error("run {run_id} is over ({status}); start a new run")]
    RunOver {
        /// The run.
        run_id: String,
        /// How it ended.
        status: String,
    },
    /// Too many inputs wait for a run.
    #[error("{limit} inputs wait for run {run_id} already; try again when it has taken some")]
    QueueFull {
        /// The run.
        run_id: String,
        /// How many may wait.
        limit: u32,
    },
    /// A value from outside cannot be stored.
    #[error("{field}: {reason}")]
    BadInput {
        /// What was given.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The disk is full.
    #[error("no space left for {path}; hint: free some space and resume the run")]
    DiskFull {
        /// The database.
        path: String,
    },
    /// The database cannot be opened or written.
    #[error("cannot use the database {path}: {reason}")]
    Unavailable {
        /// The database.
        path: String,
        /// Why.
        reason: String,
    },
    /// What was read does not make sense.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
    /// Anything else the database said.
    #[error("database: {0}")]
    Database(String),
}

/// A run of the agent failed.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A reducer refused a write.
    #[error(transparent)]
    State(#[from] StateError),
    /// The model failed for good.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A tool ended the run.
    #[error("tool {tool} ended the run: {reason}")]
    Tool {
        /// The tool.
        tool: String,
        /// Why.
        reason: String,
    },
    /// A middleware failed.
    #[error("{middleware}: {reason}")]
    Middleware {
        /// Its name.
        middleware: String,
        /// Why.
        reason: String,
    },
    /// An answer was given and no question is open.
    #[error("the thread waits for no answer")]
    NotWaiting,
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl AgentError {
    /// A failure of a middleware.
    #[must_use]
    pub fn middleware(name: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Middleware { middleware: name.into(), reason: reason.to_string() }
    }
    /// Whether it stands for a cancellation rather than a failure.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Model(ModelError { kind: ModelErrorKind::Cancelled, .. }))
    }
}
