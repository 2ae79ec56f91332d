//! What the kernel asks of a language model.

use crate::{Message, MessageDelta, ModelError, ToolSpec};
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Facts about a model that the harness acts on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ModelInfo {
    /// Name in the configuration.
    pub name: String,
    /// `openai`, `anthropic`, `offline` …
    pub provider: String,
    /// Name that the provider knows.
    pub model: String,
    /// Tokens that fit, if known.
    pub context_window: Option<u64>,
    /// Whether it takes images.
    pub supports_vision: bool,
    /// Whether it can think before it answers.
    pub supports_thinking: bool,
    /// How often a failed request is made again, where the profile says; else whoever owns the retries decides.
    pub max_retries: Option<u32>,
}

/// How a model must choose among tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// It decides.
    #[default]
    Auto,
    /// It must call none.
    None,
    /// It must call at least one.
    Required,
}

/// One request. Adapters make it legal for their provider themselves; see `deerflow-models`.
#[derive(Debug, Clone, Default)]
pub struct ChatRequest {
    /// The static system prompt; goes in front of everything.
    pub system: Option<Arc<str>>,
    /// The conversation.
    pub messages: Vec<Arc<Message>>,
    /// Tools the model may call, in a stable order.
    pub tools: Vec<Arc<ToolSpec>>,
    /// How it chooses.
    pub tool_choice: ToolChoice,
    /// Whether it should think first; models that cannot ignore it.
    pub thinking: bool,
    /// `minimal`, `low`, `medium`, `high`; sent only to models that support it.
    pub reasoning_effort: Option<String>,
    /// Upper bound for the reply in tokens, over the profile's own.
    pub max_tokens: Option<u64>,
}

/// A finished assistant turn.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelTurn {
    /// The assistant message; its `finish_reason` is in the response metadata.
    pub message: Message,
}

/// What a model stream yields: deltas in order, then exactly one [`ModelEvent::Finished`], unless an error ends it first.
#[derive(Debug, Clone)]
pub enum ModelEvent {
    /// A piece of the reply.
    Delta(MessageDelta),
    /// The whole reply. Nothing follows.
    Finished(Box<ModelTurn>),
}

/// Streams one assistant turn.
///
/// Never panics. A failure is the stream's last item; a stream that ends without [`ModelEvent::Finished`] and without an
/// error is a fault of the adapter. Dropping the stream or cancelling the token stops the request.
pub trait ChatModel: Send + Sync {
    /// Facts about the model.
    fn info(&self) -> &ModelInfo;
    /// Starts a turn.
    fn stream(
        &self,
        request: ChatRequest,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>>;
}
