//! What a run's stream holds.

use super::EventId;
use super::cache::FrameCache;
use deerflow_core::ports::StepKind;
use deerflow_core::run::Next;
use deerflow_core::{AgentEvent, CheckpointId, Message, NodeUpdate, RunId, ThreadId, ThreadState};
use std::sync::Arc;

/// What is published to a run's stream.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// The run begins. The first event.
    Metadata {
        /// The run.
        run_id: RunId,
        /// Its thread.
        thread_id: ThreadId,
    },
    /// Something the agent tells.
    Agent(AgentEvent),
    /// The run ended with an exception: not for a failed provider, which answers with a message, and not for a cancellation.
    Error {
        /// What kind of failure.
        name: String,
        /// Its text.
        message: String,
    },
    /// The run is over. The last event; [`super::RunStream::close`] publishes it if nobody did.
    End,
}

impl From<AgentEvent> for RunEvent {
    fn from(event: AgentEvent) -> Self {
        Self::Agent(event)
    }
}

/// A step that is durable.
#[derive(Debug, Clone)]
pub(crate) struct CommittedStep {
    pub(crate) checkpoint_id: CheckpointId,
    pub(crate) parent: Option<CheckpointId>,
    pub(crate) kind: StepKind,
    pub(crate) step: u64,
    pub(crate) next: Next,
    pub(crate) state: Arc<ThreadState>,
}

/// An event as readers get it: the messages and updates of a step come when the step is durable, each with its node.
#[derive(Debug)]
pub(crate) enum Told {
    Metadata,
    /// Deltas, tool progress, custom events, interrupts: as the agent told them.
    Agent(AgentEvent),
    /// A whole message, durable.
    Message {
        node: Arc<str>,
        message: Arc<Message>,
    },
    /// What a node wrote, durable.
    Update(Arc<NodeUpdate>),
    Committed(CommittedStep),
    /// Text of this message was shown and does not count; with the state that does.
    Discarded {
        message_id: String,
        state: Option<Arc<ThreadState>>,
    },
    Error {
        name: String,
        message: String,
    },
    End,
}

/// One event of a stream, with its place.
#[derive(Debug)]
pub struct Entry {
    pub(crate) id: EventId,
    /// Position in the stream, from 0.
    pub(crate) index: u64,
    /// Steps of this run that were committed before.
    pub(crate) step: u64,
    /// Microseconds since 1970, UTC.
    pub(crate) at: i64,
    pub(crate) told: Told,
    pub(crate) cache: Arc<FrameCache>,
}

impl Entry {
    /// Rough bytes it keeps alive.
    pub(crate) fn weight(&self) -> usize {
        const BASE: usize = 256;
        BASE + match &self.told {
            Told::Agent(event) => agent_weight(event),
            Told::Message { message, .. } => message_weight(message),
            // The messages of an update were counted on their own.
            Told::Update(update) => update.update.messages.len() * 8 + 512,
            Told::Committed(step) => step.state.messages.len() * 8 + 1024,
            Told::Discarded { state, .. } => state.as_ref().map_or(0, |state| state.messages.len() * 8),
            Told::Error { message, .. } => message.len(),
            Told::Metadata | Told::End => 0,
        }
    }
}

fn agent_weight(event: &AgentEvent) -> usize {
    match event {
        AgentEvent::ModelDelta { delta, .. } => {
            let calls = delta.tool_calls.iter().map(|call| call.args.as_ref().map_or(0, String::len) + 128);
            delta.text.len() + delta.reasoning.len() + calls.sum::<usize>()
        }
        AgentEvent::ToolStarted { args, .. } => value_weight(args),
        AgentEvent::Custom(value) => value_weight(value),
        AgentEvent::Interrupted(questions) => questions.iter().map(|q| value_weight(&q.value) + 128).sum(),
        _ => 256,
    }
}

fn message_weight(message: &Message) -> usize {
    use deerflow_core::{Content, ContentBlock};
    let content = match &message.content {
        Content::Text(text) => text.len(),
        Content::Blocks(blocks) => blocks
            .iter()
            .map(|block| match block {
                ContentBlock::Text(text) | ContentBlock::ImageUrl(text) => text.len(),
                ContentBlock::Raw(value) => value_weight(value),
            })
            .sum(),
    };
    let extras: usize = message.additional_kwargs.values().map(value_weight).sum();
    let calls: usize = message.tool_calls().iter().flat_map(|call| call.args.values()).map(value_weight).sum();
    let artifact = message.as_tool().and_then(|tool| tool.artifact.as_ref()).map_or(0, value_weight);
    content + extras + calls + artifact + 512
}

fn value_weight(value: &serde_json::Value) -> usize {
    use serde_json::Value as V;
    32 + match value {
        V::String(text) => text.len(),
        V::Array(items) => items.iter().map(value_weight).sum(),
        V::Object(map) => map.iter().map(|(key, value)| key.len() + value_weight(value)).sum(),
        V::Null | V::Bool(_) | V::Number(_) => 0,
    }
}
