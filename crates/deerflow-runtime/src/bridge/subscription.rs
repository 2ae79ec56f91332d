//! One reader of a run.

use super::entry::{Entry, Told};
use super::log::Start;
use super::stored::{PAGE, ReplayStore, Replayed, is_row_of, replay};
use super::stream::{Found, RunStream};
use super::{Bridge, EventId};
use deerflow_core::message::kwargs;
use deerflow_core::ports::{Checkpoint, JournalRow};
use deerflow_core::{CheckpointId, Message, RunId, RunStatus, StoreError, ThreadId, ThreadState};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Failures of the database in a row after which a reader is told that its stream is lost.
const MAX_FAULTS: u32 = 5;

/// A whole message of the journal.
#[derive(Debug, Clone)]
pub struct StoredMessage {
    /// Its row.
    pub seq: u64,
    /// Who wrote it.
    pub node: String,
    /// The message.
    pub message: Arc<Message>,
}

/// A committed state, which stands for everything up to it.
#[derive(Debug, Clone)]
pub struct CommittedState {
    /// Place in the run's order.
    pub id: EventId,
    /// Its checkpoint, if it is known.
    pub checkpoint_id: Option<CheckpointId>,
    /// The state.
    pub state: Arc<ThreadState>,
}

/// What a reader gets, in order. [`crate::Views`] makes frames of it.
#[derive(Debug, Clone)]
pub enum Item {
    /// The run's first event, for a reader from the start whom the ring cannot give it.
    Begin,
    /// An event of the ring. Of its frames only those after `after` are news.
    Entry {
        /// The event.
        entry: Arc<Entry>,
        /// The last frame the reader has seen.
        after: Option<EventId>,
    },
    /// Events were lost that never become durable: pieces of the message that is being streamed, say.
    Gap,
    /// A whole message from the journal.
    Stored(StoredMessage),
    /// The committed state after what came from the journal.
    State(CommittedState),
    /// The run failed, or the stream is lost.
    Failed {
        /// What kind of failure.
        name: String,
        /// Its text.
        message: String,
    },
    /// Nothing follows.
    End,
}

enum Place {
    /// Not begun; after this frame.
    New(Option<EventId>),
    /// In the ring.
    Live {
        stream: Arc<RunStream>,
        head: watch::Receiver<u64>,
        at: u64,
        after: Option<EventId>,
    },
    /// In the journal, on the way to the ring.
    CatchUp {
        stream: Arc<RunStream>,
        seq: u64,
        begin: bool,
    },
    /// In the journal, of a run that is not here.
    Stored {
        seq: u64,
        begin: bool,
        shown: Option<CheckpointId>,
        failure: Option<(String, String)>,
    },
    Done,
}

/// Follows one run to its end.
pub struct Subscription<S: ?Sized> {
    bridge: Bridge,
    store: Arc<S>,
    run_id: RunId,
    thread_id: ThreadId,
    place: Place,
    ready: VecDeque<Item>,
    /// The last event or row that was given.
    told: EventId,
    faults: u32,
}

impl<S: ReplayStore + ?Sized> Subscription<S> {
    pub(super) fn new(
        bridge: Bridge,
        store: Arc<S>,
        run_id: RunId,
        thread_id: ThreadId,
        after: Option<EventId>,
    ) -> Self {
        let (place, told) = (Place::New(after), EventId::default());
        Self { bridge, store, run_id, thread_id, place, ready: VecDeque::new(), told, faults: 0 }
    }

    /// The next item; `None` after [`Item::End`]. Waits while a live run is silent.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                self.note(&item);
                return Some(item);
            }
            if let Err(error) = self.advance().await? {
                self.fault(&error).await;
            } else {
                self.faults = 0;
            }
        }
    }

    fn note(&mut self, item: &Item) {
        match item {
            Item::Entry { entry, .. } => {
                self.told = entry.id;
                if matches!(entry.told, Told::End) {
                    self.place = Place::Done;
                }
            }
            Item::Stored(message) => self.told = EventId { seq: message.seq, n: 0 },
            Item::State(state) => self.told = self.told.max(state.id),
            Item::Begin | Item::Gap | Item::Failed { .. } | Item::End => {}
        }
    }

    /// Makes items ready, or moves the reader on. `None` at the end.
    async fn advance(&mut self) -> Option<Result<(), StoreError>> {
        match &mut self.place {
            Place::Done => return None,
            Place::New(after) => {
                let after = *after;
                return Some(self.begin(after).await);
            }
            Place::Live { stream, head, at, after } => {
                head.borrow_and_update();
                match stream.read(*at) {
                    Found::Entries(entries) => {
                        *at += entries.len() as u64;
                        self.ready.extend(entries.into_iter().map(|entry| Item::Entry { entry, after: *after }));
                    }
                    // The stream lives as long as this reader: an error cannot be.
                    Found::Wait => _ = head.changed().await,
                    Found::Closed => self.place = Place::Done,
                    Found::Overtaken { first, commit } => {
                        let stream = stream.clone();
                        *after = None;
                        if commit.is_some_and(|commit| commit.index >= *at) {
                            self.place = Place::CatchUp { stream, seq: self.told.seq, begin: false };
                        } else {
                            // Only what never becomes durable is lost.
                            *at = first;
                            self.ready.push_back(Item::Gap);
                        }
                    }
                }
            }
            Place::CatchUp { stream, seq, begin } => {
                let (stream, seq, begin) = (stream.clone(), *seq, *begin);
                return Some(self.catch_up(stream, seq, begin).await);
            }
            Place::Stored { .. } => return Some(self.stored().await),
        }
        Some(Ok(()))
    }

    async fn begin(&mut self, after: Option<EventId>) -> Result<(), StoreError> {
        let here = self.bridge.get(&self.run_id).filter(|stream| stream.holds_a_run());
        let Some(stream) = here else {
            let seq = self.seen(after.map_or(0, |id| id.seq)).await?;
            let begin = after.is_none() || (seq == 0 && after.is_some_and(|id| id.seq > 0));
            self.place = Place::Stored { seq, begin, shown: None, failure: None };
            return Ok(());
        };
        match stream.start(after) {
            Start::At(at, after) => {
                let head = stream.watch();
                self.place = Place::Live { stream, head, at, after };
            }
            Start::CatchUp(seq, begin) => {
                let known = self.seen(seq).await?;
                self.place = Place::CatchUp { stream, seq: known, begin: begin || known < seq };
            }
        }
        Ok(())
    }

    /// The row, if it is one of this run; else 0: the id was another run's, and the reader has seen nothing.
    async fn seen(&self, seq: u64) -> Result<u64, StoreError> {
        let ours = seq > 0 && is_row_of(self.store.as_ref(), &self.thread_id, &self.run_id, seq).await?;
        Ok(if ours { seq } else { 0 })
    }

    /// Reads rows up to the newest step, then gives its state, then goes on in the ring after it.
    async fn catch_up(&mut self, stream: Arc<RunStream>, seq: u64, begin: bool) -> Result<(), StoreError> {
        let (limit, commit, first) = stream.catch_up();
        let rows = if seq < limit { self.rows(seq).await? } else { Vec::new() };
        let more = rows.len() >= PAGE as usize && rows.last().is_some_and(|row| row.seq < limit);
        // A resumed run begins with the state that its former life left.
        let state = match commit.as_deref() {
            _ if more => None,
            Some(Entry { id, told: Told::Committed(step), .. }) => Some(CommittedState {
                id: id.last_frame(),
                checkpoint_id: Some(step.checkpoint_id.clone()),
                state: step.state.clone(),
            }),
            _ if limit > 0 => {
                let found = self.store.last_checkpoint(&self.thread_id, &self.run_id).await?;
                found.map(|found| state(found, EventId { seq: limit, n: 0 }.last_frame()))
            }
            _ => None,
        };
        if begin {
            self.ready.push_back(Item::Begin);
        }
        let mut last = seq;
        for row in rows.into_iter().filter(|row| row.seq <= limit) {
            last = row.seq;
            if let Replayed::Message(message) = replay(row) {
                self.ready.push_back(Item::Stored(message));
            }
        }
        if more {
            self.place = Place::CatchUp { stream, seq: last, begin: false };
            return Ok(());
        }
        self.ready.extend(state.map(Item::State));
        let at = commit.map_or(first, |commit| commit.index + 1);
        // The metadata was given.
        let after = None;
        let head = stream.watch();
        self.place = Place::Live { stream, head, at, after };
        Ok(())
    }

    /// Reads the rows of a run that is not here: to its end if it is over, else as far as it is.
    async fn stored(&mut self) -> Result<(), StoreError> {
        let Place::Stored { seq, begin, shown, failure } = &self.place else { return Ok(()) };
        let (mut seq, begin, shown, mut failure) = (*seq, *begin, shown.clone(), failure.clone());
        // First the row of the run: when it says that the run is over, all rows of the journal are there.
        let status = self.store.status(&self.run_id).await?;
        let over = status.is_none_or(RunStatus::is_terminal);
        let failed = matches!(status, Some(RunStatus::Error | RunStatus::Timeout));
        let rows = self.rows(seq).await?;
        let more = rows.len() >= PAGE as usize;
        let head = if more { None } else { self.head(&shown).await? };
        if begin {
            self.ready.push_back(Item::Begin);
        }
        for row in rows {
            seq = row.seq;
            match replay(row) {
                Replayed::Message(message) => self.ready.push_back(Item::Stored(message)),
                Replayed::Failed { name, message } => failure = Some((name, message)),
                Replayed::Nothing => {}
            }
        }
        let answered =
            head.as_ref().and_then(|head| head.state.last_ai()).is_some_and(|m| m.flag(kwargs::ERROR_FALLBACK));
        if answered {
            // A failed provider is told by a message.
            failure = None;
        }
        let shown = match head {
            Some(head) => {
                let id = head.id.clone();
                self.ready.push_back(Item::State(state(head, EventId { seq, n: 0 }.last_frame())));
                Some(id)
            }
            None => shown,
        };
        if over && !more {
            // A run that failed once and then went on well has not failed.
            if let Some((name, message)) = failure.filter(|_| failed) {
                self.ready.push_back(Item::Failed { name, message });
            }
            self.ready.push_back(Item::End);
            self.place = Place::Done;
            return Ok(());
        }
        self.place = Place::Stored { seq, begin: false, shown, failure };
        if !more && self.ready.is_empty() {
            if self.bridge.get(&self.run_id).is_some_and(|stream| stream.holds_a_run()) {
                // This process has taken the run over.
                self.place = Place::New(Some(EventId { seq, n: 0 }));
                return Ok(());
            }
            tokio::time::sleep(self.bridge.0.options.poll).await;
        }
        Ok(())
    }

    /// The last checkpoint of the run, unless it was shown.
    async fn head(&self, shown: &Option<CheckpointId>) -> Result<Option<Checkpoint>, StoreError> {
        let head = self.store.last_checkpoint(&self.thread_id, &self.run_id).await?;
        Ok(head.filter(|head| Some(&head.id) != shown.as_ref()))
    }

    async fn rows(&self, after: u64) -> Result<Vec<JournalRow>, StoreError> {
        self.store.rows(&self.thread_id, &self.run_id, after, PAGE).await
    }

    /// The database failed: waits and lets the reader try again; a reader is not left waiting for ever.
    async fn fault(&mut self, error: &StoreError) {
        self.faults += 1;
        tracing::warn!(run_id = %self.run_id, %error, faults = self.faults, "a stream cannot be replayed");
        if self.faults < MAX_FAULTS {
            tokio::time::sleep(Duration::from_millis(100 << self.faults)).await;
            return;
        }
        let message = "the run's history cannot be read now; reload the thread's state".to_owned();
        self.ready.push_back(Item::Failed { name: "StreamUnavailable".to_owned(), message });
        self.ready.push_back(Item::End);
        self.place = Place::Done;
    }
}

fn state(checkpoint: Checkpoint, id: EventId) -> CommittedState {
    CommittedState { id, checkpoint_id: Some(checkpoint.id), state: Arc::new(checkpoint.state) }
}
