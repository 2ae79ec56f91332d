//! Checkpoints, as LangGraph's `checkpoints` stream tells them.

use super::metadata::RunView;
use super::tasks::task_id;
use super::values::{ClientState, interrupts};
use crate::bridge::CommittedStep;
use deerflow_core::ports::StepKind;
use deerflow_core::run::Next;
use deerflow_core::{CheckpointId, ThreadState};
use serde::Serialize;
use serde_json::{Value, json};

/// The nodes that a thread goes on with: those that wait for a person, when it waits; none when it is done.
#[must_use]
pub fn next_nodes(next: Next, state: &ThreadState) -> Vec<String> {
    match next {
        Next::Model => vec!["model".to_owned()],
        Next::Tools => vec!["tools".to_owned()],
        Next::Wait => {
            let mut nodes: Vec<String> = state.interrupts().into_iter().map(|question| question.node).collect();
            nodes.dedup();
            nodes
        }
        // What is left is the end itself.
        Next::End | Next::Done => Vec::new(),
    }
}

/// A checkpoint's frame.
#[derive(Serialize)]
pub(super) struct CheckpointFrame<'a> {
    config: Value,
    parent_config: Option<Value>,
    values: ClientState<'a>,
    metadata: Value,
    next: Vec<String>,
    tasks: Vec<Value>,
}

/// The frame of a step; `step` counts this run's.
pub(super) fn checkpoint<'a>(run: &RunView, committed: &'a CommittedStep, step: u64) -> CheckpointFrame<'a> {
    let config = |id: &CheckpointId| json!({"configurable": {"checkpoint_ns": "", "thread_id": run.thread_id, "checkpoint_id": id}});
    let next = next_nodes(committed.next, &committed.state);
    let open = committed.state.interrupts();
    let task = |node: &String| {
        let asked: Vec<_> = open.iter().filter(|question| question.node == *node).cloned().collect();
        let (step, detail) = asked.first().map_or((step + 1, ""), |question| (step, question.id.as_str()));
        json!({"id": task_id(run, step, node, detail), "name": node, "interrupts": interrupts(&asked), "state": null})
    };
    CheckpointFrame {
        config: config(&committed.checkpoint_id),
        parent_config: committed.parent.as_ref().map(config),
        values: ClientState { state: &committed.state, streamed: true },
        metadata: json!({"source": source(committed.kind), "step": committed.step, "parents": {}}),
        tasks: next.iter().map(task).collect(),
        next,
    }
}

/// LangGraph's word for where a checkpoint came from.
#[must_use]
pub fn source(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Input => "input",
        StepKind::Edit => "update",
        StepKind::Model | StepKind::Tools | StepKind::End | StepKind::Effects => "loop",
    }
}
