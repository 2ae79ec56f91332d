//! What a run tells the outside, in order.

use crate::ports::StepKind;
use crate::run::Next;
use crate::{CheckpointId, Interrupt, Message, MessageDelta, StateUpdate, ThreadState, ToolStatus, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::mpsc;

/// One node's write: the frame that `updates` streams show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeUpdate {
    /// `model`, `tools`, or `<Middleware>.<hook>`.
    pub node: String,
    /// What it wrote.
    pub update: StateUpdate,
}

/// An event of a run.
///
/// [`AgentEvent::Committed`] says that everything before it is durable; deltas and tool progress are ephemeral.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum AgentEvent {
    /// A model call begins; its reply will have this message id.
    ModelStarted {
        /// Id of the coming message.
        message_id: String,
        /// Configured model name.
        model: String,
    },
    /// A piece of the reply.
    ModelDelta {
        /// Id of the message it belongs to.
        message_id: String,
        /// The piece.
        delta: MessageDelta,
    },
    /// The attempt is void: what was streamed under this id does not count.
    ModelDiscarded {
        /// Id of the void message.
        message_id: String,
    },
    /// A whole message, as a node returned it.
    Message(Arc<Message>),
    /// A tool call begins.
    ToolStarted {
        /// The call.
        call_id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        args: Value,
    },
    /// A tool call ended.
    ToolFinished {
        /// The call.
        call_id: String,
        /// The tool.
        name: String,
        /// How it went.
        status: ToolStatus,
        /// Milliseconds it took.
        elapsed_ms: u64,
        /// First line of the result, for people.
        summary: String,
    },
    /// A node wrote to the state.
    Update(Arc<NodeUpdate>),
    /// The run stops until a person has answered these.
    Interrupted(Vec<Interrupt>),
    /// A free-form event; `type` tells them apart.
    Custom(Value),
    /// A step is durable: its messages and updates were told just before.
    Committed {
        /// Its checkpoint.
        checkpoint_id: CheckpointId,
        /// The checkpoint it was built on.
        parent: Option<CheckpointId>,
        /// What the step was.
        kind: StepKind,
        /// Number of the step in its lineage, from 0.
        step: u64,
        /// What the run goes on with.
        next: Next,
        /// State after the step.
        state: Arc<ThreadState>,
        /// Sequence numbers of the step's journal rows. Those of the messages that were told come first, in that order; empty
        /// where nothing is journalled.
        seqs: Vec<u64>,
        /// Sequence number of the last durable row of the thread.
        seq: u64,
        /// Tokens of this run so far.
        usage: Usage,
    },
}

/// Where a run's events go. Sending waits when the receiver is behind: the receiver is the run log, which never is for long.
#[derive(Debug, Clone)]
pub struct EventSink {
    sender: Option<mpsc::Sender<AgentEvent>>,
}

impl EventSink {
    /// A sink and its receiving end.
    #[must_use]
    pub fn channel(capacity: usize) -> (Self, mpsc::Receiver<AgentEvent>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (Self { sender: Some(sender) }, receiver)
    }
    /// A sink that drops everything.
    #[must_use]
    pub fn none() -> Self {
        Self { sender: None }
    }
    /// Sends an event; one that nobody listens to is dropped.
    pub async fn send(&self, event: AgentEvent) {
        if let Some(sender) = &self.sender {
            // A closed receiver means nobody watches any more; the run goes on all the same.
            let _ = sender.send(event).await;
        }
    }
    /// Sends a free-form event.
    pub async fn custom(&self, payload: Value) {
        self.send(AgentEvent::Custom(payload)).await;
    }
}
