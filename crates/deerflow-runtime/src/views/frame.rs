//! Frames of a stream.

use crate::bridge::EventId;
use std::sync::Arc;

/// One event as a client gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its name: a stream mode, `metadata`, `error` or `end`.
    pub event: String,
    /// One line of JSON.
    pub data: Arc<str>,
    /// Where to go on from; `end` has none.
    pub id: Option<EventId>,
}

/// The frames of one event, each with an id of its own.
#[derive(Debug, Default)]
pub(super) struct Frames {
    list: Vec<Frame>,
    /// The event; none for what a reader is told at the end of the journal.
    id: Option<EventId>,
    used: u64,
}

impl Frames {
    /// The frames that follow belong to the event with this id.
    pub(super) fn at(&mut self, id: EventId) {
        (self.id, self.used) = (Some(id), 0);
    }
    /// The event's next id.
    pub(super) fn next_id(&mut self) -> Option<EventId> {
        let id = self.id?.frame(self.used);
        self.used += 1;
        Some(id)
    }
    /// A frame of the event.
    pub(super) fn add(&mut self, event: &str, data: Arc<str>) {
        let id = self.next_id();
        self.push(event, data, id);
    }
    /// A frame with an id that was taken before, or with none.
    pub(super) fn push(&mut self, event: &str, data: Arc<str>, id: Option<EventId>) {
        self.list.push(Frame { event: event.to_owned(), data, id });
    }
    /// Drops what a reader has seen.
    pub(super) fn only_after(&mut self, after: EventId) {
        self.list.retain(|frame| frame.id.is_none_or(|id| id > after));
    }
    pub(super) fn into_vec(self) -> Vec<Frame> {
        self.list
    }
}
