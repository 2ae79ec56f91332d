//! Clients that follow a run, and what it means when they go away.

use super::{Inner, Runs};
use crate::RuntimeStore;
use deerflow_core::RunId;
use deerflow_core::ports::CancelAction;
use std::sync::Arc;

/// Held while a client follows a run. Dropped before [`ReaderGuard::done`], the client has gone away.
#[must_use]
pub struct ReaderGuard<S: RuntimeStore> {
    inner: Arc<Inner<S>>,
    run_id: RunId,
    cancels: bool,
}

impl<S: RuntimeStore> Runs<S> {
    /// Follows a run. `cancel_on_disconnect` is true for its creator with `on_disconnect: cancel` and for a joiner who asked
    /// for it: the run is stopped, its steps kept, when this reader goes away.
    pub fn attach(&self, run_id: &RunId, cancel_on_disconnect: bool) -> ReaderGuard<S> {
        ReaderGuard { inner: self.0.clone(), run_id: run_id.clone(), cancels: cancel_on_disconnect }
    }
}

impl<S: RuntimeStore> ReaderGuard<S> {
    /// The client has read everything, or leaves on purpose.
    pub fn done(mut self) {
        self.cancels = false;
    }
}

impl<S: RuntimeStore> Drop for ReaderGuard<S> {
    fn drop(&mut self) {
        // A server that ends cuts its clients off: they did not leave.
        if !self.cancels || self.inner.closing.is_cancelled() {
            return;
        }
        let (inner, run_id) = (self.inner.clone(), self.run_id.clone());
        let stop = async move {
            if let Err(error) = inner.request_stop(&run_id, CancelAction::Interrupt).await {
                tracing::warn!(%run_id, %error, "a run whose client has gone could not be stopped");
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.inner.tasks.spawn_on(stop, &runtime);
        }
    }
}
