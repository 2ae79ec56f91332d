//! What every hook, model call and tool call of one run shares.

use deerflow_core::{AgentError, EventSink, RunId, ThreadId, UserId};
use std::sync::{Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Facts of one run. It holds no collaborators: those come through constructors.
#[derive(Debug)]
pub struct RunContext {
    /// Owner of the thread.
    pub user_id: UserId,
    /// The thread.
    pub thread_id: ThreadId,
    /// The run.
    pub run_id: RunId,
    /// Namespace of the lineage; empty for the lead agent.
    pub namespace: String,
    /// Whether the agent may ask the user something.
    pub interactive: bool,
    /// Stops the run.
    pub cancel: CancellationToken,
    /// Where its events go.
    pub events: EventSink,
    stop_reason: Mutex<Option<String>>,
}

impl RunContext {
    /// A context for a run of the lead agent.
    #[must_use]
    pub fn new(
        user_id: UserId,
        thread_id: ThreadId,
        run_id: RunId,
        cancel: CancellationToken,
        events: EventSink,
    ) -> Self {
        Self {
            user_id,
            thread_id,
            run_id,
            namespace: String::new(),
            interactive: true,
            cancel,
            events,
            stop_reason: Mutex::new(None),
        }
    }
    /// The same context for a run that nobody can answer questions of.
    #[must_use]
    pub fn non_interactive(mut self) -> Self {
        self.interactive = false;
        self
    }
    /// Which limit ended the run (`turn_capped`, `loop_capped` …), if one did.
    #[must_use]
    pub fn stop_reason(&self) -> Option<String> {
        self.stop_reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Says which limit ends the run; the first one said stays.
    pub fn set_stop_reason(&self, reason: &str) {
        self.stop_reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.to_owned());
    }
    /// Fails when the run was cancelled.
    ///
    /// # Errors
    /// [`AgentError::Cancelled`].
    pub fn check_cancelled(&self) -> Result<(), AgentError> {
        if self.cancel.is_cancelled() { Err(AgentError::Cancelled) } else { Ok(()) }
    }
}
