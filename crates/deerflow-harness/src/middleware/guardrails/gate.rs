//! The gate around a tool call.

use super::config::{GuardrailsConfig, PolicyConfigError};
use super::provider::{Decision, GuardrailProvider, GuardrailRequest, PolicyError, Reason};
use crate::middleware::ToolMeta;
use crate::middleware::decided::Decided;
use async_trait::async_trait;
use deerflow_agent::{Middleware, RunContext, ToolNext, ToolOutcome, ToolRequest};
use deerflow_core::message::kwargs;
use deerflow_core::{AgentError, text};
use futures::FutureExt;
use serde_json::{Value, json};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// `additional_kwargs` key of a tool result: what the gates said of the call, in the order in which they were asked.
pub const AUTHORIZATION_OUTCOME: &str = "deerflow_authorization_outcome";

/// How long a policy may think.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest message of a policy that is shown or told, in characters.
const MESSAGE_CHARS: usize = 500;

/// The answer of a policy; one that takes too long or panics has failed.
pub(super) async fn in_time<T>(answer: impl Future<Output = Result<T, PolicyError>>) -> Result<T, PolicyError> {
    match tokio::time::timeout(PATIENCE, AssertUnwindSafe(answer).catch_unwind()).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(PolicyError::Failed("the policy panicked".to_owned())),
        Err(_) => Err(PolicyError::Timeout { seconds: PATIENCE.as_secs() }),
    }
}

/// Asks a policy before every tool call. A call that it denies does not run; the model is told why.
pub struct GuardrailMiddleware {
    name: &'static str,
    provider: Arc<dyn GuardrailProvider>,
    fail_closed: bool,
    passport: Option<String>,
}

impl GuardrailMiddleware {
    /// A gate with a policy of the caller's own. `passport` is what the policy knows the agent by.
    #[must_use]
    pub fn new(provider: Arc<dyn GuardrailProvider>, fail_closed: bool, passport: Option<String>) -> Self {
        Self { name: "GuardrailMiddleware", provider, fail_closed, passport }
    }

    /// What the `guardrails` section says; `None` when it is off or chooses no policy.
    ///
    /// # Errors
    /// Every problem of the section.
    pub fn from_config(config: &GuardrailsConfig) -> Result<Option<Self>, Vec<PolicyConfigError>> {
        let provider = config.provider()?;
        Ok(provider.map(|provider| Self::new(provider, config.fail_closed, config.passport.clone())))
    }

    pub(super) fn authorization(provider: Arc<dyn GuardrailProvider>, fail_closed: bool) -> Self {
        Self { name: "GuardrailMiddleware[authorization]", ..Self::new(provider, fail_closed, None) }
    }

    fn request(&self, ctx: &RunContext, request: &ToolRequest) -> GuardrailRequest {
        GuardrailRequest {
            tool_name: request.call.name.clone(),
            tool_input: request.call.args.clone(),
            agent_id: self.passport.clone(),
            thread_id: ctx.thread_id.clone(),
            run_id: ctx.run_id.clone(),
            tool_call_id: request.call.id().to_owned(),
            is_subagent: ctx.is_subagent(),
            timestamp: jiff::Timestamp::now().to_string(),
            user_id: ctx.user_id.clone(),
            principal: ctx.principal.clone(),
        }
    }

    /// Tells the outside, without the arguments.
    async fn tell(&self, ctx: &RunContext, asked: &GuardrailRequest, action: &str, decision: &Decision) {
        let reasons: Vec<Reason> = decision
            .reasons
            .iter()
            .map(|reason| Reason { code: reason.code.clone(), message: text::ellipsis(&reason.message, MESSAGE_CHARS) })
            .collect();
        let (tool, call_id, provider) = (&asked.tool_name, &asked.tool_call_id, self.provider.name());
        let code = decision.code().unwrap_or("oap.denied");
        tracing::info!(thread_id = %ctx.thread_id, run_id = %ctx.run_id, tool, call_id, provider, action, code, "guardrail");
        let changes = json!({
            "tool_name": tool, "tool_call_id": call_id, "provider": provider, "allow": decision.allow,
            "policy_id": decision.policy_id, "reasons": reasons, "is_subagent": asked.is_subagent,
        });
        Decided { tag: "guardrail", name: self.name, hook: "wrap_tool_call", action, changes }.tell(ctx).await;
    }

    fn deny(&self, request: &ToolRequest, decision: &Decision) -> ToolOutcome {
        let code = decision.code().unwrap_or("oap.denied");
        let reason = decision.reasons.first().map(|reason| reason.message.trim()).filter(|reason| !reason.is_empty());
        let reason = reason.unwrap_or("the policy does not allow it");
        let mut outcome = ToolOutcome::error(
            &request.call,
            format!(
                "Error: Guardrail denied: tool '{}' was blocked ({code}). Reason: {}. Use another tool, or tell the user what \
                 is not allowed.",
                request.call.name,
                text::ellipsis(reason, MESSAGE_CHARS).trim_end_matches('.')
            ),
        );
        outcome.message.additional_kwargs.insert(kwargs::TOOL_META.to_owned(), json!(ToolMeta::permission_denied()));
        outcome
    }

    /// Puts this gate's word in front of those further in.
    fn publish(&self, outcome: &mut ToolOutcome, decision: &Decision) {
        let word = json!({
            "provider": self.provider.name(), "allow": decision.allow, "code": decision.code(), "policy_id": decision.policy_id,
        });
        match outcome.message.additional_kwargs.get_mut(AUTHORIZATION_OUTCOME) {
            Some(Value::Array(words)) => words.insert(0, word),
            _ => {
                outcome.message.additional_kwargs.insert(AUTHORIZATION_OUTCOME.to_owned(), json!([word]));
            }
        }
    }
}

#[async_trait]
impl Middleware for GuardrailMiddleware {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn wrap_tool_call(
        &self,
        ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        let asked = self.request(ctx, &request);
        let verdict = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => return Err(AgentError::Cancelled),
            verdict = in_time(self.provider.evaluate(&asked)) => verdict,
        };
        let (decision, action) = match verdict {
            Ok(decision) if decision.allow => (decision, None),
            Ok(decision) => (decision, Some("deny_tool_call")),
            Err(error) => {
                let (provider, tool, fail_closed) = (self.provider.name(), &asked.tool_name, self.fail_closed);
                tracing::warn!(provider, tool, fail_closed, %error, "the policy failed");
                let mut decision = Decision::deny("oap.evaluator_error", format!("the policy failed: {error}"));
                decision.allow = !self.fail_closed;
                let action = if self.fail_closed { "deny_tool_call" } else { "allow_tool_call_after_provider_error" };
                (decision, Some(action))
            }
        };
        if let Some(action) = action {
            self.tell(ctx, &asked, action, &decision).await;
        }
        let mut outcome = if decision.allow { next.run(request).await? } else { self.deny(&request, &decision) };
        self.publish(&mut outcome, &decision);
        Ok(outcome)
    }
}
