//! Puts the real thing in place of a handle in a call's arguments. The stored call keeps the handle.

use super::artifact_registry::{RESOLVED_TOOL_CALL_ARGS, ToolArtifactsConfig, handles_in, is_handle, substitute};
use super::gate_meta::stamp_refusal;
use async_trait::async_trait;
use deerflow_agent::{Middleware, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::{AgentError, JsonMap, ToolCall};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

const TASK_NOTE: &str = "task_note";
/// Handles that a refusal names.
const MAX_NAMED: usize = 10;

/// Outside policies and gates, which shall judge what a call will really touch.
pub struct ArtifactResolutionMiddleware {
    config: ToolArtifactsConfig,
}

impl ArtifactResolutionMiddleware {
    /// Does nothing unless both `enabled` and `resolve_handles_in_args` are set.
    #[must_use]
    pub fn new(config: ToolArtifactsConfig) -> Self {
        Self { config }
    }
}

fn resolved(args: &JsonMap, real: &HashMap<&str, &str>) -> JsonMap {
    let mut value = Value::Object(args.clone());
    substitute(&mut value, &|handle| real.get(handle).copied());
    if let Value::Object(map) = value { map } else { JsonMap::new() }
}

fn refusal(call: &ToolCall, unknown: &[&str], current: &[&str]) -> ToolOutcome {
    let mut missing = unknown.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
    if unknown.len() > MAX_NAMED {
        missing.push_str(&format!(" (and {} more)", unknown.len() - MAX_NAMED));
    }
    let last = &current[current.len().saturating_sub(MAX_NAMED)..];
    let last = if last.is_empty() { "none".to_owned() } else { last.join(", ") };
    let text = format!(
        "Error: {} was not run: unknown or expired artifact handles: {missing}. Current handles (the last {MAX_NAMED} at most): \
         {last}. Use one of them or a real path or address; do not guess. Handles belong to one agent.",
        call.name
    );
    let mut outcome = ToolOutcome::error(call, text);
    stamp_refusal(&mut outcome.message, Some("not_found"));
    outcome
}

#[async_trait]
impl Middleware for ArtifactResolutionMiddleware {
    fn name(&self) -> &'static str {
        "ArtifactResolutionMiddleware"
    }

    async fn wrap_tool_call(
        &self,
        _ctx: &RunContext,
        mut request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        if !(self.config.enabled && self.config.resolve_handles_in_args) {
            return next.run(request).await;
        }
        let state = request.context.state.clone();
        let entries = || state.tool_artifacts.iter().flatten().filter(|e| !e.real_ref.is_empty());
        let args = request.call.args.clone();
        let named = handles_in(&args);
        if named.is_empty() && request.call.name != TASK_NOTE {
            return next.run(request).await;
        }
        let real: HashMap<&str, &str> = entries().map(|e| (e.handle.as_str(), e.real_ref.as_str())).collect();
        let unknown: Vec<&str> = named.iter().copied().filter(|handle| !real.contains_key(handle)).collect();
        if !unknown.is_empty() {
            let current: Vec<&str> = entries().map(|e| e.handle.as_str()).filter(|h| is_handle(h)).collect();
            return Ok(refusal(&request.call, &unknown, &current));
        }
        if request.call.name == TASK_NOTE
            && let Some(message) = state.last_ai()
        {
            // Notes of one message share a capacity, so that each has to see what the others will be.
            let batch = message.tool_calls().iter().filter(|call| call.name == TASK_NOTE);
            let batch: JsonMap =
                batch.map(|call| (call.id().to_owned(), Value::Object(resolved(&call.args, &real)))).collect();
            let own = Arc::make_mut(&mut request.context.state);
            own.private.insert(RESOLVED_TOOL_CALL_ARGS.to_owned(), Value::Object(batch));
        }
        if !named.is_empty() {
            request.call.args = resolved(&request.call.args, &real);
        }
        next.run(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::middleware::scripted::*;
    use crate::middleware::testing::context;
    use deerflow_agent::Start;
    use deerflow_core::message::kwargs;
    use deerflow_core::state::{ArtifactEntry, ArtifactWrite};
    use deerflow_core::{Message, StateUpdate, ThreadState, Tool, ToolOutput};
    use pretty_assertions::assert_eq;
    use serde_json::json;

    /// Says what it was called with, and what it sees of its batch.
    fn echo(name: &str) -> Arc<dyn Tool> {
        tool(name, |ctx, args| {
            let batch = ctx.state.private.get(RESOLVED_TOOL_CALL_ARGS).cloned().unwrap_or_default();
            Ok(ToolOutput::text(json!([args, batch]).to_string()))
        })
    }

    async fn run(config: ToolArtifactsConfig, known: usize, calls: Vec<ToolCall>) -> Arc<ThreadState> {
        let chain: Vec<Arc<dyn Middleware>> = vec![Arc::new(ArtifactResolutionMiddleware::new(config))];
        let rig = Rig::new(vec![turn(calls)], [echo("t"), echo("task_note")], chain);
        let entry = |n: usize| {
            ArtifactWrite::Entry(ArtifactEntry {
                handle: format!("art_{n:08x}"),
                real_ref: format!("/mnt/{n}"),
                ..Default::default()
            })
        };
        let input = StateUpdate {
            tool_artifacts: Some((0..known).map(entry).collect()),
            ..StateUpdate::messages([Message::human("go")])
        };
        rig.start(&context(), Start::Input(input)).await.unwrap().state
    }

    #[tokio::test]
    async fn the_tool_gets_the_real_thing_and_the_history_keeps_the_handle() {
        let args = json!({"path": "`art_00000001`", "list": [{"x": "a art_00000000 b"}], "n": 1});
        let state = run(ToolArtifactsConfig::default(), 2, vec![call("c", "t", args.clone())]).await;
        let got = json!([{"path": "/mnt/1", "list": [{"x": "a /mnt/0 b"}], "n": 1}, null]);
        assert_eq!(result_texts(&state), [got.to_string()]);
        assert_eq!(Value::Object(state.messages[1].tool_calls()[0].args.clone()), args);
    }

    #[tokio::test]
    async fn an_unknown_handle_stops_the_call_and_the_known_ones_are_named() {
        let unknown: Vec<String> = (100..112).map(|n| format!("art_{n:08x}")).collect();
        let state =
            run(ToolArtifactsConfig::default(), 12, vec![call("c", "t", json!({"x": unknown, "y": "art_00000001"}))])
                .await;
        let refusal = &results(&state)[0];
        let text = refusal.text();
        assert!(
            text.starts_with("Error: t was not run: unknown or expired artifact handles: art_00000064, "),
            "{text}"
        );
        assert!(text.contains("art_0000006d (and 2 more)") && !text.contains("art_0000006e"), "{text}");
        assert!(
            text.contains(": art_00000002, art_00000003")
                && text.contains("art_0000000b.")
                && !text.contains("art_00000001,")
        );
        assert_eq!(refusal.additional_kwargs[kwargs::TOOL_META]["error_type"], "not_found");
        let state = run(ToolArtifactsConfig::default(), 0, vec![call("c", "t", json!({"x": "art_00000000"}))]).await;
        assert!(result_texts(&state)[0].contains(": none. Use"));
    }

    #[tokio::test]
    async fn notes_see_the_whole_batch_resolved() {
        let note = |id: &str, text: &str| call(id, "task_note", json!({"content": text}));
        let calls = vec![note("a", "art_00000000"), call("b", "t", json!({})), note("c", "plain")];
        let state = run(ToolArtifactsConfig::default(), 1, calls).await;
        let batch = json!({"a": {"content": "/mnt/0"}, "c": {"content": "plain"}});
        let want = [json!([{"content": "/mnt/0"}, batch]), json!([{}, null]), json!([{"content": "plain"}, batch])];
        assert_eq!(result_texts(&state), want.map(|v| v.to_string()));
        assert!(state.private.is_empty(), "for the call only");
    }

    #[tokio::test]
    async fn either_switch_turns_it_off() {
        for config in [
            ToolArtifactsConfig { enabled: false, ..Default::default() },
            ToolArtifactsConfig { resolve_handles_in_args: false, ..Default::default() },
        ] {
            let state = run(config, 1, vec![call("c", "t", json!({"x": "art_00000000 art_00000009"}))]).await;
            assert_eq!(result_texts(&state), [r#"[{"x":"art_00000000 art_00000009"},null]"#]);
        }
    }
}
