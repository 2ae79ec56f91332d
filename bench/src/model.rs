//! The scripted model, with a note of when each request came and a hand on when its reply may go on.

use anyhow::{Context, Result};
use deerflow_testkit::{Gate, ScriptedModel, Turn, marked_turn};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for a request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Name of the thread it runs on, as the kernel shows it.
pub(crate) const THREAD: &str = "scripted-model";

/// Where a reply stops until its gate is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nowhere.
    Never,
    /// Before anything is sent, in this request only, counted from 1.
    HeadOf(usize),
    /// Between the head and the first token.
    FirstToken,
}

/// A request has come in.
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    /// Open it to let the reply go on.
    pub(crate) gate: Gate,
}

struct Plan {
    hold: Hold,
    /// Requests since the plan was made.
    seen: usize,
    /// Keep all bodies, not just the last.
    keep: bool,
    bodies: Vec<Value>,
}

/// A scripted model server in this process. It plays the markers in the user's message.
pub(crate) struct Model {
    server: ScriptedModel,
    plan: Arc<Mutex<Plan>>,
    arrivals: Receiver<Arrival>,
}

fn lock(plan: &Mutex<Plan>) -> MutexGuard<'_, Plan> {
    plan.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Model {
    pub(crate) fn start() -> Result<Self> {
        let server = ScriptedModel::listen(0)?;
        // The server's own memory would slow it down as it fills; the plan keeps what is needed.
        server.forget_requests();
        let plan = Arc::new(Mutex::new(Plan { hold: Hold::Never, seen: 0, keep: false, bodies: Vec::new() }));
        let (sender, arrivals): (SyncSender<Arrival>, _) = sync_channel(4096);
        let shared = plan.clone();
        server.always(move |request| {
            let at = Instant::now();
            let gate = Gate::new();
            let mut plan = lock(&shared);
            plan.seen += 1;
            if !plan.keep {
                plan.bodies.clear();
            }
            plan.bodies.push(request.body.clone());
            let (hold, seen) = (plan.hold, plan.seen);
            drop(plan);
            let turn = marked_turn(request).unwrap_or_else(|| Turn::text("no marker"));
            // Nobody may be listening, or not any more.
            let _ = sender.try_send(Arrival { at, gate: gate.clone() });
            match hold {
                Hold::HeadOf(number) if number == seen => turn.hold(&gate),
                Hold::FirstToken => turn.hold_after(0, &gate),
                Hold::Never | Hold::HeadOf(_) => turn,
            }
        });
        Ok(Self { server, plan, arrivals })
    }

    pub(crate) fn base_url(&self) -> String {
        self.server.base_url()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Starts over: how replies are held from now on, and whether all bodies are kept.
    pub(crate) fn plan(&self, hold: Hold, keep: bool) {
        *lock(&self.plan) = Plan { hold, seen: 0, keep, bodies: Vec::new() };
        self.arrivals.try_iter().for_each(drop);
    }

    /// The next request, when it comes.
    pub(crate) fn arrival(&self) -> Result<Arrival> {
        self.arrivals.recv_timeout(PATIENCE).context("no request reached the scripted model")
    }

    /// When the requests so far came.
    pub(crate) fn arrived(&self) -> Vec<Instant> {
        self.arrivals.try_iter().map(|arrival| arrival.at).collect()
    }

    /// The bodies since the plan was made, as JSON text; the last one only unless all are kept.
    pub(crate) fn bodies(&self) -> Vec<Vec<u8>> {
        lock(&self.plan).bodies.iter().map(|body| body.to_string().into_bytes()).collect()
    }
}
