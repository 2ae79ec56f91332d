//! Gives handles to what tools made, and notes which were used.
//!
//! Before a model call rather than around a tool: so it sees what a gate answered in a tool's place, and nothing is lost
//! when the process ends between a tool and the next turn. What was looked through is noted in the state, apart from the
//! handles, so that an evicted one does not come back.

use super::artifact_registry::{Origin, ToolArtifactsConfig, extract, handles_in};
use async_trait::async_trait;
use deerflow_agent::{Hook, Middleware, RunContext};
use deerflow_core::state::{ArtifactEntry, ArtifactWrite};
use deerflow_core::{AgentError, StateUpdate, ThreadState};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};

/// Owns `tool_artifacts` and `tool_artifact_processed`.
pub struct ArtifactCaptureMiddleware {
    config: ToolArtifactsConfig,
}

impl ArtifactCaptureMiddleware {
    /// Limits come from the configuration.
    #[must_use]
    pub fn new(config: ToolArtifactsConfig) -> Self {
        Self { config }
    }

    fn scan(&self, thread: &str, state: &ThreadState) -> StateUpdate {
        let mut scan = Scan::over(thread, state);
        let captured = scan.capture(&self.config);
        let consumed = scan.consume();
        let mut writes: Vec<ArtifactWrite> = captured.into_iter().map(ArtifactWrite::Entry).collect();
        let total = state.tool_artifacts.as_ref().map_or(0, Vec::len) + writes.len();
        writes.extend(consumed.into_iter().map(ArtifactWrite::Entry));
        if total > self.config.max_entries
            && let Ok(trim) = serde_json::from_value(json!({"op": "trim_to", "keep": self.config.max_entries}))
        {
            writes.push(trim);
        }
        let mut update = StateUpdate::none();
        if !writes.is_empty() {
            update.tool_artifacts = Some(writes);
        }
        if !scan.settled.is_empty() {
            update.tool_artifact_processed = Some(scan.settled);
        }
        update
    }
}

struct Scan<'a> {
    thread: &'a str,
    state: &'a ThreadState,
    known: HashSet<&'a str>,
    /// What is settled now.
    settled: Vec<String>,
    /// By handle, with what was captured just now.
    registry: HashMap<String, ArtifactEntry>,
}

impl<'a> Scan<'a> {
    fn over(thread: &'a str, state: &'a ThreadState) -> Self {
        let registry = state.tool_artifacts.iter().flatten().map(|e| (e.handle.clone(), e.clone())).collect();
        let known = state.tool_artifact_processed.iter().flatten().map(String::as_str).collect();
        Self { thread, state, known, settled: Vec::new(), registry }
    }

    /// `kind:` and a hash of what makes an occurrence this one.
    fn key(&self, kind: &str, message_id: Option<&str>, call_id: &str, index: usize) -> String {
        let seed = json!([self.thread, message_id, call_id, index]).to_string();
        let digest = Sha256::digest(seed);
        digest.iter().fold(format!("{kind}:"), |text, byte| format!("{text}{byte:02x}"))
    }

    /// Artifacts of results that were not looked through yet.
    fn capture(&mut self, config: &ToolArtifactsConfig) -> Vec<ArtifactEntry> {
        let now = jiff::Timestamp::now().to_string();
        let mut occurrences: HashMap<&str, usize> = HashMap::new();
        let mut captured: Vec<ArtifactEntry> = Vec::new();
        for message in &self.state.messages {
            let Some(part) = message.as_tool() else { continue };
            let seen = occurrences.entry(&part.tool_call_id).or_default();
            let index = if message.id.is_some() { 0 } else { *seen };
            *seen += 1;
            let key = self.key("result", message.id.as_deref(), &part.tool_call_id, index);
            if self.known.contains(key.as_str()) {
                continue;
            }
            self.settled.push(key);
            let call_index = u32::try_from(index).unwrap_or(u32::MAX);
            let origin = Origin { thread: self.thread, call_index, now: &now };
            for entry in extract(message, origin, config.detect_refs_in_text) {
                // Told again of a thing that is still there to be used: the handle it has will do.
                let has_one = self.registry.values().any(|old| {
                    old.handle == entry.handle || (old.real_ref == entry.real_ref && old.consumed_by.is_empty())
                });
                if !has_one {
                    self.registry.insert(entry.handle.clone(), entry.clone());
                    captured.push(entry);
                }
            }
        }
        captured
    }

    /// Entries that calls have named since the last look. A handle that is not there is looked for once more, since its
    /// entry may still be coming, and then let be.
    fn consume(&mut self) -> Vec<ArtifactEntry> {
        let mut changed: Vec<String> = Vec::new();
        let mut occurrences: HashMap<&str, usize> = HashMap::new();
        for message in &self.state.messages {
            for (position, call) in message.tool_calls().iter().enumerate() {
                let seen = occurrences.entry(call.id()).or_default();
                let index = if message.id.is_some() { position } else { *seen };
                *seen += 1;
                let handles = handles_in(&call.args);
                if handles.is_empty() || call.id().is_empty() {
                    continue;
                }
                let key = self.key("call", message.id.as_deref(), call.id(), index);
                if self.known.contains(key.as_str()) {
                    continue;
                }
                let mut missing = false;
                for handle in handles {
                    match self.registry.get_mut(handle) {
                        None => missing = true,
                        Some(entry) if entry.consumed_by.iter().any(|id| id == call.id()) => {}
                        Some(entry) => {
                            entry.consumed_by.push(call.id().to_owned());
                            if !changed.iter().any(|c| c == handle) {
                                changed.push(handle.to_owned());
                            }
                        }
                    }
                }
                let retry = format!("retry:{key}");
                let settled = if missing && !self.known.contains(retry.as_str()) { retry } else { key };
                self.settled.push(settled);
            }
        }
        changed.iter().filter_map(|handle| self.registry.get(handle).cloned()).collect()
    }
}

#[async_trait]
impl Middleware for ArtifactCaptureMiddleware {
    fn name(&self) -> &'static str {
        "ArtifactCaptureMiddleware"
    }

    async fn before_model(&self, ctx: &RunContext, state: &ThreadState) -> Result<Hook, AgentError> {
        if !self.config.enabled {
            return Ok(Hook::none());
        }
        Ok(Hook::update(self.scan(ctx.thread_id.as_str(), state)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::middleware::scripted::{call, turn};
    use crate::middleware::testing::context;
    use deerflow_core::Message;
    use pretty_assertions::assert_eq;

    fn capture(config: ToolArtifactsConfig) -> ArtifactCaptureMiddleware {
        ArtifactCaptureMiddleware::new(config)
    }

    /// Adds messages and takes a look.
    async fn look(state: &mut ThreadState, messages: Vec<Message>) -> StateUpdate {
        look_with(state, messages, ToolArtifactsConfig::default()).await
    }
    async fn look_with(state: &mut ThreadState, messages: Vec<Message>, config: ToolArtifactsConfig) -> StateUpdate {
        let messages = messages.into_iter().map(|mut m| {
            m.ensure_id();
            m
        });
        state.apply(&StateUpdate::messages(messages)).unwrap();
        let hook = capture(config).before_model(&context(), state).await.unwrap();
        state.apply(&hook.update).unwrap();
        hook.update
    }
    fn made(path: &str) -> Message {
        Message::tool(format!("saved /mnt/user-data/outputs/{path}"), "c", "bash")
    }
    fn labels(state: &ThreadState) -> Vec<&str> {
        state.tool_artifacts.iter().flatten().map(|e| e.display_name.as_str()).collect()
    }

    #[tokio::test]
    async fn results_are_looked_through_once_even_empty_and_evicted_ones() {
        let mut state = ThreadState::default();
        look(&mut state, vec![made("a"), Message::tool("nothing", "d", "bash")]).await;
        assert_eq!(labels(&state), ["a"]);
        let processed = state.tool_artifact_processed.clone().unwrap();
        assert_eq!(processed.len(), 2);
        assert!(processed.iter().all(|key| key.starts_with("result:") && key.len() == 7 + 64));
        assert!(look(&mut state, vec![]).await.is_empty());
        state.tool_artifacts = Some(vec![]);
        assert!(look(&mut state, vec![]).await.is_empty(), "what was evicted does not come back");
    }

    #[tokio::test]
    async fn a_repeated_call_id_is_another_occurrence() {
        let mut state = ThreadState::default();
        look(&mut state, vec![made("a"), made("b")]).await;
        let handles: HashSet<_> = state.tool_artifacts.iter().flatten().map(|e| &e.handle).collect();
        assert_eq!(handles.len(), 2);
        // Without ids of their own, the place among results of the call tells them apart.
        let bare =
            ThreadState { messages: [made("a"), made("b")].map(std::sync::Arc::new).into(), ..Default::default() };
        let update = capture(ToolArtifactsConfig::default()).scan("t", &bare);
        let indices: Vec<u32> = update
            .tool_artifacts
            .iter()
            .flatten()
            .filter_map(|w| if let ArtifactWrite::Entry(e) = w { Some(e.call_index) } else { None })
            .collect();
        assert_eq!(indices, [0, 1]);
    }

    #[tokio::test]
    async fn the_oldest_go_beyond_the_window() {
        let mut state = ThreadState::default();
        let config = ToolArtifactsConfig { max_entries: 10, ..Default::default() };
        for round in 0..3 {
            let results = (0..4).map(|n| made(&format!("{}", round * 4 + n))).collect();
            look_with(&mut state, results, config.clone()).await;
        }
        assert_eq!(labels(&state), ["2", "3", "4", "5", "6", "7", "8", "9", "10", "11"]);
    }

    #[tokio::test]
    async fn one_handle_for_a_thing_until_it_was_used() {
        let mut state = ThreadState::default();
        look(&mut state, vec![made("a"), made("a")]).await;
        let handle = state.tool_artifacts.as_ref().unwrap()[0].handle.clone();
        assert_eq!(labels(&state), ["a"]);
        let used = turn([call("u", "read_file", json!({"path": format!("`{handle}`")}))]);
        look(&mut state, vec![used, made("a")]).await;
        // The result was captured in the same look that saw the use.
        assert_eq!(state.tool_artifacts.as_ref().unwrap()[0].consumed_by, ["u"]);
        look(&mut state, vec![made("a")]).await;
        assert_eq!(labels(&state), ["a", "a"], "made anew after it was used");
    }

    #[tokio::test]
    async fn uses_are_noted_once_a_call() {
        let mut state = ThreadState::default();
        look(&mut state, vec![made("a")]).await;
        let handle = state.tool_artifacts.as_ref().unwrap()[0].handle.clone();
        let uses = json!({"x": [format!("{handle} and {handle}"), {"y": handle}]});
        look(&mut state, vec![turn([call("u", "t", uses.clone()), call("v", "t", uses), call("w", "t", json!({}))])])
            .await;
        assert_eq!(state.tool_artifacts.as_ref().unwrap()[0].consumed_by, ["u", "v"]);
        assert_eq!(
            state.tool_artifact_processed.as_ref().unwrap().iter().filter(|k| k.starts_with("call:")).count(),
            2
        );
        assert!(look(&mut state, vec![]).await.is_empty());
    }

    #[tokio::test]
    async fn a_use_in_the_same_look_as_the_capture_counts() {
        let mut state = ThreadState::default();
        let result = made("a").with_id("m");
        let mut probe = ThreadState::default();
        look(&mut probe, vec![result.clone()]).await;
        let handle = probe.tool_artifacts.unwrap()[0].handle.clone();
        look(&mut state, vec![result, turn([call("u", "t", json!({"x": handle}))])]).await;
        assert_eq!(state.tool_artifacts.unwrap()[0].consumed_by, ["u"]);
    }

    #[tokio::test]
    async fn a_missing_handle_is_looked_for_twice() {
        let mut state = ThreadState::default();
        let update = look(&mut state, vec![turn([call("u", "t", json!({"x": "art_00000000"}))])]).await;
        assert!(update.tool_artifact_processed.unwrap()[0].starts_with("retry:call:"));
        let update = look(&mut state, vec![]).await;
        assert!(update.tool_artifact_processed.unwrap()[0].starts_with("call:"));
        assert!(look(&mut state, vec![]).await.is_empty());
    }

    #[tokio::test]
    async fn switched_off_it_does_nothing() {
        let mut state = ThreadState::default();
        let off = ToolArtifactsConfig { enabled: false, ..Default::default() };
        assert!(look_with(&mut state, vec![made("a")], off).await.is_empty());
        let no_text = ToolArtifactsConfig { detect_refs_in_text: false, ..Default::default() };
        assert_eq!(look_with(&mut state, vec![], no_text).await.tool_artifacts, None);
    }
}
