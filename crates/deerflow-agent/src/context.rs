//! What every hook, model call and tool call of one run shares.

use crate::StopPoints;
use deerflow_core::ports::NewJournalRow;
use deerflow_core::{AgentError, EventSink, Principal, RunId, ThreadId, Usage, UserId, ids};
use serde_json::Value;
use std::sync::{Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Tokens of a model call outside the conversation.
#[derive(Debug)]
pub(crate) struct SideUsage {
    pub(crate) source: &'static str,
    pub(crate) model: String,
    pub(crate) usage: Usage,
}

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
    /// Who the run acts for.
    pub principal: Principal,
    /// Whether the agent may ask the user something.
    pub interactive: bool,
    /// Where the run is to pause.
    pub stops: StopPoints,
    /// Stops the run.
    pub cancel: CancellationToken,
    /// Where its events go.
    pub events: EventSink,
    stop_reason: Mutex<Option<String>>,
    attempt: String,
    side_usage: Mutex<Vec<SideUsage>>,
    side_total: Mutex<(u64, Usage)>,
    decisions: Mutex<Vec<NewJournalRow>>,
    usage: Mutex<Usage>,
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
            principal: Principal::default(),
            interactive: true,
            stops: StopPoints::default(),
            cancel,
            events,
            stop_reason: Mutex::new(None),
            attempt: ids::message_id(),
            side_usage: Mutex::default(),
            side_total: Mutex::default(),
            decisions: Mutex::default(),
            usage: Mutex::default(),
        }
    }
    /// The same context for a run that goes on, with the tokens it has used before.
    #[must_use]
    pub fn with_usage(self, usage: Usage) -> Self {
        self.count(usage);
        self
    }
    /// Tokens of the run up to its last step, whether it ended well or not.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    pub(crate) fn count(&self, usage: Usage) {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = usage;
    }
    /// Whether this is a run of a sub-agent.
    #[must_use]
    pub fn is_subagent(&self) -> bool {
        !self.namespace.is_empty()
    }
    /// Counts tokens of a call of `model` outside the conversation; `source` names who made it, `middleware:title` say. They
    /// become part of the run's usage with the next step.
    pub fn record_usage(&self, source: &'static str, model: &str, usage: Usage) {
        {
            let mut total = self.side_total.lock().unwrap_or_else(PoisonError::into_inner);
            total.0 += 1;
            total.1.add(&usage);
        }
        let side = SideUsage { source, model: model.to_owned(), usage };
        self.side_usage.lock().unwrap_or_else(PoisonError::into_inner).push(side);
    }
    /// Model calls outside the conversation so far, and their tokens: of this [`Self::attempt`].
    #[must_use]
    pub fn side_calls(&self) -> (u64, Usage) {
        self.side_total.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Names this life of the run: one that is resumed has another, with counters that begin at nothing.
    #[must_use]
    pub fn attempt(&self) -> &str {
        &self.attempt
    }
    /// Writes down what a middleware has decided: a journal row `middleware:<tag>` with these facts, which says nothing of a
    /// call's arguments. Durable with the next step, or with the run's end when there is none.
    pub fn record_decision(&self, tag: &str, facts: Value) {
        let row = NewJournalRow::new("middleware", format!("middleware:{tag}"), facts);
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner).push(row);
    }
    /// Takes the decisions that no step has written yet, for whoever writes the end of a run that failed.
    #[must_use]
    pub fn take_decisions(&self) -> Vec<NewJournalRow> {
        std::mem::take(&mut *self.decisions.lock().unwrap_or_else(PoisonError::into_inner))
    }
    /// Puts decisions back that were not written after all.
    pub(crate) fn restore_decisions(&self, rows: Vec<NewJournalRow>) {
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner).splice(0..0, rows);
    }
    pub(crate) fn take_side_usage(&self) -> Vec<SideUsage> {
        std::mem::take(&mut *self.side_usage.lock().unwrap_or_else(PoisonError::into_inner))
    }
    /// The same context for a run that nobody can answer questions of.
    #[must_use]
    pub fn non_interactive(mut self) -> Self {
        self.interactive = false;
        self
    }
    /// The same context for a run that pauses at these nodes.
    #[must_use]
    pub fn with_stops(mut self, stops: StopPoints) -> Self {
        self.stops = stops;
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
