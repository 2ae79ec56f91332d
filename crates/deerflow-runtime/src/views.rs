//! What readers ask for: each stream mode shows the run's events in its own shape.
//!
//! [`Views`] turns the items of a [`Subscription`](crate::Subscription) into frames. The shapes are LangGraph's and
//! LangChain's, which the official clients parse.

pub mod checkpoints;
mod debug;
mod events;
mod frame;
mod growing;
mod line;
mod messages;
mod metadata;
mod mode;
mod tasks;
#[cfg(test)]
mod tests;
mod updates;
pub mod values;

pub use frame::Frame;
pub use metadata::RunView;
pub use mode::{StreamMode, UnknownStreamMode};

use crate::bridge::{CommittedState, CommittedStep, Entry, EventId, Item, Rendering, StoredMessage, Told};
use checkpoints::checkpoint;
use debug::debug;
use deerflow_core::{AgentEvent, Message, NodeUpdate, ThreadState};
use events::EventView;
use frame::Frames;
use growing::GrowingView;
use line::line;
use messages::MessageView;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use tasks::{TaskFrame, TaskView};
use values::ClientState;

/// One reader's modes, and what it has been shown.
#[derive(Debug)]
pub struct Views {
    modes: HashSet<StreamMode>,
    run: RunView,
    messages: MessageView,
    growing: GrowingView,
    tasks: TaskView,
    events: EventView,
}

impl Views {
    /// Views of a run in these modes; `values` when there is none. `messages` and `messages-tuple` together mean the latter.
    #[must_use]
    pub fn new(modes: impl IntoIterator<Item = StreamMode>, run: RunView) -> Self {
        let mut modes: HashSet<_> = modes.into_iter().collect();
        if modes.is_empty() {
            modes.insert(StreamMode::Values);
        }
        if modes.contains(&StreamMode::MessagesTuple) {
            modes.remove(&StreamMode::Messages);
        }
        let messages = MessageView::new(&modes);
        Self {
            modes,
            run,
            messages,
            growing: GrowingView::default(),
            tasks: TaskView::default(),
            events: EventView::default(),
        }
    }

    /// The frames of an item, in order.
    pub fn frames(&mut self, item: &Item) -> Vec<Frame> {
        let mut frames = Frames::default();
        match item {
            Item::Begin => {
                frames.at(EventId::default());
                self.begin(&mut frames);
            }
            Item::Entry { entry, after } => match after {
                Some(after) if entry.id.last_frame() <= *after => self.observe(entry),
                Some(after) => {
                    self.entry(entry, &mut frames);
                    frames.only_after(*after);
                }
                None => self.entry(entry, &mut frames),
            },
            Item::Gap => {
                self.messages.gap();
                self.growing.forget_stream();
            }
            Item::Stored(stored) => self.stored(stored, &mut frames),
            Item::State(committed) => self.state(committed, &mut frames),
            Item::Failed { name, message } => frames.push("error", failed(name, message), None),
            Item::End => self.end(&mut frames),
        }
        frames.into_vec()
    }

    fn has(&self, mode: StreamMode) -> bool {
        self.modes.contains(&mode)
    }

    fn begin(&mut self, frames: &mut Frames) {
        frames.add("metadata", self.run.begin());
        if self.has(StreamMode::Events) {
            frames.add("events", line(&self.events.begin(&self.run)));
        }
    }

    fn end(&mut self, frames: &mut Frames) {
        self.messages.flush(frames);
        if self.has(StreamMode::Events) {
            frames.add("events", line(&self.events.end(&self.run)));
        }
        frames.push("end", "null".into(), None);
    }

    /// Takes in what the reader has seen already.
    fn observe(&mut self, entry: &Entry) {
        match &entry.told {
            Told::Agent(AgentEvent::ModelDelta { message_id, delta }) => {
                self.messages.delta(delta, message_id, entry, &mut Frames::default());
                if self.has(StreamMode::Messages) {
                    self.growing.delta(message_id, delta, None);
                }
            }
            Told::Agent(AgentEvent::Custom(_)) => {}
            Told::Agent(_) | Told::Message { .. } => self.entry(entry, &mut Frames::default()),
            Told::Committed(step) => self.committed(&step.state),
            Told::Discarded { message_id, .. } => self.discard(message_id),
            Told::Metadata | Told::Update(_) | Told::Error { .. } | Told::End => {}
        }
        self.messages.forget_pending();
    }

    fn stored(&mut self, stored: &StoredMessage, frames: &mut Frames) {
        frames.at(EventId { seq: stored.seq, n: 0 });
        self.message(&stored.node, &stored.message, 0, None, frames);
        if self.has(StreamMode::Updates) && !updates::is_internal(&stored.node) {
            frames.add("updates", updates::stored(&stored.node, &stored.message));
        }
    }

    fn state(&mut self, committed: &CommittedState, frames: &mut Frames) {
        self.messages.forget_stream();
        self.growing.forget_stream();
        self.committed(&committed.state);
        if self.has(StreamMode::Values) {
            let state = ClientState { state: &committed.state, streamed: true };
            frames.push("values", line(&state), Some(committed.id));
        }
    }

    fn entry(&mut self, entry: &Entry, frames: &mut Frames) {
        frames.at(entry.id);
        match &entry.told {
            Told::Metadata => self.begin(frames),
            Told::Agent(event) => self.agent(entry, event, frames),
            Told::Message { node, message } => self.message(node, message, entry.step, Some(entry), frames),
            Told::Update(update) => self.update(entry, update, frames),
            Told::Committed(step) => self.step(entry, step, frames),
            Told::Discarded { message_id, state } => {
                self.discard(message_id);
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
            Told::End => self.end(frames),
        }
    }

    fn agent(&mut self, entry: &Entry, event: &AgentEvent, frames: &mut Frames) {
        match event {
            AgentEvent::ModelStarted { message_id, model } => {
                self.messages.begin(&self.run, message_id, model, entry.step);
                self.growing.begin(&self.run, message_id, model, entry.step);
            }
            AgentEvent::ModelDelta { message_id, delta } => {
                self.messages.delta(delta, message_id, entry, frames);
                if self.has(StreamMode::Messages) {
                    self.growing.delta(message_id, delta, Some(frames));
                }
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
        let told = self.tasks.agent(&self.run, entry.step, event);
        self.task_frames(entry, told, frames);
        if self.has(StreamMode::Events)
            && let Some(told) = self.events.agent(&self.run, entry.step, event)
        {
            self.messages.flush(frames);
            frames.add("events", line(&told));
        }
    }

    fn message(&mut self, node: &str, message: &Message, step: u64, entry: Option<&Entry>, frames: &mut Frames) {
        self.messages.whole(&self.run, node, message, step, entry, frames);
        if self.has(StreamMode::Messages) {
            self.growing.whole(&self.run, node, message, step, frames);
        }
        if self.has(StreamMode::Events)
            && let Some(told) = self.events.whole(&self.run, node, message, step)
        {
            frames.add("events", line(&told));
        }
    }

    fn update(&mut self, entry: &Entry, update: &NodeUpdate, frames: &mut Frames) {
        if self.has(StreamMode::Updates) && !updates::is_internal(&update.node) {
            self.messages.flush(frames);
            let data = entry.cache.get(entry.index, Rendering::Update, || line(&updates::Write(update)));
            frames.add("updates", data);
        }
        if self.has(StreamMode::Tasks) || self.has(StreamMode::Debug) {
            let told = self.tasks.update(&self.run, entry.step, update);
            self.task_frames(entry, told, frames);
        }
        if self.has(StreamMode::Events)
            && let Some(told) = self.events.update(&self.run, update)
        {
            frames.add("events", line(&told));
        }
    }

    fn step(&mut self, entry: &Entry, step: &CommittedStep, frames: &mut Frames) {
        self.committed(&step.state);
        self.values(entry, &step.state, frames);
        let (checkpoints, debugs) = (self.has(StreamMode::Checkpoints), self.has(StreamMode::Debug));
        if checkpoints || debugs {
            let told = checkpoint(&self.run, step, entry.step);
            if checkpoints {
                frames.add("checkpoints", line(&told));
            }
            if debugs {
                frames.add("debug", line(&debug(entry.step, entry.at, "checkpoint", told)));
            }
        }
    }

    fn committed(&mut self, state: &Arc<ThreadState>) {
        self.tasks.committed();
        if self.has(StreamMode::Events) {
            self.events.committed(state);
        }
    }

    fn discard(&mut self, message_id: &str) {
        self.messages.discard(message_id);
        self.growing.forget_stream();
    }

    fn values(&mut self, entry: &Entry, state: &ThreadState, frames: &mut Frames) {
        if self.has(StreamMode::Values) {
            self.messages.flush(frames);
            let render = || line(&ClientState { state, streamed: true });
            let data = entry.cache.get(entry.index, Rendering::Values, render);
            frames.add("values", data);
        }
    }

    fn task_frames(&mut self, entry: &Entry, told: Vec<TaskFrame>, frames: &mut Frames) {
        let (tasks, debugs) = (self.has(StreamMode::Tasks), self.has(StreamMode::Debug));
        if !tasks && !debugs {
            return;
        }
        for frame in told {
            self.messages.flush(frames);
            let (kind, payload) = match frame {
                TaskFrame::Begun(payload) => ("task", payload),
                TaskFrame::Ended(payload) => ("task_result", payload),
            };
            if tasks {
                frames.add("tasks", line(&payload));
            }
            if debugs {
                frames.add("debug", line(&debug(entry.step, entry.at, kind, payload)));
            }
        }
    }
}

fn failed(name: &str, message: &str) -> Arc<str> {
    line(&Value::from_iter([("message", message), ("name", name)]))
}
