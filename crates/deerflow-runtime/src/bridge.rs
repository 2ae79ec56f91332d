//! From one run to its readers.
//!
//! A live run publishes into a ring of its own and never waits. Readers follow at their own pace; one that falls behind, or
//! comes late, gets the durable rows of the journal first, then the committed state, then what is live. Every reader
//! reaches the end, of a run of another process and of one that is long over too.
//!
//! **Invariant:** a whole message is told after the step that holds it is durable, and once to each reader.

mod cache;
mod entry;
mod event_id;
mod log;
mod stored;
mod stream;
mod subscription;
#[cfg(test)]
mod tests;

pub(crate) use cache::Rendering;
pub(crate) use entry::{CommittedStep, Told};
pub use entry::{Entry, RunEvent};
pub use event_id::{BadEventId, EventId};
pub use stored::ReplayStore;
pub use stream::RunStream;
pub use subscription::{CommittedState, Item, StoredMessage, Subscription};

use deerflow_core::{RunId, StoreError, ThreadId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bounds of what is kept for readers.
#[derive(Debug, Clone, Copy)]
pub struct BridgeOptions {
    /// Events kept of one run.
    pub max_events: usize,
    /// Bytes kept of one run, roughly.
    pub max_bytes: usize,
    /// How long a run that is over is kept for those who come back.
    pub keep_closed: Duration,
    /// Bytes kept of all runs that are over, roughly; the oldest go first.
    pub max_closed_bytes: usize,
    /// How often the journal is looked at for a run that another process executes.
    pub poll: Duration,
}

impl Default for BridgeOptions {
    /// A burst of 2,000 tokens takes a quarter of a ring.
    fn default() -> Self {
        Self {
            max_events: 16 * 1024,
            max_bytes: 4 * 1024 * 1024,
            keep_closed: Duration::from_secs(60),
            max_closed_bytes: 16 * 1024 * 1024,
            poll: Duration::from_millis(500),
        }
    }
}

/// The streams of this process's runs. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Bridge(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    options: BridgeOptions,
    streams: Mutex<HashMap<RunId, Arc<RunStream>>>,
}

impl Bridge {
    /// A bridge with these bounds.
    #[must_use]
    pub fn new(options: BridgeOptions) -> Self {
        Self(Arc::new(Inner { options, streams: Mutex::default() }))
    }

    /// The stream of a run that begins. A live stream of this run is given back as it is.
    pub fn open(&self, run_id: &RunId, thread_id: &ThreadId) -> Arc<RunStream> {
        self.open_after(run_id, thread_id, EventId::default())
    }

    /// The stream of a run that goes on: its earlier steps are in the journal, up to the row `seq`. `epoch` is that of its
    /// owner, by which ids of its former life are told from new ones.
    pub fn resume(&self, run_id: &RunId, thread_id: &ThreadId, seq: u64, epoch: u64) -> Arc<RunStream> {
        /// More events than follow one row in any life.
        const LIFE: u64 = 1 << 32;
        self.open_after(run_id, thread_id, EventId { seq, n: epoch.saturating_mul(LIFE) })
    }

    /// The stream of a run that this process takes up: [`Self::resume`] after the last row in the journal.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn take_up<S: ReplayStore + ?Sized>(
        &self,
        store: &S,
        run_id: &RunId,
        thread_id: &ThreadId,
        epoch: u64,
    ) -> Result<Arc<RunStream>, StoreError> {
        let seq = stored::last_row(store, thread_id, run_id).await?;
        Ok(self.resume(run_id, thread_id, seq, epoch))
    }

    fn open_after(&self, run_id: &RunId, thread_id: &ThreadId, base: EventId) -> Arc<RunStream> {
        let mut streams = self.lock();
        self.forget_old(&mut streams);
        if let Some(live) = streams.get(run_id).filter(|stream| stream.closed_at().is_none()) {
            return live.clone();
        }
        let stream = Arc::new(RunStream::new(run_id.clone(), thread_id.clone(), base, self.0.options));
        streams.insert(run_id.clone(), stream.clone());
        stream
    }

    /// The stream of a run of this process that is live, or over since a short time.
    #[must_use]
    pub fn get(&self, run_id: &RunId) -> Option<Arc<RunStream>> {
        let mut streams = self.lock();
        self.forget_old(&mut streams);
        streams.get(run_id).cloned()
    }

    /// Drops what is kept of runs that are long over. Every other call does this too; a quiet process may do it now and
    /// then.
    pub fn sweep(&self) {
        let mut streams = self.lock();
        self.forget_old(&mut streams);
    }

    /// Follows a run, from the start or after the frame that a reader saw last.
    pub fn subscribe<S: ReplayStore + ?Sized>(
        &self,
        store: Arc<S>,
        run_id: RunId,
        thread_id: ThreadId,
        after: Option<EventId>,
    ) -> Subscription<S> {
        Subscription::new(self.clone(), store, run_id, thread_id, after)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Arc<RunStream>>> {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_old(&self, streams: &mut HashMap<RunId, Arc<RunStream>>) {
        let keep = self.0.options.keep_closed;
        streams.retain(|_, stream| stream.closed_at().is_none_or(|at| at.elapsed() < keep));
        let mut closed: Vec<_> = streams
            .values()
            .filter_map(|stream| stream.closed_at().map(|at| (at, stream.bytes(), stream.run_id().clone())))
            .collect();
        let mut bytes: usize = closed.iter().map(|(_, bytes, _)| bytes).sum();
        if bytes > self.0.options.max_closed_bytes {
            closed.sort_by_key(|(at, ..)| *at);
            for (_, size, run_id) in closed {
                if bytes <= self.0.options.max_closed_bytes {
                    break;
                }
                bytes -= size;
                streams.remove(&run_id);
            }
        }
    }
}
