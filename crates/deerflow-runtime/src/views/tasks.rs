//! Begin and end of nodes, as LangGraph's `tasks` stream tells them.

use super::metadata::RunView;
use super::updates::{Channels, is_internal};
use super::values::interrupts;
use deerflow_core::{AgentEvent, Interrupt, NodeUpdate};
use serde_json::{Value, json};

/// Something about a task.
#[derive(Debug)]
pub(super) enum TaskFrame {
    Begun(Value),
    Ended(Value),
}

/// The tasks of the step under way.
#[derive(Debug, Default)]
pub(super) struct TaskView {
    /// Whether the step's model task was begun: an attempt that is made again is the same task.
    model: bool,
}

/// Identity of a task: the same for every reader.
pub(super) fn task_id(run: &RunView, step: u64, node: &str, detail: &str) -> String {
    let name = format!("{}/{step}/{node}/{detail}", run.run_id);
    uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, name.as_bytes()).to_string()
}

impl TaskView {
    /// The step is over.
    pub(super) fn committed(&mut self) {
        self.model = false;
    }

    pub(super) fn agent(&mut self, run: &RunView, step: u64, event: &AgentEvent) -> Vec<TaskFrame> {
        match event {
            AgentEvent::ModelStarted { .. } if !self.model => {
                self.model = true;
                vec![begun(&task_id(run, step, "model", ""), "model", json!({}))]
            }
            AgentEvent::ToolStarted { call_id, name, args } => {
                let call = json!({"name": name, "args": args, "id": call_id, "type": "tool_call"});
                vec![begun(&task_id(run, step, "tools", call_id), "tools", json!({"tool_call": call}))]
            }
            // The questions come when their step is told: they belong to the step before.
            AgentEvent::Interrupted(open) => {
                open.iter().map(|question| self.asked(run, step.saturating_sub(1), question)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn asked(&self, run: &RunView, step: u64, question: &Interrupt) -> TaskFrame {
        let open = interrupts(std::slice::from_ref(question));
        let id = task_id(run, step, &question.node, &question.id);
        TaskFrame::Ended(json!({"id": id, "name": question.node, "error": null, "result": {}, "interrupts": open}))
    }

    pub(super) fn update(&mut self, run: &RunView, step: u64, update: &NodeUpdate) -> Vec<TaskFrame> {
        let node = update.node.as_str();
        if is_internal(node) {
            return Vec::new();
        }
        let call = update.update.messages.iter().find_map(|message| message.as_tool());
        let detail = match (node, call) {
            ("tools", Some(part)) => part.tool_call_id.as_str(),
            _ => "",
        };
        let id = task_id(run, step, node, detail);
        let ended = TaskFrame::Ended(json!({
            "id": id,
            "name": node,
            "error": null,
            "result": serde_json::to_value(Channels(update)).unwrap_or_default(),
            "interrupts": [],
        }));
        // A hook tells only what it wrote: it begins and ends at once.
        let told_before = node == "tools" || (node == "model" && self.model);
        if told_before { vec![ended] } else { vec![begun(&id, node, json!({})), ended] }
    }
}

fn begun(id: &str, node: &str, input: Value) -> TaskFrame {
    TaskFrame::Begun(
        json!({"id": id, "name": node, "input": input, "triggers": [format!("branch:to:{node}")], "metadata": {}}),
    )
}
