//! What a client asks for, and how it is kept in the run's row.

use deerflow_agent::StopPoints;
use deerflow_core::{CheckpointId, JsonMap, Principal, RunId, StateUpdate, ThreadId, UserId};
use deerflow_harness::LeadOptions;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// Who asks.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The user.
    pub user_id: UserId,
    /// Facts for policies, from trusted sources.
    pub principal: Principal,
}

/// What a run begins with.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "made once per run")]
pub enum RunInput {
    /// Values for the state: messages and other channels.
    State(StateUpdate),
    /// An answer to the open questions: one for all, or an object from question id to answer.
    Resume(Value),
    /// Nothing: go on where the thread stands.
    Nothing,
}

/// The parts of a `command` besides `resume`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Command {
    /// Node to go on with: `model`, `tools` or `__end__`.
    pub goto: Option<String>,
    /// Values to write first.
    pub update: Option<StateUpdate>,
}

/// What to do when the thread is busy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MultitaskStrategy {
    /// Refuse the new run.
    #[default]
    Reject,
    /// Stop what is there, keep its steps, then begin.
    Interrupt,
    /// Take back what is there, then begin.
    Rollback,
    /// Begin when everything before it is over.
    Enqueue,
}

impl MultitaskStrategy {
    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Interrupt => "interrupt",
            Self::Rollback => "rollback",
            Self::Enqueue => "enqueue",
        }
    }
}

/// What to do when a client that follows the run goes away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// The run goes on.
    #[default]
    Continue,
    /// The run is cancelled.
    Cancel,
}

/// What a run's row keeps for its clients. Never secrets: the caller leaves them out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFacts {
    /// As the client named the assistant.
    pub assistant_id: Option<String>,
    /// The client's own.
    pub metadata: JsonMap,
    /// The request as clients see it (`input`, `config` …).
    pub kwargs: JsonMap,
    /// What was done about a busy thread.
    pub multitask_strategy: MultitaskStrategy,
    /// What a disconnect does.
    pub on_disconnect: OnDisconnect,
    /// URL to call when the run has ended.
    pub webhook: Option<String>,
    /// Stream modes the creator asked for.
    pub stream_mode: Vec<String>,
}

impl RunFacts {
    /// Of a run's row; `None` for a run that was made without this service.
    #[must_use]
    pub fn of(options: &Value) -> Option<Self> {
        serde_json::from_value(options.get("facts")?.clone()).ok()
    }
    /// Whether it answers an edited message again: without success it leaves no trace in the thread.
    pub(crate) fn is_edit_replay(&self) -> bool {
        self.metadata.get("replay_kind").and_then(Value::as_str) == Some("edit")
    }
}

/// A run to be created.
#[derive(Debug, Clone)]
pub struct CreateRun {
    /// The thread.
    pub thread_id: ThreadId,
    /// The run's id; a new one when absent.
    pub run_id: Option<RunId>,
    /// What it begins with.
    pub input: RunInput,
    /// The rest of a `command`.
    pub command: Command,
    /// The checkpoint to go on from; the head when absent or equal to it.
    pub checkpoint: Option<CheckpointId>,
    /// How to run.
    pub options: LeadOptions,
    /// What clients see again.
    pub facts: RunFacts,
    /// What to do when the thread is busy. [`RunFacts::multitask_strategy`] is set from it.
    pub strategy: MultitaskStrategy,
    /// How long to wait before it begins.
    pub after: Duration,
    /// Two requests with one key and one body are one run.
    pub idempotency_key: Option<String>,
    /// Nodes to pause before: `model`, `tools`, `*`.
    pub interrupt_before: Vec<String>,
    /// Nodes to pause after.
    pub interrupt_after: Vec<String>,
    /// Whether a thread that does not exist is made; an error otherwise.
    pub create_thread: bool,
}

impl CreateRun {
    /// A run of a thread with this input, and defaults for everything else.
    #[must_use]
    pub fn new(thread_id: ThreadId, input: RunInput) -> Self {
        Self {
            thread_id,
            run_id: None,
            input,
            command: Command::default(),
            checkpoint: None,
            options: LeadOptions::default(),
            facts: RunFacts::default(),
            strategy: MultitaskStrategy::default(),
            after: Duration::ZERO,
            idempotency_key: None,
            interrupt_before: Vec::new(),
            interrupt_after: Vec::new(),
            create_thread: true,
        }
    }
}

/// How a run begins, as its row keeps it. The values themselves are the row's `input`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Plan {
    /// Whether the input is an answer, in `answer` of the options.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) go_on: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goto: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checkpoint: Option<CheckpointId>,
    pub(crate) stops: StopPoints,
    pub(crate) principal: Principal,
}

/// The options of a run's row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StoredRun {
    #[serde(flatten)]
    pub(crate) lead: LeadOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) facts: Option<RunFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<Plan>,
}

impl StoredRun {
    pub(crate) fn of(options: &Value) -> Self {
        serde_json::from_value(options.clone()).unwrap_or_default()
    }
    /// Whether this service made the run, and may take it up again.
    pub(crate) fn is_ours(&self) -> bool {
        self.facts.is_some()
    }
}
