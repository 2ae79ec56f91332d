//! Runs to be told: steps as the kernel makes them, with a journal behind them.

use crate::bridge::{Bridge, ReplayStore, RunEvent, RunStream};
use async_trait::async_trait;
use deerflow_core::ports::{Checkpoint, JournalRow, NewJournalRow, StepKind};
use deerflow_core::run::Next;
use deerflow_core::{
    AgentEvent, CheckpointId, Message, MessageDelta, NodeUpdate, RunId, RunStatus, StateUpdate, StoreError, ThreadId,
    ThreadState, Usage,
};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// A journal in memory.
#[derive(Debug)]
pub(super) struct Journal {
    rows: Mutex<Vec<JournalRow>>,
    head: Mutex<Option<Checkpoint>>,
    status: Mutex<RunStatus>,
}

#[async_trait]
impl ReplayStore for Journal {
    async fn rows(&self, _: &ThreadId, run_id: &RunId, after: u64, limit: u32) -> Result<Vec<JournalRow>, StoreError> {
        let rows = self.rows.lock().unwrap();
        let found = rows.iter().filter(|row| row.seq > after && row.run_id == *run_id).take(limit as usize);
        Ok(found.cloned().collect())
    }
    async fn status(&self, _: &RunId) -> Result<Option<RunStatus>, StoreError> {
        Ok(Some(*self.status.lock().unwrap()))
    }
    async fn last_checkpoint(&self, _: &ThreadId, _: &RunId) -> Result<Option<Checkpoint>, StoreError> {
        Ok(self.head.lock().unwrap().clone())
    }
}

/// A step of a script.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Input,
    /// Deltas of an attempt that failed, if any, and of the one that counts.
    Model {
        lost: Option<usize>,
        deltas: usize,
    },
    Tools(usize),
}

/// One thing a process does.
enum Act {
    Tell(Box<AgentEvent>),
    /// Makes a step durable.
    Store(Box<(Vec<Message>, String, StepKind)>),
}

/// A run that processes execute, one after another when they crash.
pub(super) struct Runner {
    pub(super) bridge: Bridge,
    pub(super) stream: Arc<RunStream>,
    pub(super) journal: Arc<Journal>,
    pub(super) run_id: RunId,
    pub(super) thread_id: ThreadId,
    pub(super) state: ThreadState,
    steps: VecDeque<Step>,
    acts: VecDeque<Act>,
    stored: u64,
    life: u64,
    over: bool,
}

impl Runner {
    /// A run of these steps; `before` rows of an earlier run stand in the journal.
    pub(super) fn new(bridge: Bridge, steps: Vec<Step>, before: u64) -> Self {
        let (run_id, thread_id) = (RunId::random(), ThreadId::parse("t").unwrap());
        let earlier = RunId::random();
        let rows =
            (1..=before).map(|seq| row(seq, &earlier, &Message::human("old").with_id(format!("old-{seq}")), "x"));
        let journal = Journal {
            rows: Mutex::new(rows.collect()),
            head: Mutex::new(None),
            status: Mutex::new(RunStatus::Running),
        };
        let stream = bridge.open(&run_id, &thread_id);
        stream.publish(RunEvent::Metadata { run_id: run_id.clone(), thread_id: thread_id.clone() });
        Self {
            bridge,
            stream,
            journal: Arc::new(journal),
            run_id,
            thread_id,
            state: ThreadState::default(),
            steps: steps.into(),
            acts: VecDeque::new(),
            stored: 0,
            life: 0,
            over: false,
        }
    }

    /// Does one thing; `false` when the run is over.
    pub(super) fn act(&mut self) -> bool {
        if self.acts.is_empty() {
            let Some(step) = self.steps.front().cloned() else {
                if !self.over {
                    *self.journal.status.lock().unwrap() = RunStatus::Success;
                    self.stream.close();
                    self.over = true;
                }
                return false;
            };
            self.acts = self.plan(&step).into();
        }
        match self.acts.pop_front().unwrap() {
            Act::Tell(event) => self.stream.publish(*event),
            Act::Store(step) => {
                let (messages, node, kind) = *step;
                self.store(messages, &node, kind);
            }
        }
        true
    }

    /// The process dies; another one goes on after the last durable step.
    pub(super) fn crash(&mut self, bridge: Bridge) {
        if self.over {
            return;
        }
        self.acts.clear();
        self.life += 1;
        self.bridge = bridge;
        let seq = self.rows().last().map_or(0, |row| row.seq);
        self.stream = self.bridge.resume(&self.run_id, &self.thread_id, seq, self.life);
        let (run_id, thread_id) = (self.run_id.clone(), self.thread_id.clone());
        self.stream.publish(RunEvent::Metadata { run_id, thread_id });
    }

    /// Rows of the run.
    pub(super) fn rows(&self) -> Vec<JournalRow> {
        self.journal.rows.lock().unwrap().iter().filter(|row| row.run_id == self.run_id).cloned().collect()
    }

    fn plan(&self, step: &Step) -> Vec<Act> {
        let number = self.stored;
        let id = |what: &str| format!("{what}-{number}-{}", self.life);
        let tell = |event: AgentEvent| Act::Tell(Box::new(event));
        let mut acts = vec![tell(AgentEvent::Custom(json!({"step": number, "life": self.life})))];
        let attempt = |acts: &mut Vec<Act>, message_id: &str, deltas: usize| {
            let message_id = message_id.to_owned();
            acts.push(tell(AgentEvent::ModelStarted { message_id: message_id.clone(), model: "m".into() }));
            for n in 0..deltas {
                let delta = MessageDelta::text(format!("<{n}>"));
                acts.push(tell(AgentEvent::ModelDelta { message_id: message_id.clone(), delta }));
            }
        };
        let (messages, node, kind) = match step {
            Step::Input => (vec![Message::human("hi").with_id(id("in"))], "Memory.before_agent", StepKind::Input),
            Step::Model { lost, deltas } => {
                if let Some(lost) = lost {
                    attempt(&mut acts, &id("void"), *lost);
                    acts.push(tell(AgentEvent::ModelDiscarded { message_id: id("void") }));
                }
                attempt(&mut acts, &id("ai"), *deltas);
                let text: String = (0..*deltas).map(|n| format!("<{n}>")).collect();
                (vec![Message::ai(text).with_id(id("ai"))], "model", StepKind::Model)
            }
            Step::Tools(count) => {
                let result = |n| Message::tool("r", format!("c{n}"), "t").with_id(id(&format!("tool{n}")));
                ((0..*count).map(result).collect(), "tools", StepKind::Tools)
            }
        };
        acts.push(Act::Store(Box::new((messages, node.to_owned(), kind))));
        acts
    }

    /// Commits, then plans to tell it: a process may die in between.
    fn store(&mut self, messages: Vec<Message>, node: &str, kind: StepKind) {
        let update = StateUpdate::messages(messages);
        self.state.apply(&update).unwrap();
        let id = CheckpointId::next();
        let mut rows = self.journal.rows.lock().unwrap();
        let mut seqs = Vec::new();
        for message in &update.messages {
            let seq = rows.len() as u64 + 1;
            rows.push(row(seq, &self.run_id, message, node));
            seqs.push(seq);
        }
        // A row that is no message.
        let seq = rows.len() as u64 + 1;
        let note = NewJournalRow::new("trace", "step", json!({}));
        rows.push(JournalRow { seq, run_id: self.run_id.clone(), created_at: 0, row: note });
        seqs.push(seq);
        drop(rows);
        *self.journal.head.lock().unwrap() = Some(Checkpoint {
            id: id.clone(),
            parent: None,
            run_id: Some(self.run_id.clone()),
            kind,
            step: self.stored,
            next: Next::Model,
            created_at: 0,
            state: self.state.clone(),
            open_effects: vec![],
        });
        let tell = |event| Act::Tell(Box::new(event));
        self.acts.extend(update.messages.iter().map(|message| tell(AgentEvent::Message(message.clone()))));
        self.acts.push_back(tell(AgentEvent::Update(Arc::new(NodeUpdate { node: node.to_owned(), update }))));
        self.acts.push_back(tell(AgentEvent::Committed {
            checkpoint_id: id,
            parent: None,
            kind,
            step: self.stored,
            next: Next::Model,
            state: Arc::new(self.state.clone()),
            seqs,
            seq,
            usage: Usage::default(),
        }));
        self.stored += 1;
        self.steps.pop_front();
    }
}

fn row(seq: u64, run_id: &RunId, message: &Message, node: &str) -> JournalRow {
    let content = json!({"node": node, "message": message});
    let row = NewJournalRow::new("message", format!("{}.message", message.role()), content);
    JournalRow { seq, run_id: run_id.clone(), created_at: 0, row }
}
