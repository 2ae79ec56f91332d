//! A point at which the scripted model waits until the test lets it go on.

use std::sync::Arc;

use tokio::sync::watch;

/// Opened by the test, waited for by the server. Clones are the same gate; it works across runtimes.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    open: watch::Sender<bool>,
    arrived: watch::Sender<usize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Shared { open: watch::Sender::new(false), arrived: watch::Sender::new(0) }))
    }

    /// Lets everything through that waits now or comes later.
    pub fn open(&self) {
        self.0.open.send_replace(true);
    }

    /// How many have come to the gate so far, whether or not they were let through.
    #[must_use]
    pub fn arrivals(&self) -> usize {
        *self.0.arrived.borrow()
    }

    /// Waits until something stands at the gate: from here on the reply is stuck exactly there.
    ///
    /// # Panics
    /// When nothing arrives within [`crate::DEADLINE`].
    pub async fn reached(&self) {
        self.reached_by(1).await;
    }

    /// As [`Gate::reached`], for `count` arrivals.
    ///
    /// # Panics
    /// When fewer arrive within [`crate::DEADLINE`].
    pub async fn reached_by(&self, count: usize) {
        let mut arrived = self.0.arrived.subscribe();
        crate::within("something to reach the gate", async move {
            // The sender lives in `self`, so the channel cannot be closed.
            let _ = arrived.wait_for(|seen| *seen >= count).await;
        })
        .await;
    }

    /// Stands at the gate until it is open.
    pub(crate) async fn pass(&self) {
        self.0.arrived.send_modify(|seen| *seen += 1);
        let mut open = self.0.open.subscribe();
        let _ = open.wait_for(|open| *open).await;
    }
}
