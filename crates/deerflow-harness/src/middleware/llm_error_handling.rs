//! Retries failed model calls, rests a provider that is down, and turns a final failure into words.

use async_trait::async_trait;
use deerflow_agent::{Middleware, ModelNext, RunContext};
use deerflow_config::Section;
use deerflow_core::message::kwargs;
use deerflow_core::{AgentError, ChatRequest, Message, ModelError, ModelErrorKind, ThreadState, text};
use deerflow_net::Backoff;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

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

/// What all agents of a process share: the limit on concurrent calls, and a circuit per model.
#[derive(Debug)]
pub struct ProcessLimits {
    calls: Option<Semaphore>,
    circuits: Mutex<HashMap<String, Circuit>>,
    breaker: CircuitBreakerConfig,
}

#[derive(Debug, Default)]
struct Circuit {
    failures: u32,
    open_since: Option<Instant>,
    /// One call is trying whether the provider is back. Its number, so that only it settles the matter.
    probe: Option<u64>,
    next_probe: u64,
}

enum Pass {
    Closed,
    Probe(u64),
    Refused,
}

impl ProcessLimits {
    /// Limits from the configuration.
    #[must_use]
    pub fn new(calls: &LlmCallConfig, breaker: CircuitBreakerConfig) -> Arc<Self> {
        let calls = (calls.max_concurrent_calls > 0).then(|| Semaphore::new(calls.max_concurrent_calls));
        Arc::new(Self { calls, circuits: Mutex::default(), breaker })
    }

    fn with<R>(&self, model: &str, act: impl FnOnce(&mut Circuit, &CircuitBreakerConfig) -> R) -> R {
        let mut circuits = self.circuits.lock().unwrap_or_else(PoisonError::into_inner);
        act(circuits.entry(model.to_owned()).or_default(), &self.breaker)
    }

    fn enter(&self, model: &str) -> Pass {
        self.with(model, |circuit, config| match circuit.open_since {
            None => Pass::Closed,
            Some(since)
                if since.elapsed() >= Duration::from_secs(config.recovery_timeout_sec) && circuit.probe.is_none() =>
            {
                circuit.next_probe += 1;
                circuit.probe = Some(circuit.next_probe);
                Pass::Probe(circuit.next_probe)
            }
            Some(_) => Pass::Refused,
        })
    }

    fn leave(&self, model: &str, pass: &Pass, verdict: CallVerdict) {
        self.with(model, |circuit, config| {
            if let Pass::Probe(number) = pass {
                if circuit.probe != Some(*number) {
                    return;
                }
                circuit.probe = None;
            }
            match (verdict, pass) {
                (CallVerdict::Healthy, _) => {
                    *circuit = Circuit { next_probe: circuit.next_probe, ..Circuit::default() }
                }
                (CallVerdict::Down, Pass::Probe(_)) => circuit.open_since = Some(Instant::now()),
                (CallVerdict::Down, _) => {
                    circuit.failures += 1;
                    if circuit.failures >= config.failure_threshold {
                        circuit.open_since.get_or_insert_with(Instant::now);
                    }
                }
                (CallVerdict::Unclear, _) => {}
            }
        });
    }
}

/// What a call says about the provider's health.
#[derive(Clone, Copy)]
enum CallVerdict {
    Healthy,
    Down,
    /// A refused key, a cancellation, a burst limit: nothing about whether it is up.
    Unclear,
}

/// Releases a probe whatever happens, a dropped future included.
struct Ticket<'a> {
    limits: &'a ProcessLimits,
    model: &'a str,
    pass: Pass,
    verdict: CallVerdict,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.limits.leave(self.model, &self.pass, self.verdict);
    }
}

/// Owns every retry of a model call.
pub struct LlmErrorHandlingMiddleware {
    config: LlmCallConfig,
    limits: Arc<ProcessLimits>,
}

impl LlmErrorHandlingMiddleware {
    /// Retries by `config`, within the limits that the process shares.
    #[must_use]
    pub fn new(config: LlmCallConfig, limits: Arc<ProcessLimits>) -> Self {
        Self { config, limits }
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
        // The permit covers one attempt, not the wait before the next.
        let _permit = match &self.limits.calls {
            Some(calls) => calls.acquire().await.ok(),
            None => None,
        };
        next.run(request).await
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
        _state: &ThreadState,
        request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        let model = next.model().info().name.clone();
        let pass = self.limits.enter(&model);
        if matches!(pass, Pass::Refused) {
            let seconds = self.limits.breaker.recovery_timeout_sec;
            let text = format!(
                "Model {model} has failed several times in a row and is left alone for up to {seconds} s. Try again then, or use another model."
            );
            return Ok(fallback(&text, "CircuitOpen", "circuit_open", ""));
        }
        let mut ticket = Ticket { limits: &self.limits, model: &model, pass, verdict: CallVerdict::Unclear };
        let mut attempt = 0;
        let mut waited = None;
        loop {
            attempt += 1;
            let error = match self.attempt(request.clone(), next).await {
                Ok(message) => {
                    ticket.verdict = CallVerdict::Healthy;
                    return Ok(message);
                }
                Err(AgentError::Model(error)) if error.kind != ModelErrorKind::Cancelled => error,
                Err(other) => return Err(other),
            };
            let max_attempts = self.max_attempts(error.kind, next.model().info().max_retries);
            if !error.kind.is_retriable() || attempt >= max_attempts {
                if error.kind.is_retriable() && error.kind != ModelErrorKind::BurstRate {
                    ticket.verdict = CallVerdict::Down;
                }
                tracing::warn!(model, attempt, reason = error.kind.reason(), error = %error, "model call failed");
                return Ok(explain(&error, attempt));
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
