//! DeerFlow as a library.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use deerflow::prelude::*;
//!
//! let agent = create_deerflow_agent(std::sync::Arc::new(OfflineModel::new())).build()?;
//! let done = agent.run(&conversation("my-thread")?, say("What can you do?")).await?;
//! println!("{}", done.state.last_ai().map(|m| m.text().into_owned()).unwrap_or_default());
//! # Ok(()) }
//! ```
//!
//! * [`create_deerflow_agent`](prelude::create_deerflow_agent) starts an agent; see
//!   [`AgentFactory`](deerflow_harness::AgentFactory) for everything that can be said about it.
//! * A [`Tool`](prelude::Tool) is something the model can call, a [`Middleware`](prelude::Middleware) something around the
//!   model and the tools.
//! * A [`StepLog`](prelude::StepLog) keeps every step; [`SqliteStore`](prelude::SqliteStore) is one on disk.
//!
//! That is one agent in your hands. A whole installation (threads, durable runs, uploads, artifacts, goals; what `deerflow serve`
//! shows over HTTP) in your process is a [`DeerFlowClient`](client::DeerFlowClient).
//!
//! The `examples/` of this crate show each of these; all of them run without a network, on the built-in offline model.

pub mod assembly;
mod children;
pub mod client;

pub use children::answer_children;
pub use deerflow_agent as agent;
pub use deerflow_config as config;
pub use deerflow_core as core;
pub use deerflow_harness as harness;
pub use deerflow_models as models;
pub use deerflow_runtime as runtime;
pub use deerflow_sandbox as sandbox;
pub use deerflow_service as service;
pub use deerflow_store as store;
pub use deerflow_tools as tools;

use deerflow_agent::{RunContext, Start};
use deerflow_core::ids::BadId;
use deerflow_core::{EventSink, Message, RunId, StateUpdate, ThreadId, UserId};
use tokio_util::sync::CancellationToken;

/// What most programs need.
pub mod prelude {
    pub use crate::client::{ClientError, DeerFlowClient, RunStream};
    pub use crate::{answer_children, conversation, conversation_with, say};
    pub use deerflow_agent::{Agent, Flow, Hook, JumpTarget, Middleware, ModelNext, Outcome, RunContext, Start};
    pub use deerflow_agent::{EphemeralLog, ToolNext, ToolOutcome, ToolRequest, middleware::HookResult};
    pub use deerflow_core::ports::StepLog;
    pub use deerflow_core::{AgentError, AgentEvent, ChatModel, ChatRequest, EventSink, Message};
    pub use deerflow_core::{Effects, JsonMap, StateSlot, StateUpdate, ThreadState};
    pub use deerflow_core::{Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
    pub use deerflow_harness::{Extra, Feature, RuntimeFeatures, create_deerflow_agent};
    pub use deerflow_models::create_chat_model;
    pub use deerflow_offline::OfflineModel;
    pub use deerflow_store::SqliteStore;
}

/// A new run on a thread of the local user that nobody watches.
///
/// # Errors
/// When `thread` is no valid thread id (letters, digits, `-` and `_`).
pub fn conversation(thread: &str) -> Result<RunContext, BadId> {
    conversation_with(thread, EventSink::none())
}

/// A new run on a thread of the local user whose events go to `events`.
///
/// # Errors
/// When `thread` is no valid thread id (letters, digits, `-` and `_`).
pub fn conversation_with(thread: &str, events: EventSink) -> Result<RunContext, BadId> {
    let thread = ThreadId::parse(thread)?;
    Ok(RunContext::new(UserId::local(), thread, RunId::random(), CancellationToken::new(), events))
}

/// The start of a run with a user's message.
#[must_use]
pub fn say(text: impl Into<String>) -> Start {
    Start::Input(StateUpdate::messages([Message::human(text.into())]))
}
