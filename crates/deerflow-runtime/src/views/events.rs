//! LangChain's `astream_events`, version 2: what models, tools and the agent itself do.

use super::messages::chunk;
use super::metadata::RunView;
use super::tasks::task_id;
use super::updates::{Write, is_internal};
use super::values::{ClientState, StreamedMessage, StreamedMessages};
use deerflow_core::{AgentEvent, Message, NodeUpdate, ThreadState};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Name of the agent's own events.
const AGENT: &str = "lead_agent";

/// What the events so far were about.
#[derive(Debug, Default)]
pub(super) struct EventView {
    /// State after the newest step.
    state: Option<Arc<ThreadState>>,
    /// Configured model of the turn under way, by message.
    models: HashMap<String, String>,
    /// Arguments of calls that are not answered.
    inputs: HashMap<String, Value>,
    told: HashSet<String>,
}

/// Who an event is about.
struct Source<'a> {
    name: &'a str,
    id: String,
    metadata: Value,
}

impl EventView {
    pub(super) fn committed(&mut self, state: &Arc<ThreadState>) {
        self.state = Some(state.clone());
    }

    pub(super) fn begin(&self, run: &RunView) -> Value {
        agent_event(run, "on_chain_start", json!({"input": {}}))
    }

    pub(super) fn end(&self, run: &RunView) -> Value {
        let state = self.state.clone().unwrap_or_default();
        agent_event(run, "on_chain_end", json!({"output": ClientState { state: &state, streamed: true }.json()}))
    }

    pub(super) fn agent(&mut self, run: &RunView, step: u64, event: &AgentEvent) -> Option<Value> {
        match event {
            AgentEvent::ModelStarted { message_id, model } => {
                self.models.insert(message_id.clone(), model.clone());
                let messages = self.state.as_ref().map(|state| json_of(&StreamedMessages(&state.messages)));
                let input = json!({"messages": [messages.unwrap_or_else(|| json!([]))]});
                Some(event_of(run, "on_chat_model_start", self.model(run, message_id, step), json!({"input": input})))
            }
            AgentEvent::ModelDelta { message_id, delta } => {
                let piece = chunk(message_id, &delta.text, &delta.reasoning, &delta.tool_calls);
                let source = self.model(run, message_id, step);
                Some(event_of(run, "on_chat_model_stream", source, json!({"chunk": piece})))
            }
            AgentEvent::ToolStarted { call_id, name, args } => {
                self.inputs.insert(call_id.clone(), args.clone());
                Some(event_of(run, "on_tool_start", tool(run, call_id, name, step), json!({"input": args})))
            }
            AgentEvent::Custom(payload) => {
                let name = payload.get("type").and_then(Value::as_str).unwrap_or("custom");
                let source = Source { name, id: run.run_id.to_string(), metadata: run.of_agent() };
                Some(event_of(run, "on_custom_event", source, payload.clone()))
            }
            _ => None,
        }
    }

    /// A whole message ends the model or tool that made it.
    pub(super) fn whole(&mut self, run: &RunView, node: &str, message: &Message, step: u64) -> Option<Value> {
        if is_internal(node) || !self.told.insert(message.id().to_owned()) {
            return None;
        }
        let output = json_of(&StreamedMessage(message));
        if let Some(part) = message.as_tool() {
            let name = message.name.as_deref().unwrap_or_default();
            let input = self.inputs.remove(&part.tool_call_id);
            let source = tool(run, &part.tool_call_id, name, step);
            return Some(event_of(run, "on_tool_end", source, json!({"output": output, "input": input})));
        }
        if message.as_ai().is_none() || node != "model" {
            return None;
        }
        let told = event_of(run, "on_chat_model_end", self.model(run, message.id(), step), json!({"output": output}));
        self.models.remove(message.id());
        Some(told)
    }

    pub(super) fn update(&self, run: &RunView, update: &NodeUpdate) -> Option<Value> {
        let shown = !is_internal(&update.node);
        shown.then(|| agent_event(run, "on_chain_stream", json!({"chunk": json_of(&Write(update))})))
    }

    fn model(&self, run: &RunView, message_id: &str, step: u64) -> Source<'_> {
        let model = self.models.get(message_id).map(String::as_str);
        let metadata = run.of_message("model", message_id, model, step);
        Source { name: model.unwrap_or("model"), id: message_id.to_owned(), metadata }
    }
}

fn tool<'a>(run: &RunView, call_id: &str, name: &'a str, step: u64) -> Source<'a> {
    let id = task_id(run, step, "tools", call_id);
    Source { name, metadata: run.of_message("tools", &id, None, step), id }
}

fn event_of(run: &RunView, event: &str, source: Source<'_>, data: Value) -> Value {
    json!({
        "event": event,
        "name": source.name,
        "run_id": source.id,
        "tags": [],
        "metadata": source.metadata,
        "data": data,
        "parent_ids": [run.run_id],
    })
}

fn agent_event(run: &RunView, event: &str, data: Value) -> Value {
    json!({
        "event": event,
        "name": AGENT,
        "run_id": run.run_id,
        "tags": [],
        "metadata": run.of_agent(),
        "data": data,
        "parent_ids": [],
    })
}

fn json_of(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
