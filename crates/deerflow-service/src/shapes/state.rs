//! A checkpoint as LangGraph's clients read it.

use super::iso;
use deerflow_core::ports::{Checkpoint, StepKind};
use deerflow_core::run::Next;
use deerflow_core::{CheckpointId, JsonMap, RunId, ThreadId, ThreadState};
use deerflow_runtime::views::values::state_json;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

/// Which checkpoint of which thread.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CheckpointRef {
    /// The thread.
    pub thread_id: String,
    /// Empty for the thread itself.
    pub checkpoint_ns: String,
    /// The checkpoint.
    pub checkpoint_id: String,
    /// Always `null`.
    pub checkpoint_map: Option<Value>,
}

/// A node that is still to run.
#[derive(Debug, Serialize, ToSchema)]
pub struct Task {
    /// The same for as long as the checkpoint is the head.
    pub id: String,
    /// Name of the node.
    pub name: String,
    /// Always `null`: a task that failed has ended the run.
    pub error: Option<String>,
    /// What it asks a person.
    pub interrupts: Vec<Question>,
    /// Always `null`.
    pub checkpoint: Option<CheckpointRef>,
    /// Always `null`.
    pub state: Option<Value>,
    /// Always `null`.
    pub result: Option<Value>,
}

/// A question that waits for a person.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Question {
    /// What is asked.
    pub value: Value,
    /// Its id, 32 hexadecimal digits.
    pub id: String,
}

/// The state of a thread at a checkpoint.
#[derive(Debug, Serialize, ToSchema)]
pub struct State {
    /// The channels.
    #[schema(value_type = Object)]
    pub values: Value,
    /// Nodes that are still to run; empty when the last run is over.
    pub next: Vec<String>,
    /// `source`, `step`, `parents`, and the run that made it.
    #[schema(value_type = Object)]
    pub metadata: JsonMap,
    /// Where it is. Also has the keys `id` and `ts`.
    #[schema(value_type = Object)]
    pub checkpoint: Value,
    /// Id of the checkpoint.
    pub checkpoint_id: String,
    /// The one before.
    pub parent_checkpoint: Option<CheckpointRef>,
    /// Id of the one before.
    pub parent_checkpoint_id: Option<String>,
    /// ISO 8601; empty for the state before the first step.
    pub created_at: String,
    /// What is still to run.
    pub tasks: Vec<Task>,
    /// All their questions.
    pub interrupts: Vec<Question>,
}

impl State {
    /// The state at a checkpoint; that of a thread before its first step when there is none.
    pub fn new(thread_id: &ThreadId, namespace: &str, at: Option<&Checkpoint>) -> Self {
        let Some(at) = at else { return Self::empty(thread_id, namespace) };
        let tasks = tasks(&at.id, at.next, &at.state);
        let created_at = iso(at.created_at);
        let own = reference(thread_id, namespace, at.id.as_str());
        Self {
            values: state_json(&at.state),
            next: tasks.iter().map(|task| task.name.clone()).collect(),
            metadata: metadata(at.kind, at.step, at.run_id.as_ref()),
            checkpoint: with_time(&own, &created_at),
            checkpoint_id: own.checkpoint_id,
            parent_checkpoint: at.parent.as_ref().map(|id| reference(thread_id, namespace, id.as_str())),
            parent_checkpoint_id: at.parent.as_ref().map(ToString::to_string),
            created_at,
            interrupts: tasks.iter().flat_map(|task| task.interrupts.clone()).collect(),
            tasks,
        }
    }

    fn empty(thread_id: &ThreadId, namespace: &str) -> Self {
        let id = before_first();
        let reference = reference(thread_id, namespace, &id);
        Self {
            values: state_json(&ThreadState::default()),
            next: Vec::new(),
            metadata: JsonMap::new(),
            checkpoint: with_time(&reference, ""),
            checkpoint_id: id,
            parent_checkpoint: None,
            parent_checkpoint_id: None,
            created_at: String::new(),
            tasks: Vec::new(),
            interrupts: Vec::new(),
        }
    }
}

/// Id of the state before a thread's first step, which no commit made.
pub(super) fn before_first() -> String {
    CheckpointId::empty().to_string()
}

fn reference(thread_id: &ThreadId, namespace: &str, id: &str) -> CheckpointRef {
    CheckpointRef {
        thread_id: thread_id.to_string(),
        checkpoint_ns: namespace.to_owned(),
        checkpoint_id: id.to_owned(),
        checkpoint_map: None,
    }
}

fn with_time(reference: &CheckpointRef, time: &str) -> Value {
    json!({
        "thread_id": reference.thread_id, "checkpoint_ns": reference.checkpoint_ns,
        "checkpoint_id": reference.checkpoint_id, "checkpoint_map": null, "id": reference.checkpoint_id, "ts": time,
    })
}

/// LangGraph's metadata of a checkpoint. Its steps are counted from the input, which is -1.
pub(crate) fn metadata(kind: StepKind, step: u64, run_id: Option<&RunId>) -> JsonMap {
    let source = match kind {
        StepKind::Input => "input",
        StepKind::Edit => "update",
        StepKind::Model | StepKind::Tools | StepKind::End | StepKind::Effects => "loop",
    };
    let step = i64::try_from(step).unwrap_or(i64::MAX) - 1;
    let mut metadata = JsonMap::new();
    metadata.insert("source".into(), json!(source));
    metadata.insert("step".into(), json!(step));
    metadata.insert("parents".into(), json!({}));
    if let Some(run_id) = run_id {
        metadata.insert("run_id".into(), json!(run_id));
    }
    metadata
}

/// What is still to run after a checkpoint.
pub(super) fn tasks(id: &CheckpointId, next: Next, state: &ThreadState) -> Vec<Task> {
    let task = |name: &str, interrupts: Vec<Question>| Task {
        id: Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{id}/{name}").as_bytes()).to_string(),
        name: name.to_owned(),
        error: None,
        interrupts,
        checkpoint: None,
        state: None,
        result: None,
    };
    match next {
        Next::Done => Vec::new(),
        Next::Model => vec![task("model", Vec::new())],
        Next::Tools => vec![task("tools", Vec::new())],
        Next::End => vec![task("after_agent", Vec::new())],
        Next::Wait => {
            let mut asking: Vec<(String, Vec<Question>)> = Vec::new();
            for open in state.interrupts() {
                let question = Question { value: open.value, id: open.id };
                match asking.iter_mut().find(|(node, _)| *node == open.node) {
                    Some((_, questions)) => questions.push(question),
                    None => asking.push((open.node, vec![question])),
                }
            }
            asking.into_iter().map(|(node, questions)| task(&node, questions)).collect()
        }
    }
}

/// Questions by the id of the task that asks.
pub(super) fn interrupts(at: &Checkpoint) -> JsonMap {
    let tasks = tasks(&at.id, at.next, &at.state).into_iter().filter(|task| !task.interrupts.is_empty());
    tasks.map(|task| (task.id, json!(task.interrupts))).collect()
}
