//! The loop. A run is a sequence of steps, each committed before the next begins.

use crate::context::SideUsage;
use crate::middleware::{Flow, Hook, JumpTarget, Middleware};
use crate::model_turn::has_open_calls;
use crate::{Agent, RunContext};
use deerflow_core::ports::{NewJournalRow, OpenEffect, RunOutcome, StepCommit, StepKind};
use deerflow_core::run::Next;
use deerflow_core::{
    AgentError, AgentEvent, CheckpointId, INTERRUPT_SLOT, Interrupt, Lineage, Message, NodeUpdate, RunStatus,
    StateUpdate, ThreadState, Usage, ids, message::kwargs,
};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// How a run begins.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "made once per run")]
pub enum Start {
    /// With this input, on top of whatever the thread holds.
    Input(StateUpdate),
    /// Where the last committed step left off.
    Resume,
    /// With a person's answer to the open questions: one value for all, or an object from question id to value.
    Answer(Value),
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// State at the end.
    pub state: Arc<ThreadState>,
    /// What was written as the run's outcome.
    pub outcome: RunOutcome,
    /// Last checkpoint.
    pub checkpoint_id: Option<CheckpointId>,
}

/// A run in progress.
pub(crate) struct Run<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) ctx: &'a RunContext,
    pub(crate) lineage: Lineage,
    pub(crate) state: Arc<ThreadState>,
    pub(crate) head: Option<CheckpointId>,
    pub(crate) open_effects: Vec<OpenEffect>,
    pub(crate) turns: u32,
    next: Next,
    step: u64,
    usage: Usage,
}

impl<'a> Run<'a> {
    /// Takes up the thread where its last step left it.
    pub(crate) async fn open(agent: &'a Agent, ctx: &'a RunContext) -> Result<Run<'a>, AgentError> {
        let lineage = Lineage { thread_id: ctx.thread_id.clone(), namespace: ctx.namespace.clone() };
        let head = agent.log.load(&lineage, None).await?;
        let mut run = Self {
            agent,
            ctx,
            lineage,
            state: Arc::default(),
            head: None,
            open_effects: Vec::new(),
            turns: 0,
            next: Next::Done,
            step: 0,
            usage: ctx.usage(),
        };
        if let Some(head) = head {
            run.state = Arc::new(head.state);
            run.head = Some(head.id);
            run.open_effects = head.open_effects;
            run.next = head.next;
            run.step = head.step + 1;
        }
        Ok(run)
    }

    /// The loop.
    pub(crate) async fn drive(mut self, start: Start) -> Result<Outcome, AgentError> {
        match start {
            Start::Input(input) => self.input(input).await?,
            Start::Answer(answer) => self.answer(&answer).await?,
            Start::Resume => {}
        }
        // A run that goes on where another paused does not pause there again.
        let mut passing = self.ctx.stops.pass_first;
        loop {
            self.ctx.check_cancelled()?;
            if !std::mem::take(&mut passing) && self.ctx.stops.pause_before(self.next) {
                return Ok(self.paused().await);
            }
            let node = self.next;
            match self.next {
                Next::Model => self.model_turn().await?,
                Next::Tools => self.tool_batch().await?,
                Next::Wait => return Ok(self.waiting()),
                Next::End | Next::Done => {
                    if let Some(outcome) = self.end().await? {
                        return Ok(Outcome { outcome, state: self.state, checkpoint_id: self.head });
                    }
                }
            }
            if self.ctx.stops.pause_after(node, self.next) {
                return Ok(self.paused().await);
            }
        }
    }

    /// Applies the input and runs `before_agent`: one step, so that the user's words are durable before anything is done.
    async fn input(&mut self, input: StateUpdate) -> Result<(), AgentError> {
        let mut step = Step::default();
        // A batch that was interrupted is answered first: its calls must not dangle in front of the new message.
        if matches!(self.next, Next::Tools | Next::Wait) {
            let mut settled = self.settle_interrupted_batch();
            settled.private.insert(INTERRUPT_SLOT.to_owned(), Value::Null);
            step.write(&mut self.state, "tools", settled)?;
        }
        step.write(&mut self.state, "__input__", input)?;
        let jump = self.hooks(&mut step, Phase::BeforeAgent).await?;
        let next = target(jump).unwrap_or(Next::Model);
        self.commit(StepKind::Input, next, step, None).await
    }

    /// Hands a person's answer to those who asked: one step, from which the run goes on.
    async fn answer(&mut self, answer: &Value) -> Result<(), AgentError> {
        let open = self.state.interrupts();
        if self.next != Next::Wait || open.is_empty() {
            return Err(AgentError::NotWaiting);
        }
        let by_id =
            answer.as_object().filter(|map| !map.is_empty() && map.keys().all(|k| open.iter().any(|q| q.id == *k)));
        let mut step = Step::default();
        let mut jump = None;
        for question in &open {
            let answer = by_id.map_or(answer, |map| map.get(&question.id).unwrap_or(&Value::Null));
            let Some(middleware) = self.agent.chain.iter().find(|m| m.name() == question.node) else { continue };
            let Hook { update, flow } = middleware.on_answer(self.ctx, &self.state, question, answer).await?;
            step.write(&mut self.state, &question.node, update)?;
            if let Flow::JumpTo(target) = flow {
                jump = Some(target);
            }
        }
        let closed = StateUpdate { private: [(INTERRUPT_SLOT.to_owned(), Value::Null)].into(), ..StateUpdate::none() };
        step.write(&mut self.state, "__input__", closed)?;
        let next = match target(jump) {
            Some(next) => next,
            None if has_open_calls(&self.state) => Next::Tools,
            None if self.state.messages.last().is_some_and(|m| m.as_ai().is_some()) => Next::End,
            None => Next::Model,
        };
        self.commit(StepKind::Input, next, step, None).await
    }

    /// How a run stands that waits for a person.
    fn waiting(self) -> Outcome {
        Outcome { outcome: self.interrupted(), state: self.state, checkpoint_id: self.head }
    }

    /// How a run stands that was asked to pause here. Its end is not written: whoever goes on begins with the next node.
    async fn paused(self) -> Outcome {
        self.ctx.events.send(AgentEvent::Interrupted(Vec::new())).await;
        self.waiting()
    }

    /// The outcome of a run that stopped with a question.
    pub(crate) fn interrupted(&self) -> RunOutcome {
        RunOutcome {
            status: RunStatus::Interrupted,
            error: None,
            stop_reason: self.ctx.stop_reason(),
            usage: self.usage.clone(),
        }
    }

    /// Runs `after_agent` and writes how the run ended, or that it goes on: `None`.
    async fn end(&mut self) -> Result<Option<RunOutcome>, AgentError> {
        let mut step = Step::default();
        let jump = self.hooks(&mut step, Phase::AfterAgent).await?;
        if jump == Some(JumpTarget::Model) && self.turns < self.agent.max_turns {
            self.commit(StepKind::End, Next::Model, step, None).await?;
            return Ok(None);
        }
        let failed = self.state.last_ai().filter(|m| m.flag(kwargs::ERROR_FALLBACK));
        let outcome = RunOutcome {
            status: if failed.is_some() { RunStatus::Error } else { RunStatus::Success },
            error: failed.map(|m| m.text().into_owned()),
            stop_reason: self.ctx.stop_reason(),
            usage: self.usage.clone(),
        };
        self.commit(StepKind::End, Next::Done, step, Some(outcome.clone())).await?;
        let outcome = RunOutcome { usage: self.usage.clone(), ..outcome };
        Ok(Some(if self.next == Next::Wait { self.interrupted() } else { outcome }))
    }

    /// Runs one phase of hooks; a jump skips those that remain.
    pub(crate) async fn hooks(&mut self, step: &mut Step, phase: Phase) -> Result<Option<JumpTarget>, AgentError> {
        let forward = matches!(phase, Phase::BeforeAgent | Phase::BeforeModel);
        let count = self.agent.chain.len();
        for position in 0..count {
            let middleware = &self.agent.chain[if forward { position } else { count - 1 - position }];
            let Hook { update, flow } = phase.call(middleware.as_ref(), self.ctx, &self.state).await?;
            if !update.is_empty() {
                step.write(&mut self.state, &format!("{}.{}", middleware.name(), phase.as_str()), update)?;
            }
            match flow {
                Flow::Continue => {}
                Flow::JumpTo(target) => return Ok(Some(target)),
                Flow::Interrupt(value) => step.questions.push(Interrupt {
                    id: ids::interrupt_id(),
                    value,
                    node: middleware.name().to_owned(),
                }),
            }
        }
        Ok(None)
    }

    /// Makes a step durable, then tells the outside.
    pub(crate) async fn commit(
        &mut self,
        kind: StepKind,
        mut next: Next,
        mut step: Step,
        mut outcome: Option<RunOutcome>,
    ) -> Result<(), AgentError> {
        let mut events = Vec::new();
        for update in &step.updates {
            for message in update.update.messages.iter().filter(|_| update.node == "model") {
                if let Some(usage) = message.as_ai().and_then(|part| part.usage_metadata.as_ref()) {
                    self.usage.add(usage);
                    let model = &self.agent.model.info().name;
                    let caller = match self.ctx.namespace.as_str() {
                        "" => "lead_agent".to_owned(),
                        namespace => format!("subagent:{namespace}"),
                    };
                    events.push(used(&caller, model, usage));
                }
            }
        }
        for SideUsage { source, model, usage } in self.ctx.take_side_usage() {
            tracing::debug!(source, tokens = usage.total_tokens, "model call of a middleware");
            self.usage.add(&usage);
            events.push(used(source, &model, &usage));
        }
        self.ctx.count(self.usage.clone());
        if let Some(outcome) = &mut outcome {
            // Calls that the last hooks made included.
            outcome.usage = self.usage.clone();
        }
        let questions = std::mem::take(&mut step.questions);
        if !questions.is_empty() {
            let open = json!(questions);
            let slot = StateUpdate { private: [(INTERRUPT_SLOT.to_owned(), open)].into(), ..StateUpdate::none() };
            step.write(&mut self.state, INTERRUPT_SLOT, slot)?;
            next = Next::Wait;
            outcome = Some(self.interrupted());
        }
        let decisions = self.ctx.take_decisions();
        let events = events.into_iter().chain(decisions.iter().cloned()).collect();
        let commit = StepCommit { updates: step.updates.clone(), events, outcome, ..self.commit_base(kind, next) };
        let committed = self.agent.log.commit(commit).await.inspect_err(|_| self.ctx.restore_decisions(decisions))?;
        let parent = self.head.clone();
        let number = self.step;
        self.head = committed.checkpoint_id.or(self.head.take());
        self.open_effects.clear();
        self.next = next;
        self.step += 1;
        for (at, update) in step.updates.into_iter().enumerate() {
            for message in update.update.messages.iter().filter(|m| !step.kept.contains(&(at, address(m)))) {
                self.ctx.events.send(AgentEvent::Message(message.clone())).await;
            }
            self.ctx.events.send(AgentEvent::Update(Arc::new(update))).await;
        }
        if let Some(checkpoint_id) = self.head.clone() {
            let event = AgentEvent::Committed {
                checkpoint_id,
                parent,
                kind,
                step: number,
                next,
                state: self.state.clone(),
                seqs: committed.seqs,
                seq: committed.last_seq,
                usage: self.usage.clone(),
            };
            self.ctx.events.send(event).await;
        }
        if !questions.is_empty() {
            self.ctx.events.send(AgentEvent::Interrupted(questions)).await;
        }
        Ok(())
    }

    /// A commit of the coming step with nothing in it yet.
    pub(crate) fn commit_base(&self, kind: StepKind, next: Next) -> StepCommit {
        StepCommit {
            lineage: self.lineage.clone(),
            run_id: Some(self.ctx.run_id.clone()),
            parent: self.head.clone(),
            branch: false,
            fence: None,
            kind,
            step: self.step,
            next,
            updates: Vec::new(),
            state: self.state.clone(),
            effects: Vec::new(),
            events: Vec::new(),
            outcome: None,
        }
    }
}

/// Writes of the step being made.
#[derive(Default)]
pub(crate) struct Step {
    pub(crate) updates: Vec<NodeUpdate>,
    /// By update: messages that a replacement of the whole conversation has only kept, and its markers. Nothing to tell anybody.
    kept: HashSet<(usize, usize)>,
    /// Questions to a person; the run stops with this step when there are any.
    pub(crate) questions: Vec<Interrupt>,
}

impl Step {
    /// Applies one node's write to the state and keeps it for the commit. Messages get their ids here, so that the log
    /// replays to the very same state.
    pub(crate) fn write(
        &mut self,
        state: &mut Arc<ThreadState>,
        node: &str,
        mut update: StateUpdate,
    ) -> Result<(), AgentError> {
        assign_ids(&mut update);
        if update.messages.iter().any(|m| m.is_remove_all()) {
            let known: HashSet<usize> = state.messages.iter().map(address).collect();
            let kept = update.messages.iter().filter(|m| m.is_remove_all() || known.contains(&address(m)));
            let at = self.updates.len();
            self.kept.extend(kept.map(|m| (at, address(m))));
        }
        Arc::make_mut(state).apply(&update)?;
        self.updates.push(NodeUpdate { node: node.to_owned(), update });
        Ok(())
    }
}

/// The journal row by which a model call is counted.
fn used(caller: &str, model: &str, usage: &Usage) -> NewJournalRow {
    let row = NewJournalRow::new("trace", "llm.usage", Value::Null).with("caller", caller).with("model", model);
    row.with("usage", json!(usage))
}

/// Tells messages apart that are alive.
fn address(message: &Arc<Message>) -> usize {
    Arc::as_ptr(message).addr()
}

/// Gives every message of an update an id.
pub(crate) fn assign_ids(update: &mut StateUpdate) {
    for message in update.messages.iter_mut().filter(|m| m.id.is_none()) {
        Arc::make_mut(message).ensure_id();
    }
}

pub(crate) fn target(jump: Option<JumpTarget>) -> Option<Next> {
    jump.map(|target| match target {
        JumpTarget::Model => Next::Model,
        JumpTarget::Tools => Next::Tools,
        JumpTarget::End => Next::End,
    })
}

/// A phase of hooks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Phase {
    BeforeAgent,
    BeforeModel,
    AfterModel,
    AfterAgent,
}

impl Phase {
    fn as_str(self) -> &'static str {
        match self {
            Self::BeforeAgent => "before_agent",
            Self::BeforeModel => "before_model",
            Self::AfterModel => "after_model",
            Self::AfterAgent => "after_agent",
        }
    }
    async fn call(
        self,
        middleware: &dyn Middleware,
        ctx: &RunContext,
        state: &ThreadState,
    ) -> Result<Hook, AgentError> {
        match self {
            Self::BeforeAgent => middleware.before_agent(ctx, state).await,
            Self::BeforeModel => middleware.before_model(ctx, state).await,
            Self::AfterModel => middleware.after_model(ctx, state).await,
            Self::AfterAgent => middleware.after_agent(ctx, state).await,
        }
    }
}
