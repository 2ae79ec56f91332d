//! Where a run's events go: one stream per live run.

use deerflow_core::{AgentEvent, RunId, ThreadId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What is published to a run's stream.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// The run begins. The first event.
    Metadata {
        /// The run.
        run_id: RunId,
        /// Its thread.
        thread_id: ThreadId,
    },
    /// Something the agent tells.
    Agent(AgentEvent),
    /// The run ended with an exception.
    Error {
        /// What kind of failure.
        name: String,
        /// Its text.
        message: String,
    },
    /// The run is over. The last event.
    End,
}

impl From<AgentEvent> for RunEvent {
    fn from(event: AgentEvent) -> Self {
        Self::Agent(event)
    }
}

/// The streams of this process's runs. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Bridge(Arc<Mutex<HashMap<RunId, Arc<RunStream>>>>);

/// The stream of one run.
#[derive(Debug, Default)]
pub struct RunStream(Mutex<Vec<RunEvent>>);

impl Bridge {
    /// The stream of a run that begins.
    pub fn open(&self, run_id: &RunId, _thread_id: &ThreadId) -> Arc<RunStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(run_id.clone()).or_default().clone()
    }
    /// The stream of a run.
    #[must_use]
    pub fn get(&self, run_id: &RunId) -> Option<Arc<RunStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(run_id).cloned()
    }
}

impl RunStream {
    /// Tells every reader an event.
    pub fn publish(&self, event: impl Into<RunEvent>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.into());
    }
    /// Ends the stream.
    pub fn close(&self) {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(events.last(), Some(RunEvent::End)) {
            events.push(RunEvent::End);
        }
    }
    /// What was published so far.
    #[must_use]
    pub fn events(&self) -> Vec<RunEvent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
