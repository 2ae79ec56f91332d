//! Admits runs, executes them, and takes up those that were cut off.

use crate::compaction::compact_thread;
use crate::edit::EditError;
use crate::journal_rows::JournalRows;
use crate::run_log::RunLog;
use crate::worker::WorkerLock;
use deerflow_agent::{RunContext, Start};
use deerflow_core::message::kwargs;
use deerflow_core::ports::{
    EventRepo, Fence, InputQueue, InputRow, NewInput, NewJournalRow, NewRun, ROLLED_BACK, RunControl, RunFilter,
    RunOutcome, RunRepo, RunRow, StepKind, StepLog, ThreadRepo,
};
use deerflow_core::run::Next;
use deerflow_core::state::GoalState;
use deerflow_core::{
    AgentError, AgentEvent, EventSink, Lineage, Message, Principal, RunId, RunStatus, StateUpdate, StoreError,
    ThreadId, ThreadState, UserId,
};
use deerflow_harness::goal;
use deerflow_harness::middleware::{CompactError, CompactOptions, Compaction};
use deerflow_harness::{Harness, LeadError, LeadOptions};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Events that may wait for a reader before the run waits too.
const EVENT_BUFFER: usize = 1024;

/// Checkpoints looked through at a time for the last step of a run.
const HISTORY_PAGE: u32 = 20;

/// Everything a runtime needs of a database.
pub trait RuntimeStore: StepLog + RunRepo + RunControl + ThreadRepo + EventRepo + InputQueue + 'static {}
impl<T: StepLog + RunRepo + RunControl + ThreadRepo + EventRepo + InputQueue + 'static> RuntimeStore for T {}

/// A run cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// Storage failed, or the thread is busy.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The agent cannot be made.
    #[error(transparent)]
    Lead(#[from] LeadError),
    /// The thread was not compacted.
    #[error(transparent)]
    Compact(#[from] CompactError),
    /// The state cannot be changed.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// There is no such thread.
    #[error("there is no thread {0}; hint: `deerflow threads list` shows yours")]
    NoThread(ThreadId),
    /// The last run of the thread ended well.
    #[error(
        "thread {0} has nothing to resume: its last run is complete; hint: say more with: deerflow run \"…\" --thread {0}"
    )]
    NothingToResume(ThreadId),
    /// The run waits for a person.
    #[error("thread {0} waits for an answer; hint: `deerflow resume {0}` on a terminal asks you")]
    NeedsAnswer(ThreadId),
    /// No run is live.
    #[error("thread {0} has no live run; hint: say it in a new one with: deerflow run \"…\" --thread {0}")]
    NotRunning(ThreadId),
    /// The process of the live run is gone.
    #[error("the run of thread {0} was cut off, nobody would hear it; hint: go on with it first: deerflow resume {0}")]
    CutOff(ThreadId),
    /// Nobody asked.
    #[error("thread {0} waits for no answer")]
    NotWaiting(ThreadId),
}

/// The options of a run row.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
struct StoredOptions {
    #[serde(flatten)]
    lead: LeadOptions,
    /// Configured name of the model that answers, chosen or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    model_name: Option<String>,
    /// A person's answer that the run begins with.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Value>,
}

/// Configured name of the model that answers a run with these [`RunRow::options`]; `None` for runs of versions that did not
/// write it down.
#[must_use]
pub fn answering_model(options: &Value) -> Option<String> {
    Some(options.get("model_name")?.as_str()?.to_owned())
}

/// A run to be started.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// Owner.
    pub user_id: UserId,
    /// The thread; a new one when it does not exist.
    pub thread_id: ThreadId,
    /// What the user says.
    pub message: Message,
    /// Goal to set with the message; the run goes on by itself until it is met.
    pub goal: Option<GoalState>,
    /// How to run.
    pub options: LeadOptions,
}

/// A run under way.
pub struct RunHandle {
    /// The run.
    pub run_id: RunId,
    /// Its thread.
    pub thread_id: ThreadId,
    /// Name of the model that answers.
    pub model: String,
    /// Its events, in order, until it ends.
    pub events: mpsc::Receiver<AgentEvent>,
    /// Stops it.
    pub cancel: CancellationToken,
    task: JoinHandle<Result<Finished, RuntimeError>>,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Terminal facts.
    pub outcome: RunOutcome,
    /// State at the end, as far as it is durable.
    pub state: Arc<ThreadState>,
}

/// A started run, with what was found on the way.
pub struct Started {
    /// The run.
    pub handle: RunHandle,
    /// A run of this thread that its process left behind, and that was closed or taken up.
    pub recovered: Option<RunRow>,
}

impl RunHandle {
    /// Waits for the end. Events that nobody has read are dropped.
    ///
    /// # Errors
    /// When not even the run's end could be stored.
    pub async fn finished(self) -> Result<Finished, RuntimeError> {
        drop(self.events);
        match self.task.await {
            Ok(result) => result,
            Err(error) => Err(StoreError::Damaged(format!("the run's task ended abnormally: {error}")).into()),
        }
    }
}

/// Admits and executes runs for one process.
pub struct RunManager<S> {
    pub(crate) store: Arc<S>,
    pub(crate) harness: Arc<Harness>,
    pub(crate) lock: WorkerLock,
}

impl<S: RuntimeStore> RunManager<S> {
    /// A manager over a store and a harness; `lock` says who we are.
    pub fn new(store: Arc<S>, harness: Arc<Harness>, lock: WorkerLock) -> Self {
        Self { store, harness, lock }
    }

    /// Starts a run with a user's message. A run that a dead process left on the thread is closed first; its steps stay.
    ///
    /// # Errors
    /// [`StoreError::ThreadBusy`], naming the holder, when the thread has a live run.
    pub async fn start(&self, request: RunRequest) -> Result<Started, RuntimeError> {
        let mut input = request.goal.map(goal::set).unwrap_or_default();
        input.messages.push(Arc::new(request.message));
        self.begin(&request.user_id, &request.thread_id, input, &request.options).await
    }

    /// Starts a run that begins with what was said too late for the last one.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_with_returned(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        options: &LeadOptions,
    ) -> Result<Started, RuntimeError> {
        // Every run takes these up by itself.
        self.begin(user_id, thread_id, StateUpdate::none(), options).await
    }

    async fn begin(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        input: StateUpdate,
        options: &LeadOptions,
    ) -> Result<Started, RuntimeError> {
        let agent = self.harness.lead_agent(user_id, &Principal::default(), options).await?;
        let new = NewRun {
            run_id: RunId::random(),
            thread_id: thread_id.clone(),
            user_id: user_id.clone(),
            worker: self.lock.worker().clone(),
            input: input.clone(),
            options: json!(StoredOptions {
                lead: options.clone(),
                model_name: Some(agent.model.clone()),
                answer: None
            }),
            idempotency_key: None,
        };
        let mut recovered = None;
        let row = match self.store.admit(new.clone()).await {
            Err(StoreError::ThreadBusy { .. }) => {
                recovered = self.close_dead_run(user_id, thread_id).await?;
                self.store.admit(new).await?
            }
            admitted => admitted?,
        };
        Ok(Started { handle: self.execute(row, agent, Start::Input(input), options.interactive), recovered })
    }

    /// Gives a person's answer to the questions that the last run stopped with: one value for all, or an object from question
    /// id to value. A run of its own, with the options of the one that asked.
    ///
    /// # Errors
    /// [`RuntimeError::NotWaiting`] when no question is open.
    pub async fn answer(&self, user_id: &UserId, thread_id: &ThreadId, answer: Value) -> Result<Started, RuntimeError> {
        let last = self.last_run(user_id, thread_id).await?;
        let head = self.store.load(&Lineage::root(thread_id.clone()), None).await?;
        if head.is_none_or(|head| head.next != Next::Wait) {
            return Err(RuntimeError::NotWaiting(thread_id.clone()));
        }
        let mut stored: StoredOptions = serde_json::from_value(last.options).unwrap_or_default();
        stored.answer = Some(answer.clone());
        let agent = self.harness.lead_agent(user_id, &Principal::default(), &stored.lead).await?;
        stored.model_name = Some(agent.model.clone());
        let new = NewRun {
            run_id: RunId::random(),
            thread_id: thread_id.clone(),
            user_id: user_id.clone(),
            worker: self.lock.worker().clone(),
            input: StateUpdate::none(),
            options: json!(stored),
            idempotency_key: None,
        };
        let mut recovered = None;
        let row = match self.store.admit(new.clone()).await {
            // An earlier answer died with its process before it was applied.
            Err(StoreError::ThreadBusy { .. }) => {
                recovered = self.close_dead_run(user_id, thread_id).await?;
                self.store.admit(new).await?
            }
            admitted => admitted?,
        };
        let handle = self.execute(row, agent, Start::Answer(answer), stored.lead.interactive);
        Ok(Started { handle, recovered })
    }

    /// The options of the thread's last run, for going on with it the same way; the defaults when it has none.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn last_options(&self, user_id: &UserId, thread_id: &ThreadId) -> Result<LeadOptions, RuntimeError> {
        let filter = RunFilter { thread_id: Some(thread_id.clone()), limit: 1, ..RunFilter::default() };
        let last = self.store.runs(user_id, filter).await?.into_iter().next();
        let stored = last.and_then(|run| serde_json::from_value::<StoredOptions>(run.options).ok());
        Ok(stored.unwrap_or_default().lead)
    }

    /// Says that nobody works on a thread: no run is live, or its process is dead.
    ///
    /// # Errors
    /// [`StoreError::ThreadBusy`], naming the holder, when somebody does.
    pub async fn ensure_idle(&self, user_id: &UserId, thread_id: &ThreadId) -> Result<(), RuntimeError> {
        match self.live_run(user_id, thread_id).await? {
            Some(run) if self.lock.is_alive(&run.worker) => Err(StoreError::ThreadBusy {
                thread_id: thread_id.to_string(),
                run_id: run.run_id.to_string(),
                holder: run.worker.label,
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// Says something to the live run of a thread. It becomes part of the conversation before the run's next model turn; if
    /// the run ends before that, of the thread's next run. The same `run_input_id` is the same input, however often it is
    /// given.
    ///
    /// # Errors
    /// [`RuntimeError::NotRunning`] when no run is live; [`RuntimeError::CutOff`] when its process is dead;
    /// [`StoreError::QueueFull`].
    pub async fn steer(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        run_input_id: String,
        content: Message,
    ) -> Result<InputRow, RuntimeError> {
        let live = self.live_run(user_id, thread_id).await?;
        let live = live.ok_or_else(|| RuntimeError::NotRunning(thread_id.clone()))?;
        if !self.lock.is_alive(&live.worker) {
            return Err(RuntimeError::CutOff(thread_id.clone()));
        }
        let input = NewInput { run_input_id, run_id: live.run_id, content, created_by: user_id.clone() };
        match self.store.enqueue(user_id, input).await {
            Err(StoreError::RunOver { .. }) => Err(RuntimeError::NotRunning(thread_id.clone())),
            queued => Ok(queued?),
        }
    }

    /// Compacts a thread now: its older messages make room for a summary. An edit like any other, so that the history keeps
    /// what was there.
    ///
    /// # Errors
    /// [`RuntimeError::Compact`] when there is nothing to compact or no model wrote a summary; [`StoreError::ThreadBusy`]
    /// while a run is live.
    pub async fn compact(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        options: &LeadOptions,
    ) -> Result<Compaction, RuntimeError> {
        let (store, harness) = (self.store.as_ref(), &self.harness);
        let done = compact_thread(store, harness, user_id, thread_id, options, CompactOptions::default()).await?;
        Ok(done.0)
    }

    pub(crate) async fn live_run(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
    ) -> Result<Option<RunRow>, RuntimeError> {
        let filter = RunFilter {
            thread_id: Some(thread_id.clone()),
            status: vec![RunStatus::Pending, RunStatus::Running],
            limit: 1,
            ..RunFilter::default()
        };
        Ok(self.store.runs(user_id, filter).await?.into_iter().next())
    }

    async fn last_run(&self, user_id: &UserId, thread_id: &ThreadId) -> Result<RunRow, RuntimeError> {
        if self.store.thread(user_id, thread_id).await?.is_none() {
            return Err(RuntimeError::NoThread(thread_id.clone()));
        }
        let filter = RunFilter { thread_id: Some(thread_id.clone()), limit: 1, ..RunFilter::default() };
        let last = self.store.runs(user_id, filter).await?.into_iter().next();
        last.ok_or_else(|| RuntimeError::NothingToResume(thread_id.clone()))
    }

    /// Goes on with the last run of a thread: from its last step if it was cut off or stopped, with a new attempt if its
    /// model failed.
    ///
    /// # Errors
    /// [`RuntimeError::NothingToResume`] when it ended well; [`StoreError::ThreadBusy`] when it is still running elsewhere.
    pub async fn resume(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        interactive: bool,
    ) -> Result<Started, RuntimeError> {
        let last = self.last_run(user_id, thread_id).await?;
        if !last.status.is_terminal() && self.lock.is_alive(&last.worker) {
            return Err(StoreError::ThreadBusy {
                thread_id: thread_id.to_string(),
                run_id: last.run_id.to_string(),
                holder: last.worker.label,
            }
            .into());
        }
        let StoredOptions { lead: mut options, answer, .. } =
            serde_json::from_value(last.options.clone()).unwrap_or_default();
        options.interactive = interactive;
        let head = self.store.load(&Lineage::root(thread_id.clone()), None).await?;
        let begun = self.last_step(thread_id).await? == Some(last.run_id.clone());
        let done = begun && head.as_ref().is_some_and(|h| h.next == Next::Done);
        // An answer that was not accepted would not be accepted again.
        let refused = answer.is_some() && last.status == RunStatus::Error;
        if (begun || refused) && head.as_ref().is_some_and(|h| h.next == Next::Wait) {
            return Err(RuntimeError::NeedsAnswer(thread_id.clone()));
        }
        match last.status {
            _ if last.stop_reason.as_deref() == Some(ROLLED_BACK) => {
                return Err(RuntimeError::NothingToResume(thread_id.clone()));
            }
            RunStatus::Success | RunStatus::RolledBack => return Err(RuntimeError::NothingToResume(thread_id.clone())),
            // It ended with words in place of an answer: take them back and ask again, as a run of its own.
            RunStatus::Error if done => {
                let apology = head.as_ref().and_then(|h| h.state.last_ai()).filter(|m| m.flag(kwargs::ERROR_FALLBACK));
                let Some(apology) = apology else { return Err(RuntimeError::NothingToResume(thread_id.clone())) };
                let request = RunRequest {
                    user_id: user_id.clone(),
                    thread_id: thread_id.clone(),
                    message: Message::remove(apology.id()),
                    goal: None,
                    options,
                };
                return self.start(request).await;
            }
            _ if done => return Err(RuntimeError::NothingToResume(thread_id.clone())),
            _ => {}
        }
        let agent = self.harness.lead_agent(user_id, &Principal::default(), &options).await?;
        let row = self.store.adopt(&last.run_id, last.epoch, self.lock.worker()).await?;
        let start = match answer {
            _ if begun => Start::Resume,
            Some(answer) => Start::Answer(answer),
            None => Start::Input(row.input.clone()),
        };
        let handle = self.execute(row, agent, start, interactive);
        Ok(Started { handle, recovered: (!last.status.is_terminal()).then_some(last) })
    }

    /// The run that made the newest step of a thread, edits aside.
    pub(crate) async fn last_step(&self, thread_id: &ThreadId) -> Result<Option<RunId>, StoreError> {
        let lineage = Lineage::root(thread_id.clone());
        let mut before = None;
        loop {
            let page = self.store.history(&lineage, before.as_ref(), HISTORY_PAGE).await?;
            if let Some(step) = page.iter().find(|entry| entry.kind != StepKind::Edit) {
                return Ok(step.run_id.clone());
            }
            let Some(oldest) = page.last() else { return Ok(None) };
            before = Some(oldest.id.clone());
        }
    }

    /// Closes the live run of a thread if its process is dead.
    pub(crate) async fn close_dead_run(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
    ) -> Result<Option<RunRow>, RuntimeError> {
        let Some(live) = self.live_run(user_id, thread_id).await? else { return Ok(None) };
        if self.lock.is_alive(&live.worker) {
            return Ok(None);
        }
        let adopted = self.store.adopt(&live.run_id, live.epoch, self.lock.worker()).await?;
        let fence = Fence { run_id: adopted.run_id.clone(), epoch: adopted.epoch };
        let outcome = RunOutcome {
            status: RunStatus::Interrupted,
            error: Some(format!("{} ended without finishing the run", live.worker.label)),
            stop_reason: Some("orphan_recovered".into()),
            usage: live.usage.clone(),
        };
        self.store
            .finish(&fence, outcome, vec![lifecycle("run.recovered", json!({"by": self.lock.worker().label}))])
            .await?;
        Ok(Some(live))
    }

    fn execute(&self, row: RunRow, agent: deerflow_harness::LeadAgent, start: Start, interactive: bool) -> RunHandle {
        let (sink, events) = EventSink::channel(EVENT_BUFFER);
        let cancel = CancellationToken::new();
        let mut ctx =
            RunContext::new(row.user_id.clone(), row.thread_id.clone(), row.run_id.clone(), cancel.clone(), sink)
                .with_usage(row.usage.clone());
        if !interactive {
            ctx = ctx.non_interactive();
        }
        let fence = Fence { run_id: row.run_id.clone(), epoch: row.epoch };
        let model = agent.model.clone();
        let store = self.store.clone();
        #[expect(clippy::disallowed_methods, reason = "the handle owns the task and awaits it in `finished`")]
        let task = tokio::spawn(run(store, agent, ctx, fence, start));
        RunHandle { run_id: row.run_id, thread_id: row.thread_id, model, events, cancel, task }
    }
}

/// Executes an admitted run to its end, whatever that is.
async fn run<S: RuntimeStore>(
    store: Arc<S>,
    agent: deerflow_harness::LeadAgent,
    ctx: RunContext,
    fence: Fence,
    start: Start,
) -> Result<Finished, RuntimeError> {
    store.start(&fence).await?;
    // What was said to an earlier run and came too late for it.
    store.take_returned(&fence).await?;
    tracing::info!(run_id = %ctx.run_id, thread_id = %ctx.thread_id, model = agent.model, "run started");
    let log = Arc::new(RunLog::new(store.clone(), fence.clone()));
    let error = match agent.agent.with_step_log(log).run(&ctx, start).await {
        Ok(done) => {
            let (status, usage) = (done.outcome.status.as_str(), &done.outcome.usage);
            tracing::info!(run_id = %ctx.run_id, status, tokens = usage.total_tokens, "run finished");
            return Ok(Finished { outcome: done.outcome, state: done.state });
        }
        Err(error) => error,
    };
    let cancelled = error.is_cancelled();
    if cancelled {
        tracing::info!(run_id = %ctx.run_id, "run interrupted");
    } else {
        tracing::error!(run_id = %ctx.run_id, %error, "run failed");
    }
    let head = store.load(&Lineage::root(ctx.thread_id.clone()), None).await?;
    let state = Arc::new(head.map(|h| h.state).unwrap_or_default());
    let outcome = RunOutcome {
        status: if cancelled { RunStatus::Interrupted } else { RunStatus::Error },
        error: (!cancelled).then(|| error.to_string()),
        stop_reason: ctx.stop_reason(),
        usage: ctx.usage(),
    };
    if let AgentError::Store(StoreError::Fenced { .. }) = error {
        // Another process owns the run now, and its end.
        return Ok(Finished { outcome, state });
    }
    let mut rows = ctx.take_decisions();
    rows.extend(JournalRows::ended(&outcome, None));
    store.finish(&fence, outcome.clone(), rows).await?;
    Ok(Finished { outcome, state })
}

pub(crate) fn lifecycle(event: &str, content: Value) -> NewJournalRow {
    NewJournalRow::new("lifecycle", event, content)
}
