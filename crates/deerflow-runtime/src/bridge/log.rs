//! The ring of one run: its newest events, bounded in number and bytes.

use super::cache::FrameCache;
use super::entry::{CommittedStep, Entry, RunEvent, Told};
use super::{BridgeOptions, EventId};
use deerflow_core::{AgentEvent, Message, NodeUpdate, ThreadState};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// What waits for its step to be told durable.
#[derive(Debug)]
enum Held {
    Message(Arc<Message>),
    Update(Arc<NodeUpdate>),
}

/// Where a reader begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// At this position, and of the frames only those after the id.
    At(u64, Option<EventId>),
    /// The ring does not reach back so far: with the durable rows after this one. The flag says that nothing was seen.
    CatchUp(u64, bool),
}

#[derive(Debug)]
pub(super) struct Log {
    ring: VecDeque<Arc<Entry>>,
    /// Position of the oldest entry that is kept.
    first: u64,
    bytes: usize,
    options: BridgeOptions,
    cache: Arc<FrameCache>,
    held: Vec<Held>,
    /// Place before the first event.
    base: EventId,
    last: EventId,
    /// The first row that was told here.
    first_seq: Option<u64>,
    /// The newest step; kept when the ring has forgotten it.
    pub(super) commit: Option<Arc<Entry>>,
    step: u64,
    /// The message that is being streamed, if any of it was shown.
    shown: Option<String>,
    pub(super) closed: Option<Instant>,
    /// Whether anything but the end was told.
    pub(super) began: bool,
}

impl Log {
    pub(super) fn new(base: EventId, options: BridgeOptions) -> Self {
        Self {
            ring: VecDeque::new(),
            first: 0,
            bytes: 0,
            options,
            cache: Arc::default(),
            held: Vec::new(),
            base,
            last: base,
            first_seq: None,
            commit: None,
            step: 0,
            shown: None,
            closed: None,
            began: false,
        }
    }

    /// Takes an event in. Nothing is taken after the end.
    pub(super) fn publish(&mut self, event: RunEvent) {
        if self.closed.is_some() {
            return;
        }
        self.began |= !matches!(event, RunEvent::End);
        match event {
            RunEvent::Metadata { .. } => self.push(None, Told::Metadata),
            RunEvent::Agent(event) => self.agent(event),
            RunEvent::Error { name, message } => {
                self.settle(&[], None);
                self.push(None, Told::Error { name, message });
            }
            RunEvent::End => self.end(),
        }
    }

    /// The end, once.
    pub(super) fn end(&mut self) {
        if self.closed.is_none() {
            self.settle(&[], None);
            self.push(None, Told::End);
            self.closed = Some(Instant::now());
            self.cache.clear();
        }
    }

    fn agent(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::Message(message) => self.held.push(Held::Message(message)),
            AgentEvent::Update(update) => self.held.push(Held::Update(update)),
            AgentEvent::Committed { checkpoint_id, parent, kind, step, next, state, seqs, seq, .. } => {
                self.settle(&seqs, Some(seq));
                let committed = CommittedStep { checkpoint_id, parent, kind, step, next, state };
                self.push(Some(seq), Told::Committed(committed));
                self.commit = self.ring.back().cloned();
                self.step += 1;
                self.shown = None;
            }
            AgentEvent::ModelDiscarded { message_id } => {
                // An attempt of which nothing was shown leaves nothing to take back.
                if self.shown.take().is_some_and(|shown| shown == message_id) {
                    self.push(None, Told::Discarded { message_id, state: self.state() });
                }
            }
            AgentEvent::ModelDelta { ref message_id, .. } => {
                if self.shown.as_ref() != Some(message_id) {
                    self.shown = Some(message_id.clone());
                }
                self.push(None, Told::Agent(event));
            }
            event => self.push(None, Told::Agent(event)),
        }
    }

    /// Tells what a step held back: each message with its node and its row, then the write it came with.
    fn settle(&mut self, seqs: &[u64], last: Option<u64>) {
        let held = std::mem::take(&mut self.held);
        let nodes: Vec<(usize, Arc<str>)> = held
            .iter()
            .enumerate()
            .filter_map(|(at, held)| match held {
                Held::Update(update) => Some((at, Arc::from(update.node.as_str()))),
                Held::Message(_) => None,
            })
            .collect();
        let mut seqs = seqs.iter().copied();
        for (at, held) in held.into_iter().enumerate() {
            match held {
                Held::Message(message) if message.role() == "remove" => {}
                Held::Message(message) => {
                    let node = nodes.iter().find(|(of, _)| *of > at).map_or_else(|| "model".into(), |(_, n)| n.clone());
                    self.push(seqs.next().or(last), Told::Message { node, message });
                }
                Held::Update(update) => self.push(None, Told::Update(update)),
            }
        }
    }

    fn push(&mut self, seq: Option<u64>, told: Told) {
        let id = if self.ring.is_empty() && self.first == 0 { self.base } else { self.last.following(seq) };
        self.last = id;
        if seq.is_some() {
            self.first_seq.get_or_insert(id.seq);
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        let entry = Entry {
            id,
            index: self.next(),
            step: self.step,
            at: i64::try_from(at).unwrap_or(i64::MAX),
            told,
            cache: self.cache.clone(),
        };
        self.bytes += entry.weight();
        self.ring.push_back(Arc::new(entry));
        while self.ring.len() > 1 && (self.ring.len() > self.options.max_events || self.bytes > self.options.max_bytes)
        {
            let Some(old) = self.ring.pop_front() else { break };
            self.bytes -= old.weight();
            self.first += 1;
        }
    }

    /// Position of the event to come.
    pub(super) fn next(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// Position of the oldest event that is kept.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// State after the newest step.
    fn state(&self) -> Option<Arc<ThreadState>> {
        match self.commit.as_ref().map(|entry| &entry.told) {
            Some(Told::Committed(step)) => Some(step.state.clone()),
            _ => None,
        }
    }

    /// Events from a position on, at most `limit`.
    pub(super) fn from(&self, at: u64, limit: usize) -> impl Iterator<Item = &Arc<Entry>> {
        let skip = usize::try_from(at.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.ring.iter().skip(skip).take(limit)
    }

    /// Row up to which the durable rows have to be read before the ring alone suffices.
    pub(super) fn durable_up_to(&self) -> u64 {
        self.commit.as_ref().map_or(self.base.seq, |entry| entry.id.seq)
    }

    /// Where a reader begins that has seen the frame `after`, or nothing.
    pub(super) fn start(&self, after: Option<EventId>) -> Start {
        // An id of a former life of this run lies before the base; whether it is one is told by the rows.
        let known = after.filter(|id| {
            let between = self.first_seq.is_none_or(|first| id.seq < first) && id.seq > self.base.seq;
            *id <= self.last.last_frame() && !between
        });
        let whole = self.first == 0;
        match known {
            None if whole && self.base.seq == 0 => Start::At(0, None),
            None => Start::CatchUp(0, true),
            Some(id) if whole && id >= self.base => Start::At(0, Some(id)),
            Some(id) => match self.ring.front() {
                Some(oldest) if id >= oldest.id => Start::At(self.first, Some(id)),
                _ => Start::CatchUp(id.seq, false),
            },
        }
    }
}
