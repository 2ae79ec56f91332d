//! The vocabulary of DeerFlow: messages, tool calls, usage, thread state and its reducers, events, errors, and the
//! traits that models, tools and storage implement.
//!
//! **Invariant:** this crate performs no I/O. Of tokio it uses synchronisation types and the cancellation token only.

pub mod chunks;
pub mod content;
pub mod error;
pub mod event;
pub mod ids;
pub mod interrupt;
pub mod message;
pub mod model;
pub mod ports;
pub mod principal;
pub mod run;
pub mod state;
pub mod text;
pub mod tool;
pub mod tool_call;
pub mod usage;

pub use chunks::{MessageDelta, ToolCallChunk, TurnAccumulator};
pub use content::{Content, ContentBlock};
pub use error::{AgentError, ModelError, ModelErrorKind, StateError, StoreError, ToolError};
pub use event::{AgentEvent, EventSink, NodeUpdate};
pub use ids::{CheckpointId, RunId, ThreadId, UserId};
pub use interrupt::{INTERRUPT_SLOT, Interrupt};
pub use message::{AiPart, Message, MessageKind, ToolPart, ToolStatus};
pub use model::{ChatModel, ChatRequest, ModelEvent, ModelInfo, ModelTurn, ToolChoice};
pub use principal::Principal;
pub use run::{Lineage, RunStatus};
pub use state::{Channel, StateSlot, StateUpdate, ThreadState};
pub use tool::{Effects, Tool, ToolContext, ToolOutput, ToolSpec, Verdict};
pub use tool_call::{InvalidToolCall, ToolCall};
pub use usage::Usage;

/// A JSON object with stable key order.
pub type JsonMap = serde_json::Map<String, serde_json::Value>;
