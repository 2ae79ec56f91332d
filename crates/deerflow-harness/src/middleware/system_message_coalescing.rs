//! Merges system messages inside the conversation into the one in front of it: several providers accept no other.

use async_trait::async_trait;
use deerflow_agent::{Middleware, ModelNext, RunContext};
use deerflow_core::message::kwargs;
use deerflow_core::{AgentError, ChatRequest, Message, MessageKind, ThreadState};

/// Innermost of the middlewares that change requests. Of several date reminders only the last survives.
#[derive(Debug, Default)]
pub struct SystemMessageCoalescingMiddleware;

#[async_trait]
impl Middleware for SystemMessageCoalescingMiddleware {
    fn name(&self) -> &'static str {
        "SystemMessageCoalescingMiddleware"
    }

    async fn wrap_model_call(
        &self,
        _ctx: &RunContext,
        _state: &ThreadState,
        request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        next.run(coalesce(request)).await
    }
}

fn coalesce(mut request: ChatRequest) -> ChatRequest {
    let is_system = |m: &Message| matches!(m.kind, MessageKind::System);
    let (system, rest): (Vec<_>, Vec<_>) = request.messages.drain(..).partition(|m| is_system(m));
    request.messages = rest;
    if system.is_empty() {
        return request;
    }
    let last_reminder = system.iter().rposition(|m| m.flag(kwargs::DYNAMIC_CONTEXT));
    let kept = system
        .iter()
        .enumerate()
        .filter(|(at, m)| !m.flag(kwargs::DYNAMIC_CONTEXT) || Some(*at) == last_reminder)
        .map(|(_, m)| m.text().into_owned());
    let parts: Vec<String> =
        request.system.iter().map(|s| s.to_string()).chain(kept).filter(|t| !t.trim().is_empty()).collect();
    request.system = (!parts.is_empty()).then(|| parts.join("\n\n").into());
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// BR-007
    #[test]
    fn one_system_message_in_front_and_only_the_last_reminder() {
        let reminder = |t: &str| Message::system(t).with_kwarg(kwargs::DYNAMIC_CONTEXT, true);
        let messages = [
            reminder("monday"),
            Message::human("a"),
            Message::system("rule"),
            reminder("tuesday"),
            Message::human("b"),
        ];
        let request = ChatRequest {
            system: Some("static".into()),
            messages: messages.map(Arc::new).to_vec(),
            ..Default::default()
        };
        let got = coalesce(request);
        assert_eq!(got.system.as_deref(), Some("static\n\nrule\n\ntuesday"));
        assert_eq!(got.messages.iter().map(|m| m.text().into_owned()).collect::<Vec<_>>(), ["a", "b"]);
    }
}
