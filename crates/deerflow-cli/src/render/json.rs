//! One JSON object per line, for programs. `type` tells them apart; see `docs/cli.md`.

use super::{Show, answer};
use crate::commands::{Ended, cost_as_json, question, say};
use deerflow_core::{AgentEvent, Interrupt};
use deerflow_runtime::RunHandle;
use serde_json::{Value, json};

/// Says nothing after the last line.
#[derive(Default)]
pub(super) struct JsonLines {
    finished: bool,
}

fn emit(value: Value) {
    // U+2028 and U+2029 end a line for some readers.
    say(&value.to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029").replace('\u{85}', "\\u0085"));
}

impl Show for JsonLines {
    fn started(&mut self, handle: &RunHandle) {
        emit(
            json!({"type": "run_started", "run_id": handle.run_id, "thread_id": handle.thread_id, "model": handle.model}),
        );
    }

    fn event(&mut self, event: &AgentEvent) {
        emit(match event {
            AgentEvent::ModelStarted { message_id, model } => {
                json!({"type": "model_started", "message_id": message_id, "model": model})
            }
            AgentEvent::ModelDelta { message_id, delta } => {
                let mut line = json!({"type": "model_delta", "message_id": message_id});
                for (key, text) in [("text", &delta.text), ("reasoning", &delta.reasoning)] {
                    if !text.is_empty() {
                        line[key] = json!(text);
                    }
                }
                if !delta.tool_calls.is_empty() {
                    line["tool_call_chunks"] = json!(delta.tool_calls);
                }
                line
            }
            AgentEvent::ModelDiscarded { message_id } => json!({"type": "model_discarded", "message_id": message_id}),
            AgentEvent::Message(message) => json!({"type": "message", "message": message}),
            AgentEvent::ToolStarted { call_id, name, args } => {
                json!({"type": "tool_started", "call_id": call_id, "name": name, "args": args})
            }
            AgentEvent::ToolFinished { call_id, name, status, elapsed_ms, summary } => {
                json!({"type": "tool_finished", "call_id": call_id, "name": name, "status": status, "elapsed_ms": elapsed_ms, "summary": summary})
            }
            AgentEvent::Interrupted(questions) => json!({"type": "interrupted", "interrupts": questions}),
            AgentEvent::Custom(value) => json!({"type": "custom", "data": value}),
            AgentEvent::Committed { checkpoint_id, seq, .. } => {
                json!({"type": "committed", "checkpoint_id": checkpoint_id, "seq": seq})
            }
            // The messages of an update come as messages; the rest of the state is in the last line.
            _ => return,
        });
    }

    fn finished(&mut self, ended: &Ended) {
        self.finished = true;
        emit(json!({
            "type": "run_finished", "run_id": ended.run_id, "thread_id": ended.thread_id, "status": ended.outcome.status,
            "error": ended.outcome.error, "stop_reason": ended.outcome.stop_reason, "answer": answer(ended),
            "question": question(&ended.state), "interrupts": ended.asks,
            "goal": ended.state.goal, "goal_outcome": ended.state.goal_outcome,
            "artifacts": ended.state.artifacts.clone().unwrap_or_default(), "files": ended.files, "title": ended.state.title,
            "usage": ended.usage, "spent": ended.spent, "cost": ended.cost.as_ref().map(cost_as_json), "elapsed_ms": u64::try_from(ended.elapsed.as_millis()).unwrap_or(u64::MAX), "model": ended.model,
        }));
    }

    fn question(&mut self, questions: &[Interrupt]) {
        emit(json!({"type": "interrupted", "interrupts": questions}));
    }

    fn note(&mut self, text: &str) {
        if !self.finished {
            emit(json!({"type": "note", "text": text}));
        }
    }
}
