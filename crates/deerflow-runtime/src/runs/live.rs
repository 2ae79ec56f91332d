//! The runs that this process executes.

use deerflow_core::RunId;
use deerflow_core::ports::CancelAction;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Why a run is to stop. The first reason stays, except that a lost run stays lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Somebody cancelled it.
    Cancel(CancelAction),
    /// The process ends; whoever comes next goes on with it.
    HandOver,
    /// Another process owns it now.
    Lost,
}

/// A run under way in this process.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) run_id: RunId,
    /// Stops the agent.
    pub(crate) cancel: CancellationToken,
    /// Fires when everything about the run is written.
    pub(crate) ended: CancellationToken,
    stop: Mutex<Option<Stop>>,
}

impl Live {
    pub(crate) fn new(run_id: RunId) -> Self {
        let (cancel, ended) = (CancellationToken::new(), CancellationToken::new());
        Self { run_id, cancel, ended, stop: Mutex::new(None) }
    }

    /// Asks it to stop.
    pub(crate) fn stop(&self, reason: Stop) {
        {
            let mut stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
            if reason == Stop::Lost {
                *stop = Some(reason);
            } else {
                stop.get_or_insert(reason);
            }
        }
        self.cancel.cancel();
    }

    /// Why it is to stop, if it is.
    pub(crate) fn reason(&self) -> Option<Stop> {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// By run id.
#[derive(Debug, Default)]
pub(crate) struct LiveRuns(Mutex<HashMap<RunId, Arc<Live>>>);

impl LiveRuns {
    /// A new entry; `None` when this process executes the run already.
    pub(crate) fn insert(&self, run_id: &RunId) -> Option<Arc<Live>> {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.contains_key(run_id) {
            return None;
        }
        let live = Arc::new(Live::new(run_id.clone()));
        runs.insert(run_id.clone(), live.clone());
        Some(live)
    }
    pub(crate) fn get(&self, run_id: &RunId) -> Option<Arc<Live>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(run_id).cloned()
    }
    pub(crate) fn remove(&self, run_id: &RunId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(run_id);
    }
    pub(crate) fn all(&self) -> Vec<Arc<Live>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}
