//! Admission.

use super::request::{Caller, CreateRun, MultitaskStrategy, Plan, RunInput, StoredRun};
use super::{CreateError, Inner, Runs, micros, now};
use crate::RuntimeStore;
use deerflow_agent::StopPoints;
use deerflow_core::ports::{CancelAction, NewRun, RunRow};
use deerflow_core::run::Next;
use deerflow_core::{Lineage, RunId, StateUpdate, StoreError};
use serde_json::json;
use std::sync::Arc;

/// Longest idempotency key, in bytes.
const KEY_BYTES: usize = 256;
/// What the row of a run says that made room for a newer one before it began.
const SUPERSEDED: &str = "Cancelled by newer run";

impl<S: RuntimeStore> Runs<S> {
    /// Creates a run: at once, or to begin when its turn comes. It is durable when this returns.
    ///
    /// With an idempotency key that was used before, the run of that time is the answer. Ids that the caller makes up for
    /// input messages count as part of the request: leave them out, or take the client's.
    ///
    /// # Errors
    /// [`CreateError`]; with [`StoreError::ThreadBusy`] when the thread has a live run and the strategy is `reject`. Nothing
    /// is stored then.
    ///
    /// # Cancel safety
    /// When nobody waits any more, the run is created all the same.
    pub async fn create(&self, caller: &Caller, request: CreateRun) -> Result<RunRow, CreateError> {
        if self.0.closing.is_cancelled() {
            return Err(CreateError::Closed);
        }
        let (inner, caller) = (self.0.clone(), caller.clone());
        // A task of its own: between admission and execution nobody may go away.
        let created = self.0.tasks.spawn(async move { Box::pin(inner.create(&caller, request)).await });
        created.await.map_err(|error| StoreError::Database(format!("the admission ended abnormally: {error}")))?
    }
}

impl<S: RuntimeStore> Inner<S> {
    async fn create(self: &Arc<Self>, caller: &Caller, request: CreateRun) -> Result<RunRow, CreateError> {
        check_options(&request)?;
        if let Some(url) = &request.facts.webhook {
            super::webhook::check(url, self.config.webhook_private_addresses)?;
        }
        let store = &self.manager.store;
        if !request.create_thread && store.thread(&caller.user_id, &request.thread_id).await?.is_none() {
            return Err(CreateError::NoThread(request.thread_id));
        }
        // What cannot run is refused now, not when its turn comes.
        self.manager.harness.lead_agent(&caller.user_id, &caller.principal, &request.options).await?;
        self.check_start(caller, &request).await?;
        let (strategy, after) = (request.strategy, micros(request.after));
        let new = self.row_of(caller, request);
        if after > 0 {
            let row = store.queue(new.clone(), now().saturating_add(after)).await?;
            return same_request(row, &new);
        }
        match strategy {
            MultitaskStrategy::Enqueue => self.enqueue(new).await,
            MultitaskStrategy::Reject => {
                self.settle_orphan(&new).await?;
                self.refuse_before_waiting(&new).await?;
                self.admit(new).await
            }
            MultitaskStrategy::Interrupt => self.replace(new, CancelAction::Interrupt).await,
            MultitaskStrategy::Rollback => self.replace(new, CancelAction::Rollback).await,
        }
    }

    /// Begins at once.
    async fn admit(self: &Arc<Self>, new: NewRun) -> Result<RunRow, CreateError> {
        let row = self.manager.store.admit(new.clone()).await?;
        if row.run_id != new.run_id {
            return same_request(row, &new);
        }
        self.begin(row.clone(), false);
        Ok(row)
    }

    /// Waits for everything before it.
    async fn enqueue(self: &Arc<Self>, new: NewRun) -> Result<RunRow, CreateError> {
        let row = self.manager.store.queue(new.clone(), 0).await?;
        if row.run_id != new.run_id {
            return same_request(row, &new);
        }
        self.settle_orphan(&new).await?;
        self.pump(&row.thread_id).await?;
        Ok(self.manager.store.run(&row.run_id).await?.unwrap_or(row))
    }

    /// Takes the place of what is there.
    async fn replace(self: &Arc<Self>, new: NewRun, action: CancelAction) -> Result<RunRow, CreateError> {
        let store = &self.manager.store;
        let earlier = store.waiting(&new.thread_id).await?;
        // Durable first; it begins when the run before it is over.
        let row = store.queue(new.clone(), 0).await?;
        if row.run_id != new.run_id {
            return same_request(row, &new);
        }
        for waiting in earlier {
            store.withdraw(&waiting, SUPERSEDED).await?;
        }
        self.settle_orphan(&new).await?;
        if let Some(live) = self.manager.live_run(&new.user_id, &new.thread_id).await?
            && live.run_id != row.run_id
        {
            self.request_stop(&live.run_id, action).await?;
        }
        self.pump(&row.thread_id).await?;
        Ok(store.run(&row.run_id).await?.unwrap_or(row))
    }

    /// Makes the run live whose turn it is on a thread, if nothing is.
    pub(super) async fn pump(self: &Arc<Self>, thread_id: &deerflow_core::ThreadId) -> Result<(), StoreError> {
        if self.closing.is_cancelled() {
            return Ok(());
        }
        let worker = self.manager.lock.worker();
        if let Some(row) = self.manager.store.claim(thread_id, worker, self.lease_until()).await? {
            self.begin(row, false);
        }
        Ok(())
    }

    /// A run that waits for this very moment comes before one that does not want to wait.
    async fn refuse_before_waiting(&self, new: &NewRun) -> Result<(), CreateError> {
        let store = &self.manager.store;
        let due = store.claimable(now(), super::keeper::CLAIMS).await?;
        if !due.contains(&new.thread_id) {
            return Ok(());
        }
        let next = store.waiting(&new.thread_id).await?.into_iter().next();
        let Some(run_id) = next.filter(|run_id| *run_id != new.run_id) else { return Ok(()) };
        let (thread_id, run_id) = (new.thread_id.to_string(), run_id.to_string());
        Err(StoreError::ThreadBusy { thread_id, run_id, holder: "the queue".to_owned() }.into())
    }

    /// Whether the thread can begin like this, as far as one can tell before the run's turn.
    async fn check_start(&self, caller: &Caller, request: &CreateRun) -> Result<(), CreateError> {
        let store = &self.manager.store;
        if matches!(request.input, RunInput::State(_)) && request.checkpoint.is_none() {
            return Ok(());
        }
        let known = store.thread(&caller.user_id, &request.thread_id).await?.is_some();
        let lineage = Lineage::root(request.thread_id.clone());
        let base = match (&request.checkpoint, known) {
            // The state of a thread before its first step.
            (Some(at), _) if at.is_empty() => None,
            (Some(at), false) => return Err(CreateError::NoCheckpoint(at.to_string())),
            (Some(at), true) => match store.load(&lineage, Some(at)).await {
                Err(StoreError::NotFound { .. }) => return Err(CreateError::NoCheckpoint(at.to_string())),
                Ok(None) => return Err(CreateError::NoCheckpoint(at.to_string())),
                found => found?,
            },
            (None, false) => None,
            (None, true) => {
                // What a live run will leave is not known yet.
                if self.manager.live_run(&caller.user_id, &request.thread_id).await?.is_some() {
                    return Ok(());
                }
                store.load(&lineage, None).await?
            }
        };
        let commanded = request.command != super::Command::default();
        match (&request.input, base) {
            (RunInput::Resume(_), base) if base.as_ref().is_none_or(|base| base.next == Next::Done) => {
                Err(CreateError::NotWaiting(request.thread_id.clone()))
            }
            (RunInput::Nothing, None) if !commanded => Err(CreateError::NoInput(request.thread_id.clone())),
            _ => Ok(()),
        }
    }

    fn row_of(&self, caller: &Caller, request: CreateRun) -> NewRun {
        let (mut input, answer, go_on) = match request.input {
            RunInput::State(update) => (update, None, false),
            RunInput::Resume(answer) => (StateUpdate::none(), Some(answer), true),
            RunInput::Nothing => (StateUpdate::none(), None, true),
        };
        if let Some(update) = request.command.update
            && go_on
        {
            input = update;
        }
        let mut facts = request.facts;
        facts.multitask_strategy = request.strategy;
        let stops = StopPoints {
            before: request.interrupt_before,
            after: request.interrupt_after,
            pass_first: go_on && answer.is_none() && request.command.goto.is_none(),
        };
        let plan = Plan {
            go_on,
            goto: request.command.goto,
            checkpoint: request.checkpoint,
            stops,
            principal: caller.principal.clone(),
        };
        let stored = StoredRun { lead: request.options, answer, facts: Some(facts), plan: Some(plan) };
        NewRun {
            run_id: request.run_id.unwrap_or_else(RunId::random),
            thread_id: request.thread_id,
            user_id: caller.user_id.clone(),
            worker: self.manager.lock.worker().clone(),
            input,
            options: json!(stored),
            idempotency_key: request.idempotency_key,
        }
    }
}

fn check_options(request: &CreateRun) -> Result<(), CreateError> {
    let bad = |field, reason: String| Err(CreateError::BadOption { field, reason });
    for (field, nodes) in
        [("interrupt_before", &request.interrupt_before), ("interrupt_after", &request.interrupt_after)]
    {
        if let Some(node) = nodes.iter().find(|node| !StopPoints::NODES.contains(&node.as_str())) {
            return bad(field, format!("there is no node {node:?}; use `model`, `tools` or `*`"));
        }
    }
    if let Some(node) = request.command.goto.as_deref().filter(|node| goto(node).is_none()) {
        return bad("command.goto", format!("there is no node {node:?}; use `model`, `tools` or `__end__`"));
    }
    match request.idempotency_key.as_deref() {
        Some(key) if key.is_empty() || key.len() > KEY_BYTES || key.chars().any(char::is_control) => {
            bad("idempotency_key", format!("must be 1 to {KEY_BYTES} bytes without control characters"))
        }
        _ => Ok(()),
    }
}

/// Where a `goto` leads.
pub(super) fn goto(node: &str) -> Option<Next> {
    match node {
        "model" | "agent" => Some(Next::Model),
        "tools" => Some(Next::Tools),
        "__end__" => Some(Next::End),
        _ => None,
    }
}

/// The run of a key that was used before, if it was asked for in the same way.
fn same_request(row: RunRow, new: &NewRun) -> Result<RunRow, CreateError> {
    if row.run_id == new.run_id || (row.input == new.input && row.options == new.options) {
        return Ok(row);
    }
    Err(CreateError::KeyReused(new.idempotency_key.clone().unwrap_or_default()))
}
