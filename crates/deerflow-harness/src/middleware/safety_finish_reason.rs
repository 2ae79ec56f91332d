//! A reply that the provider stopped for safety: its calls do not run, and an empty one gets a text, since an empty
//! assistant message poisons every later request.

use super::closing::without_calls;
use super::decided::Decided;
use async_trait::async_trait;
use deerflow_agent::{Hook, JumpTarget, Middleware, RunContext};
use deerflow_config::Section;
use deerflow_core::{AgentError, StateUpdate, ThreadState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Handles replies that the provider stopped for safety.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SafetyFinishReasonConfig {
    /// Whether it looks.
    pub enabled: bool,
}

impl Default for SafetyFinishReasonConfig {
    fn default() -> Self {
        Self { enabled: true }
    }
}

impl Section for SafetyFinishReasonConfig {
    const KEY: &'static str = "safety_finish_reason";
}

/// Finish reasons by the family of provider that uses them.
const DETECTORS: [(&str, &[&str]); 3] = [
    ("openai", &["content_filter"]),
    ("anthropic", &["refusal"]),
    (
        "gemini",
        &[
            "SAFETY",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "RECITATION",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
        ],
    ),
];

/// Closes such a turn.
#[derive(Debug, Default)]
pub struct SafetyFinishReasonMiddleware;

#[async_trait]
impl Middleware for SafetyFinishReasonMiddleware {
    fn name(&self) -> &'static str {
        "SafetyFinishReasonMiddleware"
    }

    async fn after_model(&self, ctx: &RunContext, state: &ThreadState) -> Result<Hook, AgentError> {
        let Some(last) = state.last_ai() else { return Ok(Hook::none()) };
        let Some(reason) = last.finish_reason() else { return Ok(Hook::none()) };
        let Some((detector, _)) = DETECTORS.iter().find(|(_, reasons)| reasons.contains(&reason)) else {
            return Ok(Hook::none());
        };
        let part = last.as_ai().cloned().unwrap_or_default();
        let names: Vec<&str> = part
            .tool_calls
            .iter()
            .map(|c| c.name.as_str())
            .chain(part.invalid_tool_calls.iter().map(|c| c.name.as_deref().unwrap_or_default()))
            .collect();
        if names.is_empty() && !last.content.is_blank() {
            return Ok(Hook::none());
        }
        ctx.set_stop_reason("safety_capped");
        ctx.events
            .custom(json!({
                "type": "safety_termination", "detector": detector, "reason_field": "finish_reason", "reason_value": reason,
                "suppressed_tool_call_count": names.len(), "suppressed_tool_call_names": names, "thread_id": ctx.thread_id,
            }))
            .await;
        let changes = json!({
            "detector": detector, "reason_field": "finish_reason", "reason_value": reason, "message_id": last.id(),
            "suppressed_tool_call_count": names.len(), "suppressed_tool_call_names": names,
        });
        let (name, action) = (self.name(), if names.is_empty() { "explain" } else { "suppress_tool_calls" });
        Decided { tag: "safety_termination", name, hook: "after_model", action, changes }.record(ctx);
        let note = if names.is_empty() {
            format!("[The provider blocked this reply for safety ({reason}). Rephrase the request and try again.]")
        } else {
            format!("[The provider stopped this reply for safety ({reason}); its tool calls were not run.]")
        };
        let closed = without_calls(last, &note, reason).with_kwarg(
            "safety_termination",
            json!({"detector": detector, "reason": reason, "suppressed": names.len()}),
        );
        Ok(Hook::jump(StateUpdate::messages([closed]), JumpTarget::End))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use deerflow_core::{Message, ToolCall};
    use std::sync::Arc;

    async fn close(mut message: Message, reason: &str) -> Option<Message> {
        message.response_metadata.insert("finish_reason".into(), json!(reason));
        let state = ThreadState { messages: vec![Arc::new(message)], ..Default::default() };
        let hook = SafetyFinishReasonMiddleware.after_model(&testing::context(), &state).await.unwrap();
        hook.update.messages.first().map(|m| (**m).clone())
    }

    /// BR-008
    #[tokio::test]
    async fn an_empty_blocked_reply_says_why_it_is_empty() {
        let closed = close(Message::ai(""), "content_filter").await.unwrap();
        assert!(closed.text().contains("blocked this reply for safety (content_filter)"));
    }

    /// BR-023
    #[tokio::test]
    async fn calls_of_a_blocked_reply_do_not_run() {
        for reason in ["content_filter", "refusal", "SAFETY"] {
            let call = ToolCall::new("c", "bash", Default::default());
            let closed = close(Message::ai_calls("", vec![call]), reason).await.unwrap();
            assert!(closed.tool_calls().is_empty());
            assert_eq!(closed.finish_reason(), Some(reason));
        }
    }

    #[tokio::test]
    async fn visible_text_and_ordinary_ends_are_left_alone() {
        assert_eq!(close(Message::ai("I will not."), "refusal").await, None);
        assert_eq!(close(Message::ai(""), "stop").await, None);
    }
}
