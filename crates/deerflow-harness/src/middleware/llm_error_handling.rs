//! Retries failed model calls, hands over to the next model, rests a provider that is down, and turns a final failure into
//! words.
//!
//! Each model is asked as if it were the only one: its circuit first, then its attempts with the waits between them. Only
//! what is left of that hands over, and only while nothing of the reply has been shown. A wait that its provider asks for
//! and that is longer than `retry_cap_delay_ms` is not waited for when there is a next model. A model that has handed over is
//! asked after the others for `circuit_breaker.recovery_timeout_sec`.

mod fallback;
mod limits;

pub use fallback::{ANSWERED_BY, FallbackModel};
pub use limits::ProcessLimits;

use async_trait::async_trait;
use deerflow_agent::{Middleware, ModelNext, RunContext};
use deerflow_config::Section;
use deerflow_core::message::kwargs;
use deerflow_core::{AgentError, ChatModel, ChatRequest, Message, ModelError, ModelErrorKind, ThreadState, text};
use deerflow_net::Backoff;
use fallback::{asked_in_order, stamp};
use limits::{CallVerdict, Pass, Ticket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How model calls are retried and limited.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LlmCallConfig {
    /// Model calls at the same time in this process; 0 is no limit. Read at start.
    pub max_concurrent_calls: usize,
    /// Attempts in all.
    #[schemars(range(min = 1))]
    pub retry_max_attempts: u32,
    /// Shortest wait between attempts, in milliseconds.
    pub retry_base_delay_ms: u64,
    /// Longest wait, in milliseconds. A provider's own `Retry-After` is obeyed as it is.
    pub retry_cap_delay_ms: u64,
    /// Shortest wait after too many requests in too short a time, in milliseconds.
    pub burst_retry_base_delay_ms: u64,
}

impl Default for LlmCallConfig {
    fn default() -> Self {
        Self {
            max_concurrent_calls: 0,
            retry_max_attempts: 3,
            retry_base_delay_ms: 1000,
            retry_cap_delay_ms: 8000,
            burst_retry_base_delay_ms: 5000,
        }
    }
}

impl Section for LlmCallConfig {
    const KEY: &'static str = "llm_call";
}

/// When a failing provider is left alone for a while.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CircuitBreakerConfig {
    /// Calls in a row that failed with every retry before it opens.
    #[schemars(range(min = 1))]
    pub failure_threshold: u32,
    /// Seconds until one call may try again.
    pub recovery_timeout_sec: u64,
}

impl Default for CircuitBreakerConfig {
    fn default() -> Self {
        Self { failure_threshold: 5, recovery_timeout_sec: 60 }
    }
}

impl Section for CircuitBreakerConfig {
    const KEY: &'static str = "circuit_breaker";
}

/// Owns every retry of a model call.
pub struct LlmErrorHandlingMiddleware {
    config: LlmCallConfig,
    limits: Arc<ProcessLimits>,
    fallbacks: Vec<Arc<dyn ChatModel>>,
}

/// A model gave no answer.
struct Failure {
    model: String,
    reason: &'static str,
    /// What happened, for people.
    what: String,
    /// The answer that stands for it if nobody else has one.
    answer: Message,
    /// Whether another model may do better.
    hands_over: bool,
    /// Whether it would fail the next time too.
    lasts: bool,
}

impl LlmErrorHandlingMiddleware {
    /// Retries by `config`, within the limits that the process shares.
    #[must_use]
    pub fn new(config: LlmCallConfig, limits: Arc<ProcessLimits>) -> Self {
        Self { config, limits, fallbacks: Vec::new() }
    }

    /// These models answer, in this order, when the agent's own cannot.
    #[must_use]
    pub fn with_fallbacks(mut self, models: Vec<Arc<dyn ChatModel>>) -> Self {
        self.fallbacks = models;
        self
    }

    /// `retries` is what the model's profile says (`max_retries`), over the configuration's.
    fn max_attempts(&self, kind: ModelErrorKind, retries: Option<u32>) -> u32 {
        let most = retries.map_or(self.config.retry_max_attempts, |retries| retries.saturating_add(1));
        match kind {
            ModelErrorKind::BurstRate | ModelErrorKind::StreamInterrupted => most.min(2),
            // A server that is not there will not come while we wait.
            ModelErrorKind::Unreachable => most.min(2),
            _ => most,
        }
    }

    fn delay(&self, error: &ModelError, previous: Option<Duration>) -> Duration {
        if let Some(asked) = error.retry_after {
            return asked;
        }
        let base = match error.kind {
            ModelErrorKind::BurstRate => self.config.burst_retry_base_delay_ms,
            _ => self.config.retry_base_delay_ms,
        };
        let cap = self.config.retry_cap_delay_ms;
        Backoff { base: Duration::from_millis(base), cap: Duration::from_millis(cap) }.delay(previous)
    }

    async fn attempt(&self, request: ChatRequest, next: ModelNext<'_>) -> Result<Message, AgentError> {
        // The place covers one attempt, not the wait before the next.
        let _place = self.limits.place().await;
        next.run(request).await
    }

    /// Asks one model, with its circuit and its retries. `more` says whether another one can be asked then.
    async fn ask(
        &self,
        ctx: &RunContext,
        request: &ChatRequest,
        next: ModelNext<'_>,
        more: bool,
    ) -> Result<Result<Message, Failure>, AgentError> {
        let model = next.model().info().name.clone();
        let pass = self.limits.enter(&model);
        if matches!(pass, Pass::Refused) {
            let seconds = self.limits.recovery().as_secs();
            let what =
                format!("Model {model} has failed several times in a row and is left alone for up to {seconds} s");
            let text = format!("{what}. Try again then, or use another model.");
            let answer = fallback(&text, "CircuitOpen", "circuit_open", "");
            return Ok(Err(Failure { model, reason: "circuit_open", what, answer, hands_over: true, lasts: true }));
        }
        let mut ticket = Ticket { limits: &self.limits, model: &model, pass, verdict: CallVerdict::Unclear };
        let mut attempt = 0;
        let mut waited = None;
        loop {
            attempt += 1;
            let error = match self.attempt(request.clone(), next).await {
                Ok(message) => {
                    ticket.verdict = CallVerdict::Healthy;
                    return Ok(Ok(message));
                }
                Err(AgentError::Model(error)) if error.kind != ModelErrorKind::Cancelled => error,
                Err(other) => return Err(other),
            };
            let max_attempts = self.max_attempts(error.kind, next.model().info().max_retries);
            let cap = Duration::from_millis(self.config.retry_cap_delay_ms);
            let too_long = more && !error.begun && error.retry_after.is_some_and(|asked| asked > cap);
            if !error.kind.is_retriable() || attempt >= max_attempts || too_long {
                if error.kind.is_retriable() && error.kind != ModelErrorKind::BurstRate {
                    ticket.verdict = CallVerdict::Down;
                }
                tracing::warn!(model, attempt, reason = error.kind.reason(), error = %error, "model call failed");
                drop(ticket);
                return Ok(Err(Failure {
                    model,
                    reason: error.kind.reason(),
                    what: error.to_string(),
                    answer: explain(&error, attempt),
                    hands_over: error.kind.is_the_providers() && !error.begun,
                    lasts: error.kind != ModelErrorKind::BadResponse,
                }));
            }
            let delay = self.delay(&error, waited);
            let wait_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            let message = format!(
                "{error}. Trying again in {:.1} s ({attempt} of {max_attempts} attempts made).",
                delay.as_secs_f64()
            );
            ctx.events
                .custom(json!({
                    "type": "llm_retry", "attempt": attempt, "max_attempts": max_attempts, "wait_ms": wait_ms,
                    "reason": error.kind.reason(), "message": message,
                }))
                .await;
            tokio::select! {
                biased;
                () = ctx.cancel.cancelled() => return Err(AgentError::Cancelled),
                () = tokio::time::sleep(delay) => {}
            }
            waited = Some(delay);
        }
    }
}

#[async_trait]
impl Middleware for LlmErrorHandlingMiddleware {
    fn name(&self) -> &'static str {
        "LLMErrorHandlingMiddleware"
    }

    async fn wrap_model_call(
        &self,
        ctx: &RunContext,
        state: &ThreadState,
        request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        let own = next.model();
        let name = own.info().name.clone();
        let line = asked_in_order(&self.limits, own, &self.fallbacks);
        if let Some(first) = line.first().map(|model| &model.info().name).filter(|first| **first != name)
            // Who answered last time was told then.
            && state.last_ai().and_then(|reply| answered_by(reply)) != Some(first)
        {
            let reason = self.limits.rests(&name).unwrap_or("circuit_open");
            tell(ctx, &name, first, reason, &format!("Model {name} is left alone for a while")).await;
        }
        let mut failures: Vec<Failure> = Vec::new();
        for (at, model) in line.iter().enumerate() {
            let more = line.get(at + 1);
            let failure = match self.ask(ctx, &request, next.with_model(model), more.is_some()).await? {
                Ok(message) => return Ok(stamp(message, &name, &model.info().name)),
                Err(failure) => failure,
            };
            let handed = more.filter(|_| failure.hands_over);
            if let Some(more) = handed {
                let to = &more.info().name;
                if failure.lasts {
                    self.limits.rest(&failure.model, failure.reason);
                }
                tell(ctx, &failure.model, to, failure.reason, &failure.what).await;
            }
            failures.push(failure);
            if handed.is_none() {
                break;
            }
        }
        let last = failures.pop().ok_or_else(|| AgentError::middleware(self.name(), "there is no model to ask"))?;
        Ok(with_earlier(last.answer, &failures))
    }
}

/// Says that another model answers.
async fn tell(ctx: &RunContext, from: &str, to: &str, reason: &str, what: &str) {
    tracing::warn!(from, to, reason, "another model answers");
    let message = format!("{what}. Model {to} answers in place of {from}.");
    ctx.events
        .custom(json!({"type": "model_fallback", "from": from, "to": to, "reason": reason, "message": message}))
        .await;
}

/// The model that answered in place of the run's own.
fn answered_by(message: &Message) -> Option<&str> {
    message.response_metadata.get(ANSWERED_BY)?.as_str()
}

/// An answer that also says which models had failed before.
fn with_earlier(mut answer: Message, earlier: &[Failure]) -> Message {
    if !earlier.is_empty() {
        let list: Vec<String> =
            earlier.iter().map(|failure| format!("{} ({})", failure.model, failure.reason)).collect();
        answer.content = format!("{}\n\nTried before: {}.", answer.text(), list.join(", ")).into();
    }
    answer
}

/// The answer that stands for a model call that failed for good. It turns the run into a failed one.
fn explain(error: &ModelError, attempts: u32) -> Message {
    let again = if attempts > 1 { format!(" after {attempts} attempts") } else { String::new() };
    let text = match error.kind {
        ModelErrorKind::Quota => format!("The model's account has no credit or quota left: {error}"),
        ModelErrorKind::Auth => format!("The model refused the key: {error}"),
        ModelErrorKind::BurstRate => format!("The model takes no more requests for the moment{again}: {error}"),
        ModelErrorKind::StreamInterrupted => {
            format!(
                "The model's reply broke off{again}: {error}. If it was a long one, split the task into smaller steps"
            )
        }
        ModelErrorKind::Busy | ModelErrorKind::Transient => format!("The model is not available{again}: {error}"),
        ModelErrorKind::ContextLength => format!("The conversation no longer fits the model: {error}"),
        _ => format!("The model call failed{again}: {error}"),
    };
    fallback(&text, &format!("{:?}", error.kind), error.kind.reason(), &error.to_string())
}

fn fallback(text: &str, error_type: &str, reason: &str, detail: &str) -> Message {
    let mut message = Message::ai(text)
        .with_kwarg(kwargs::ERROR_FALLBACK, true)
        .with_kwarg("error_type", error_type)
        .with_kwarg("error_reason", reason)
        .with_kwarg("error_detail", text::ellipsis(detail, 2000));
    message.ensure_id();
    message
}

#[cfg(test)]
#[path = "llm_error_handling_tests.rs"]
mod tests;
