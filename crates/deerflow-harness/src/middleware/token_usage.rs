//! Says of each reply what its tokens were spent on, and adds what sub-agents used to the message that sent them out.

use async_trait::async_trait;
use deerflow_agent::middleware::HookResult;
use deerflow_agent::{Hook, Middleware, RunContext};
use deerflow_config::Section;
use deerflow_core::state::{Todo, TodoStatus};
use deerflow_core::{Message, StateUpdate, ThreadState, ToolCall, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whether replies say what their tokens were spent on.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenUsageConfig {
    /// Whether they do.
    pub enabled: bool,
}

impl Default for TokenUsageConfig {
    fn default() -> Self {
        Self { enabled: true }
    }
}

impl Section for TokenUsageConfig {
    const KEY: &'static str = "token_usage";
}

/// On an assistant message: what its tokens were spent on.
const ATTRIBUTION: &str = "token_usage_attribution";
/// On a tool result: what the sub-agent behind it used.
const SUBAGENT_USAGE: &str = "subagent_token_usage";
/// On a tool result: that was added to its caller.
const ATTRIBUTED: &str = "subagent_token_usage_attributed";

/// Annotates assistant messages. Adds to their usage, each sub-agent once.
#[derive(Debug, Default)]
pub struct TokenUsageMiddleware;

#[async_trait]
impl Middleware for TokenUsageMiddleware {
    fn name(&self) -> &'static str {
        "TokenUsageMiddleware"
    }

    async fn after_model(&self, _ctx: &RunContext, state: &ThreadState) -> HookResult {
        let Some(last) = state.messages.iter().rposition(|m| m.as_ai().is_some()) else { return Ok(Hook::none()) };
        let mut messages = attribute_subagents(&state.messages[..last]);
        let reply = &state.messages[last];
        let attribution = attribution(reply, state.todos.as_deref().unwrap_or_default());
        if reply.additional_kwargs.get(ATTRIBUTION) != Some(&attribution) {
            messages.push(Arc::new(Message::clone(reply).with_kwarg(ATTRIBUTION, attribution)));
        }
        Ok(Hook::update(StateUpdate { messages, ..StateUpdate::none() }))
    }
}

/// The results right before a reply and their callers, changed where a sub-agent's usage was not added yet.
fn attribute_subagents(before: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let results = before.iter().rev().take_while(|m| m.as_tool().is_some()).count();
    let first = before.len() - results;
    let mut callers: BTreeMap<usize, Usage> = BTreeMap::new();
    let mut marked = Vec::new();
    for result in &before[first..] {
        let Some(part) = result.as_tool().filter(|_| !result.flag(ATTRIBUTED)) else { continue };
        let Some(usage) = result.additional_kwargs.get(SUBAGENT_USAGE).and_then(read_usage) else { continue };
        let caller = before[..first].iter().rposition(|m| m.tool_calls().iter().any(|c| c.id() == part.tool_call_id));
        let Some(caller) = caller else { continue };
        callers.entry(caller).or_default().add(&usage);
        marked.push(Arc::new(Message::clone(result).with_kwarg(ATTRIBUTED, true)));
    }
    let callers = callers.into_iter().map(|(at, usage)| {
        let mut caller = Message::clone(&before[at]);
        if let Some(part) = caller.as_ai_mut() {
            part.usage_metadata.get_or_insert_default().add(&usage);
        }
        Arc::new(caller)
    });
    callers.chain(marked).collect()
}

/// Three whole numbers, or nothing: a usage that makes no sense is not added.
fn read_usage(value: &Value) -> Option<Usage> {
    let count = |key: &str| value.get(key).map_or(Some(0), Value::as_u64);
    let (input, output) = (count("input_tokens")?, count("output_tokens")?);
    let total = count("total_tokens")?.max(input.saturating_add(output));
    let usage = Usage { total_tokens: total, ..Usage::new(input, output) };
    (value.is_object() && !usage.is_zero()).then_some(usage)
}

fn attribution(reply: &Message, todos: &[Todo]) -> Value {
    let mut todos = todos.to_vec();
    let mut actions: Vec<Value> = Vec::new();
    for call in reply.tool_calls() {
        actions.extend(actions_of(call, &mut todos));
    }
    let kind = match actions.as_slice() {
        [] if reply.content.is_blank() => "thinking",
        [] => "final_answer",
        all if all.iter().all(|a| a["kind"].as_str().is_some_and(|k| k.starts_with("todo_"))) => "todo_update",
        [only] if only["kind"] == "subagent" => "subagent_dispatch",
        _ => "tool_batch",
    };
    let ids: Vec<&str> = reply.tool_calls().iter().map(ToolCall::id).filter(|id| !id.is_empty()).collect();
    json!({
        "version": 1, "kind": kind, "shared_attribution": actions.len() > 1, "tool_call_ids": ids, "actions": actions,
    })
}

fn actions_of(call: &ToolCall, todos: &mut Vec<Todo>) -> Vec<Value> {
    let argument = |name: &str| call.args.get(name).and_then(Value::as_str);
    let action = |kind: &str, facts: &[(&str, Option<&str>)]| {
        let mut action = json!({"kind": kind, "tool_call_id": call.id()});
        for (key, value) in facts {
            if let Some(value) = value {
                action[*key] = json!(value);
            }
        }
        action
    };
    let name = Some(call.name.as_str()).filter(|name| !name.is_empty()).unwrap_or("unknown");
    match name {
        "write_todos" => {
            let next: Option<Vec<Todo>> =
                call.args.get("todos").and_then(|list| serde_json::from_value(list.clone()).ok());
            let Some(next) = next else { return vec![action("todo_update", &[])] };
            let changes = todo_changes(todos, &next);
            let changes = changes.iter().map(|(kind, content)| action(kind, &[("content", Some(content))]));
            let mut changes: Vec<Value> = changes.collect();
            if changes.is_empty() {
                changes.push(action("todo_update", &[]));
            }
            *todos = next;
            changes
        }
        "task" => {
            let facts = [("description", argument("description")), ("subagent_type", argument("subagent_type"))];
            vec![action("subagent", &facts)]
        }
        "web_search" | "image_search" => {
            vec![action("search", &[("tool_name", Some(name)), ("query", argument("query"))])]
        }
        "present_files" => vec![action("present_files", &[])],
        "ask_clarification" => vec![action("clarification", &[])],
        _ => vec![action("tool", &[("tool_name", Some(name)), ("description", argument("description"))])],
    }
}

/// What changed in the plan, item by item.
fn todo_changes(before: &[Todo], after: &[Todo]) -> Vec<(&'static str, String)> {
    let mut open: Vec<&Todo> = before.iter().collect();
    let mut changes = Vec::new();
    for item in after {
        let held = open.iter().position(|held| held.content == item.content).map(|at| open.remove(at));
        let kind = match (item.status, held.map(|held| held.status)) {
            (now, Some(then)) if now == then => continue,
            (TodoStatus::Completed, _) => "todo_complete",
            (TodoStatus::InProgress, _) => "todo_start",
            (TodoStatus::Pending, _) => "todo_update",
        };
        changes.push((kind, item.content.clone()));
    }
    changes.extend(open.into_iter().map(|gone| ("todo_remove", gone.content.clone())));
    changes
}

#[cfg(test)]
mod tests;
