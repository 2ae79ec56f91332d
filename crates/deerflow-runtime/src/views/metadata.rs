//! Facts of the run that frames carry.

use super::line::line;
use deerflow_core::{JsonMap, RunId, ThreadId};
use serde_json::{Value, json};
use std::sync::Arc;

/// What views know of the run.
#[derive(Debug, Clone)]
pub struct RunView {
    /// The run.
    pub run_id: RunId,
    /// Its thread.
    pub thread_id: ThreadId,
    /// The run's metadata and plain configuration values, as the client gave them; they come back with every message.
    pub metadata: JsonMap,
}

impl RunView {
    /// Views of a run without metadata.
    #[must_use]
    pub fn new(run_id: RunId, thread_id: ThreadId) -> Self {
        Self { run_id, thread_id, metadata: JsonMap::new() }
    }

    pub(super) fn begin(&self) -> Arc<str> {
        line(&json!({"run_id": self.run_id, "thread_id": self.thread_id}))
    }

    /// Metadata of a message that `node` made in its task `task`.
    pub(super) fn of_message(&self, node: &str, task: &str, model: Option<&str>, step: u64) -> Value {
        let namespace = format!("{node}:{task}");
        let mut all = JsonMap::new();
        for (key, value) in &self.metadata {
            if !value.is_object() && !value.is_array() {
                all.insert(key.clone(), value.clone());
            }
        }
        let mut put = |key: &str, value: Value| all.insert(key.to_owned(), value);
        put("run_id", json!(self.run_id));
        put("thread_id", json!(self.thread_id));
        // Step 0 takes the input in.
        put("langgraph_step", json!(step));
        put("langgraph_node", json!(node));
        put("langgraph_triggers", json!([format!("branch:to:{node}")]));
        put("langgraph_path", json!(["__pregel_pull", node]));
        put("langgraph_checkpoint_ns", json!(namespace));
        put("checkpoint_ns", json!(namespace));
        if let Some(model) = model {
            put("ls_model_name", json!(model));
            put("ls_model_type", json!("chat"));
        }
        Value::Object(all)
    }
}
