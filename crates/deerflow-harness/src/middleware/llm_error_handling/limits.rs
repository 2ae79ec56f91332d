//! What all agents of a process share about models: how many calls there may be, and which provider is left alone.

use super::{CircuitBreakerConfig, LlmCallConfig};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

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
    /// It has handed over, for this reason: since when.
    rests: Option<(Instant, &'static str)>,
    /// One call is trying whether the provider is back. Its number, so that only it settles the matter.
    probe: Option<u64>,
    next_probe: u64,
}

pub(super) enum Pass {
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

    /// A place for one attempt; `None` where there is no limit.
    pub(super) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        match &self.calls {
            Some(calls) => calls.acquire().await.ok(),
            None => None,
        }
    }

    /// Longest time that a provider is left alone.
    pub(super) fn recovery(&self) -> Duration {
        Duration::from_secs(self.breaker.recovery_timeout_sec)
    }

    /// A model has handed over to the next: for [`ProcessLimits::recovery`] it is asked after the others.
    pub(super) fn rest(&self, model: &str, reason: &'static str) {
        self.with(model, |circuit, _| circuit.rests = Some((Instant::now(), reason)));
    }

    /// Why a model is asked after the others, if it is.
    pub(super) fn rests(&self, model: &str) -> Option<&'static str> {
        let recovery = self.recovery();
        self.with(model, |circuit, _| circuit.rests.filter(|(since, _)| since.elapsed() < recovery).map(|(_, why)| why))
    }

    fn with<R>(&self, model: &str, act: impl FnOnce(&mut Circuit, &CircuitBreakerConfig) -> R) -> R {
        let mut circuits = self.circuits.lock().unwrap_or_else(PoisonError::into_inner);
        act(circuits.entry(model.to_owned()).or_default(), &self.breaker)
    }

    pub(super) fn enter(&self, model: &str) -> Pass {
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

    pub(super) fn leave(&self, model: &str, pass: &Pass, verdict: CallVerdict) {
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
pub(super) enum CallVerdict {
    Healthy,
    Down,
    /// A refused key, a cancellation, a burst limit: nothing about whether it is up.
    Unclear,
}

/// Releases a probe whatever happens, a dropped future included.
pub(super) struct Ticket<'a> {
    pub(super) limits: &'a ProcessLimits,
    pub(super) model: &'a str,
    pub(super) pass: Pass,
    pub(super) verdict: CallVerdict,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.limits.leave(self.model, &self.pass, self.verdict);
    }
}
