//! One run, from admission to its last write.

use super::delivery::Delivery;
use super::excerpt::first_human;
use super::finish::Ending;
use super::live::{Live, Stop};
use super::log::{End, OwnedLog};
use super::request::{Plan, StoredRun};
use super::{Inner, create};
use crate::RuntimeStore;
use crate::bridge::{RunEvent, RunStream};
use crate::edit::{self, BRANCHED, next_after};
use crate::manager::{RuntimeError, lifecycle};
use crate::run_log::RunLog;
use deerflow_agent::{RunContext, Start};
use deerflow_core::ports::{Checkpoint, Fence, RunOutcome, RunRow, StepCommit, StepKind};
use deerflow_core::run::Next;
use deerflow_core::{AgentError, EventSink, Lineage, NodeUpdate, StateUpdate, StoreError, ThreadState};
use deerflow_harness::LeadAgent;
use deerflow_harness::middleware::ToolOutputConfig;
use deerflow_sandbox::ThreadPaths;
use futures::FutureExt;
use serde_json::json;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// Events that may wait for the pump before the run waits too.
const EVENT_BUFFER: usize = 1024;

/// Why a run did not come to its end by itself.
#[derive(Debug)]
pub(super) enum Failure {
    /// It was stopped.
    Stopped,
    /// Another process owns it.
    Fenced,
    /// It cannot go on.
    Failed {
        /// Class of the failure.
        name: &'static str,
        /// Its text.
        text: String,
    },
}

impl<S: RuntimeStore> Inner<S> {
    /// Executes an admitted run in a task of its own. `resumed` is a run that an earlier process began.
    pub(super) fn begin(self: &Arc<Self>, row: RunRow, resumed: bool) {
        let Some(live) = self.live.insert(&row.run_id) else { return };
        let inner = self.clone();
        self.tasks.spawn(async move {
            let (run_id, thread_id) = (row.run_id.clone(), row.thread_id.clone());
            let stream = inner.stream_of(&row, resumed).await;
            stream.publish(RunEvent::Metadata { run_id: run_id.clone(), thread_id: thread_id.clone() });
            inner.execute(&row, &live, &stream, resumed).await;
            inner.live.remove(&run_id);
            stream.close();
            live.ended.cancel();
            let over = !matches!(live.reason(), Some(Stop::HandOver | Stop::Lost));
            if let Err(error) = inner.pump(&thread_id).await {
                tracing::warn!(%thread_id, %error, "the next run of the thread was not begun; it is tried again");
            }
            if over {
                inner.call_webhook(&run_id).await;
            }
        });
    }

    /// Where the run tells its events. One that an earlier process began goes on after the rows it left.
    async fn stream_of(&self, row: &RunRow, resumed: bool) -> Arc<RunStream> {
        if !resumed {
            return self.bridge.open(&row.run_id, &row.thread_id);
        }
        let store = self.manager.store.as_ref();
        match self.bridge.take_up(store, &row.run_id, &row.thread_id, row.epoch).await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(run_id = %row.run_id, %error, "readers of a run begin anew");
                self.bridge.resume(&row.run_id, &row.thread_id, 0, row.epoch)
            }
        }
    }

    async fn execute(self: &Arc<Self>, row: &RunRow, live: &Arc<Live>, stream: &Arc<RunStream>, resumed: bool) {
        let fence = Fence { run_id: row.run_id.clone(), epoch: row.epoch };
        let stored = StoredRun::of(&row.options);
        let log = self.log_of(row, &fence, &stored, live, resumed).await;
        let ctx = RunContext::new(
            row.user_id.clone(),
            row.thread_id.clone(),
            row.run_id.clone(),
            live.cancel.clone(),
            EventSink::none(),
        )
        .with_usage(row.usage.clone());
        let attempt = self.attempt(row, &fence, &stored, ctx, &log, stream);
        let (ctx, result) = attempt.await;
        let (usage, stop_reason) = (ctx.usage(), ctx.stop_reason());
        let failure = result.as_ref().err();
        if let Some(Failure::Failed { name, text }) = failure {
            tracing::error!(run_id = %row.run_id, error = text, "run failed");
            stream.publish(RunEvent::Error { name: (*name).to_owned(), message: text.clone() });
        }
        let decisions = ctx.take_decisions();
        let ending = Ending { row, fence: &fence, live, stored: &stored, usage, stop_reason, decisions };
        match self.finish(&ending, log.end(), result).await {
            Ok(Some(outcome)) => {
                tracing::info!(run_id = %row.run_id, status = outcome.status.as_str(), tokens = outcome.usage.total_tokens, "run finished");
                if let Err(error) = self.manager.store.record(&row.run_id, &log.counts(&ctx)).await {
                    tracing::warn!(run_id = %row.run_id, %error, "the run's counters were not stored");
                }
            }
            Ok(None) => tracing::info!(run_id = %row.run_id, "run left to its next owner"),
            Err(error) => {
                tracing::error!(run_id = %row.run_id, %error, "the end of the run was not stored; it is taken up again");
            }
        }
    }

    async fn log_of(
        &self,
        row: &RunRow,
        fence: &Fence,
        stored: &StoredRun,
        live: &Arc<Live>,
        resumed: bool,
    ) -> Arc<OwnedLog> {
        let store = self.manager.store.clone();
        let config = self.manager.harness.config();
        let outputs = ThreadPaths::new(config.home(), row.user_id.as_str(), row.thread_id.as_str());
        let outputs = outputs.map(|paths| paths.outputs()).unwrap_or_default();
        let skip = config.section::<ToolOutputConfig>().storage_subdir.clone();
        let presented = match resumed {
            // What an earlier life of the run presented is among these.
            true => match store.load(&Lineage::root(row.thread_id.clone()), None).await {
                Ok(Some(head)) => head.state.artifacts.into_iter().flatten().collect(),
                _ => Default::default(),
            },
            false => Default::default(),
        };
        let mut counts = row.counts.clone();
        counts.first_human_message = counts.first_human_message.or_else(|| first_human(&row.input));
        let all_or_nothing = stored.facts.as_ref().is_some_and(|facts| facts.is_edit_replay());
        let inner = Arc::new(RunLog::new(store, fence.clone()));
        let delivery = Delivery::new(outputs, skip, row.created_at, presented);
        Arc::new(OwnedLog::new(inner, live.clone(), delivery, all_or_nothing, counts))
    }

    /// Everything that can fail. The context comes back with what was counted.
    async fn attempt(
        &self,
        row: &RunRow,
        fence: &Fence,
        stored: &StoredRun,
        mut ctx: RunContext,
        log: &Arc<OwnedLog>,
        stream: &Arc<RunStream>,
    ) -> (RunContext, Result<RunOutcome, Failure>) {
        let plan = stored.plan.clone().unwrap_or_default();
        ctx.principal = plan.principal.clone();
        ctx.interactive = stored.lead.interactive;
        let (agent, start, stops) = match self.prepare(row, fence, stored, &plan, &ctx, log).await {
            Ok(prepared) => prepared,
            Err(failure) => return (ctx, Err(failure)),
        };
        ctx.stops = stops;
        let (sink, mut events) = EventSink::channel(EVENT_BUFFER);
        ctx.events = sink;
        let agent = agent.agent.with_step_log(log.clone());
        let result = {
            // The sink stays open in the context: the pump ends with the run, after what the run has said last.
            let work = AssertUnwindSafe(agent.run(&ctx, start)).catch_unwind();
            let mut work = std::pin::pin!(work);
            let result = loop {
                tokio::select! {
                    biased;
                    Some(event) = events.recv() => stream.publish(event),
                    result = &mut work => break result,
                }
            };
            while let Ok(event) = events.try_recv() {
                stream.publish(event);
            }
            result
        };
        ctx.events = EventSink::none();
        let result = match result {
            Ok(Ok(done)) => Ok(done.outcome),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Failure::Failed { name: "InternalError", text: "the run ended abnormally".to_owned() }),
        };
        (ctx, result)
    }

    /// Takes the run up, and says how it begins.
    async fn prepare(
        &self,
        row: &RunRow,
        fence: &Fence,
        stored: &StoredRun,
        plan: &Plan,
        ctx: &RunContext,
        log: &Arc<OwnedLog>,
    ) -> Result<(LeadAgent, Start, deerflow_agent::StopPoints), Failure> {
        let store = &self.manager.store;
        ctx.check_cancelled()?;
        store.start(fence).await?;
        // What was said to an earlier run and came too late for it.
        store.take_returned(fence).await?;
        let agent = self.manager.harness.lead_agent(&row.user_id, &plan.principal, &stored.lead).await;
        let agent = agent.map_err(|error| Failure::Failed { name: "LeadError", text: error.to_string() })?;
        log.set_model(&agent.model);
        let mut stops = plan.stops.clone();
        let begun = self.manager.last_step(&row.thread_id).await? == Some(row.run_id.clone());
        if begun {
            stops.pass_first = false;
            return Ok((agent, Start::Resume, stops));
        }
        let lineage = Lineage::root(row.thread_id.clone());
        let head = store.load(&lineage, None).await?;
        let prepared = head.as_ref().is_some_and(|head| head.run_id.as_ref() == Some(&row.run_id));
        let base = match &plan.checkpoint {
            Some(at) if !prepared => self.selected(&lineage, head.as_ref(), at).await?,
            _ => Base::Head,
        };
        let commanded = plan.go_on && (plan.goto.is_some() || row.input != StateUpdate::none());
        let mut next = head.as_ref().map_or(Next::Done, |head| head.next);
        if !prepared && (!matches!(base, Base::Head) || commanded) {
            next = self.place(row, fence, plan, head.as_ref(), &base).await?;
        }
        let start = if !plan.go_on {
            Start::Input(row.input.clone())
        } else {
            match (&stored.answer, next) {
                (Some(answer), Next::Wait) => Start::Answer(answer.clone()),
                (Some(_), Next::Done) => return Err(AgentError::NotWaiting.into()),
                (None, Next::Wait) => {
                    let text = "the thread waits for an answer; resume it with one".to_owned();
                    return Err(Failure::Failed { name: "NeedsAnswer", text });
                }
                _ => Start::Resume,
            }
        };
        Ok((agent, start, stops))
    }

    /// Where to begin, when that is not where the thread stands anyway.
    async fn selected(
        &self,
        lineage: &Lineage,
        head: Option<&Checkpoint>,
        at: &deerflow_core::CheckpointId,
    ) -> Result<Base, StoreError> {
        let Some(head) = head.filter(|head| head.id != *at) else { return Ok(Base::Head) };
        if at.is_empty() {
            return Ok(Base::Nothing);
        }
        let selected = self.manager.store.load(lineage, Some(at)).await?;
        // An ancestor after which nothing about the conversation was written.
        let same = |selected: &Checkpoint| selected.next == head.next && selected.state == head.state;
        let ancestor = match selected.as_ref().filter(|selected| same(selected)) {
            Some(selected) => self.is_ancestor(lineage, head, selected).await?,
            None => false,
        };
        Ok(selected.filter(|_| !ancestor).map_or(Base::Head, |selected| Base::At(Box::new(selected))))
    }

    /// Whether the steps from `head` lead back to `older`.
    async fn is_ancestor(&self, lineage: &Lineage, head: &Checkpoint, older: &Checkpoint) -> Result<bool, StoreError> {
        /// Equal states lie close together.
        const NEAR: u32 = 100;
        let near = self.manager.store.history(lineage, None, NEAR).await?;
        let mut at = head.parent.clone();
        while let Some(id) = at {
            if id == older.id {
                return Ok(true);
            }
            at = near.iter().find(|entry| entry.id == id).and_then(|entry| entry.parent.clone());
        }
        Ok(false)
    }

    /// Puts the head where the run is to begin, with what a command writes first. What the thread goes on with.
    async fn place(
        &self,
        row: &RunRow,
        fence: &Fence,
        plan: &Plan,
        head: Option<&Checkpoint>,
        place: &Base,
    ) -> Result<Next, Failure> {
        let base = match place {
            Base::Head => head,
            Base::At(selected) => Some(selected.as_ref()),
            Base::Nothing => None,
        };
        let mut state = base.map(|base| base.state.clone()).unwrap_or_default();
        let mut updates = Vec::new();
        if plan.go_on && row.input != StateUpdate::none() {
            let mut update = row.input.clone();
            for message in update.messages.iter_mut().filter(|message| message.id.is_none()) {
                Arc::make_mut(message).ensure_id();
            }
            state.apply(&update).map_err(AgentError::from)?;
            updates.push(NodeUpdate { node: "__input__".to_owned(), update });
        }
        let there = base.map_or(Next::Done, |base| base.next);
        let next = match plan.goto.as_deref().and_then(create::goto) {
            Some(next) => next,
            // What was written is something to answer.
            None if there == Next::Done && !updates.is_empty() => next_model(&state),
            None => there,
        };
        let mut events = Vec::new();
        let branch = !matches!(place, Base::Head);
        if branch {
            let content = json!({"head": head.map(|head| &head.id), "checkpoint_id": base.map(|base| &base.id)});
            events.push(lifecycle(BRANCHED, content));
        }
        let commit = StepCommit {
            run_id: Some(row.run_id.clone()),
            branch,
            fence: Some(fence.clone()),
            kind: StepKind::Edit,
            next,
            updates,
            state: Arc::new(state),
            events,
            ..edit::commit(&Lineage::root(row.thread_id.clone()), base)
        };
        self.manager.store.commit(commit).await?;
        Ok(next)
    }
}

/// Where a run begins.
enum Base {
    /// Where the thread stands.
    Head,
    /// At an earlier checkpoint.
    At(Box<Checkpoint>),
    /// As if nothing had been said yet.
    Nothing,
}

/// What follows values that were written from outside.
fn next_model(state: &ThreadState) -> Next {
    next_after("__input__", state).unwrap_or(Next::Model)
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        let text = error.to_string();
        match error {
            error if error.is_cancelled() => Self::Stopped,
            AgentError::Store(error) => error.into(),
            AgentError::State(_) => Self::Failed { name: "StateError", text },
            AgentError::Model(_) => Self::Failed { name: "ModelError", text },
            AgentError::Tool { .. } => Self::Failed { name: "ToolError", text },
            AgentError::Middleware { .. } => Self::Failed { name: "MiddlewareError", text },
            AgentError::NotWaiting => Self::Failed { name: "NotWaiting", text },
            AgentError::Cancelled => Self::Stopped,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Fenced { .. } => Self::Fenced,
            error => Self::Failed { name: "StoreError", text: error.to_string() },
        }
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        Self::Failed { name: "RuntimeError", text: error.to_string() }
    }
}

impl Failure {
    /// What a run that ended otherwise is told to be.
    pub(super) fn is_failed(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}

/// Whether anything about the end is left to be written.
pub(super) fn written(end: &End) -> Option<RunOutcome> {
    match end {
        End::Written(outcome) => Some(outcome.clone()),
        End::Open | End::Withheld(_) => None,
    }
}
