//! What readers ask for: each stream mode shows the run's events in its own shape.
//!
//! [`Views`] turns the items of a [`Subscription`](crate::Subscription) into frames. The shapes are LangGraph's and
//! LangChain's, which the official clients parse.

mod frame;
mod line;
mod messages;
mod metadata;
mod mode;
#[cfg(test)]
mod tests;
mod updates;
pub mod values;

pub use frame::Frame;
pub use metadata::RunView;
pub use mode::{StreamMode, UnknownStreamMode};

use crate::bridge::{Entry, EventId, Item, Rendering, Told};
use deerflow_core::{AgentEvent, ThreadState};
use frame::Frames;
use line::line;
use messages::MessageView;
use serde_json::{Value, json};
use std::collections::HashSet;
use values::ClientState;

/// One reader's modes, and what it has been shown.
#[derive(Debug)]
pub struct Views {
    modes: HashSet<StreamMode>,
    run: RunView,
    messages: MessageView,
}

impl Views {
    /// Views of a run in these modes; `values` when there is none.
    #[must_use]
    pub fn new(modes: impl IntoIterator<Item = StreamMode>, run: RunView) -> Self {
        let mut modes: HashSet<_> = modes.into_iter().collect();
        if modes.is_empty() {
            modes.insert(StreamMode::Values);
        }
        let messages = MessageView::new(&modes);
        Self { modes, run, messages }
    }

    /// The frames of an item, in order.
    pub fn frames(&mut self, item: &Item) -> Vec<Frame> {
        let mut frames = Frames::default();
        match item {
            Item::Begin => frames.push("metadata", self.run.begin(), Some(EventId::default())),
            Item::Entry { entry, after } => match after {
                Some(after) if entry.id.last_frame() <= *after => self.observe(entry),
                Some(after) => {
                    self.entry(entry, &mut frames);
                    frames.only_after(*after);
                }
                None => self.entry(entry, &mut frames),
            },
            Item::Gap => self.messages.gap(),
            Item::Stored(stored) => {
                let id = EventId { seq: stored.seq, n: 0 };
                frames.at(id);
                self.messages.whole(&self.run, &stored.node, &stored.message, 0, None, &mut frames);
                if self.has(StreamMode::Updates) && !updates::is_internal(&stored.node) {
                    frames.add("updates", updates::stored(&stored.node, &stored.message));
                }
            }
            Item::State(committed) => {
                self.messages.forget_stream();
                frames.at(committed.id);
                if self.has(StreamMode::Values) {
                    let state = ClientState { state: &committed.state, streamed: true };
                    frames.push("values", line(&state), Some(committed.id));
                }
            }
            Item::Failed { name, message } => frames.push("error", failed(name, message), None),
            Item::End => frames.push("end", "null".into(), None),
        }
        frames.into_vec()
    }

    fn has(&self, mode: StreamMode) -> bool {
        self.modes.contains(&mode)
    }

    /// Takes in what the reader has seen already.
    fn observe(&mut self, entry: &Entry) {
        let mut unseen = Frames::default();
        match &entry.told {
            Told::Agent(AgentEvent::ModelStarted { .. } | AgentEvent::ModelDelta { .. })
            | Told::Message { .. }
            | Told::Discarded { .. } => self.entry(entry, &mut unseen),
            _ => {}
        }
        self.messages.forget_pending();
    }

    fn entry(&mut self, entry: &Entry, frames: &mut Frames) {
        frames.at(entry.id);
        match &entry.told {
            Told::Metadata => frames.add("metadata", self.run.begin()),
            Told::Agent(event) => self.agent(entry, event, frames),
            Told::Message { node, message } => {
                self.messages.whole(&self.run, node, message, entry.step, Some(entry), frames);
            }
            Told::Update(update) => {
                if self.has(StreamMode::Updates) && !updates::is_internal(&update.node) {
                    self.messages.flush(frames);
                    let data = entry.cache.get(entry.index, Rendering::Update, || line(&updates::Write(update)));
                    frames.add("updates", data);
                }
            }
            Told::Committed(step) => self.values(entry, &step.state, frames),
            Told::Discarded { message_id, state } => {
                self.messages.discard(message_id);
                if let Some(state) = state {
                    self.values(entry, state, frames);
                }
                if self.has(StreamMode::Custom) {
                    let told = json!({"type": "model_attempt_discarded", "message_id": message_id});
                    frames.add("custom", line(&told));
                }
            }
            Told::Error { name, message } => {
                self.messages.flush(frames);
                frames.add("error", failed(name, message));
            }
            Told::End => {
                self.messages.flush(frames);
                frames.push("end", "null".into(), None);
            }
        }
    }

    fn agent(&mut self, entry: &Entry, event: &AgentEvent, frames: &mut Frames) {
        match event {
            AgentEvent::ModelStarted { message_id, model } => {
                self.messages.begin(&self.run, message_id, model, entry.step)
            }
            AgentEvent::ModelDelta { message_id, delta } => {
                self.messages.delta(delta, message_id, entry, frames);
            }
            AgentEvent::Interrupted(open) if self.has(StreamMode::Updates) => {
                self.messages.flush(frames);
                frames.add("updates", line(&json!({"__interrupt__": values::interrupts(open)})));
            }
            AgentEvent::Custom(payload) if self.has(StreamMode::Custom) => {
                self.messages.flush(frames);
                frames.add("custom", line(payload));
            }
            _ => {}
        }
    }

    fn values(&mut self, entry: &Entry, state: &ThreadState, frames: &mut Frames) {
        if self.has(StreamMode::Values) {
            self.messages.flush(frames);
            let data = entry.cache.get(entry.index, Rendering::Values, || line(&ClientState { state, streamed: true }));
            frames.add("values", data);
        }
    }
}

fn failed(name: &str, message: &str) -> std::sync::Arc<str> {
    line(&Value::from_iter([("message", message), ("name", name)]))
}
