//! One run's stream: where it publishes, and what readers follow.

use super::entry::{Entry, RunEvent};
use super::log::{Log, Start};
use super::{BridgeOptions, EventId};
use deerflow_core::{RunId, ThreadId};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;
use tokio::time::Instant;

/// The stream of one run of this process.
#[derive(Debug)]
pub struct RunStream {
    run_id: RunId,
    thread_id: ThreadId,
    log: Mutex<Log>,
    /// Position of the event to come; readers wait for it to move.
    head: watch::Sender<u64>,
}

/// What a reader finds at its position.
#[derive(Debug)]
pub(super) enum Found {
    Entries(Vec<Arc<Entry>>),
    /// Nothing yet.
    Wait,
    /// Nothing any more.
    Closed,
    /// The ring has forgotten the position; the oldest it has, and the newest step.
    Overtaken {
        first: u64,
        commit: Option<Arc<Entry>>,
    },
}

impl RunStream {
    pub(super) fn new(run_id: RunId, thread_id: ThreadId, base: EventId, options: BridgeOptions) -> Self {
        Self { run_id, thread_id, log: Mutex::new(Log::new(base, options)), head: watch::Sender::new(0) }
    }

    /// The run.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }
    /// Its thread.
    #[must_use]
    pub fn thread_id(&self) -> &ThreadId {
        &self.thread_id
    }

    /// Tells every reader an event. Never waits. The messages and updates of a step are told when the step is durable; what
    /// comes after the end is dropped.
    pub fn publish(&self, event: impl Into<RunEvent>) {
        let next = {
            let mut log = self.lock();
            log.publish(event.into());
            log.next()
        };
        self.head.send_replace(next);
    }

    /// Ends the stream: readers get what is left and the end.
    pub fn close(&self) {
        let next = {
            let mut log = self.lock();
            log.end();
            log.next()
        };
        self.head.send_replace(next);
    }

    /// Whether the run is over.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed_at().is_some()
    }

    /// Whether it holds a run: not one that only said that the run is over.
    pub(super) fn holds_a_run(&self) -> bool {
        let log = self.lock();
        log.closed.is_none() || log.began
    }

    pub(super) fn closed_at(&self) -> Option<Instant> {
        self.lock().closed
    }
    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes()
    }
    pub(super) fn start(&self, after: Option<EventId>) -> Start {
        self.lock().start(after)
    }
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }
    /// Up to which row the journal has to be read, the newest step, and the oldest position that is kept.
    pub(super) fn catch_up(&self) -> (u64, Option<Arc<Entry>>, u64) {
        let log = self.lock();
        (log.durable_up_to(), log.commit.clone(), log.first())
    }

    pub(super) fn read(&self, at: u64) -> Found {
        /// Events taken at a time, so that a reader never holds the lock for long.
        const BATCH: usize = 64;
        let log = self.lock();
        if at < log.first() {
            return Found::Overtaken { first: log.first(), commit: log.commit.clone() };
        }
        let entries: Vec<_> = log.from(at, BATCH).cloned().collect();
        match (entries.is_empty(), log.closed) {
            (false, _) => Found::Entries(entries),
            (true, Some(_)) => Found::Closed,
            (true, None) => Found::Wait,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
