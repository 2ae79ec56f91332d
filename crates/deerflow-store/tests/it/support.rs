//! What the tests share.

use deerflow_core::ports::{
    Committed, Fence, NewJournalRow, NewRun, RunOutcome, RunRepo as _, RunRow, StepCommit, StepKind, StepLog as _,
    Worker,
};
use deerflow_core::run::Next;
use deerflow_core::{
    CheckpointId, Lineage, NodeUpdate, RunId, RunStatus, StateUpdate, StoreError, ThreadId, ThreadState, Usage, UserId,
};
use deerflow_store::{SqliteStore, StoreOptions};
use serde_json::{Value, json};
use sqlx::{ConnectOptions as _, SqliteConnection};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// A store in a folder that goes away with it.
pub(crate) struct Home {
    pub(crate) store: SqliteStore,
    pub(crate) path: PathBuf,
    pub(crate) folder: TempDir,
}

pub(crate) async fn home() -> Home {
    home_with(StoreOptions::default()).await
}

pub(crate) async fn home_with(options: StoreOptions) -> Home {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data").join("deerflow.db");
    let store = SqliteStore::open(&path, options).await.unwrap();
    Home { store, path, folder }
}

/// A second connection, to look at rows.
pub(crate) async fn raw(path: &std::path::Path) -> SqliteConnection {
    sqlx::sqlite::SqliteConnectOptions::new().filename(path).connect().await.unwrap()
}

pub(crate) async fn count(path: &std::path::Path, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(&mut raw(path).await).await.unwrap()
}

pub(crate) fn thread_id(name: &str) -> ThreadId {
    ThreadId::parse(name).unwrap()
}

pub(crate) fn worker(name: &str) -> Worker {
    Worker { id: name.to_owned(), label: format!("process 1 on host {name}") }
}

pub(crate) fn new_run(thread: &str) -> NewRun {
    NewRun {
        run_id: RunId::random(),
        thread_id: thread_id(thread),
        user_id: UserId::local(),
        worker: worker("alpha"),
        input: StateUpdate::messages([deerflow_core::Message::human("hello").with_id("in")]),
        options: json!({"model": "m"}),
        idempotency_key: None,
    }
}

pub(crate) fn fence(run: &RunRow) -> Fence {
    Fence { run_id: run.run_id.clone(), epoch: run.epoch }
}

pub(crate) fn outcome(status: RunStatus) -> RunOutcome {
    RunOutcome { status, error: None, stop_reason: None, usage: Usage::new(10, 5) }
}

pub(crate) fn event(content: Value) -> NewJournalRow {
    NewJournalRow::new("message", "message", content)
}

pub(crate) fn frame(node: &str, update: StateUpdate) -> NodeUpdate {
    NodeUpdate { node: node.to_owned(), update }
}

/// A run that commits steps as the kernel does, with the state it expects.
pub(crate) struct Driver {
    pub(crate) lineage: Lineage,
    pub(crate) run_id: Option<RunId>,
    pub(crate) fence: Option<Fence>,
    pub(crate) parent: Option<CheckpointId>,
    pub(crate) step: u64,
    pub(crate) state: ThreadState,
}

impl Driver {
    /// Without a run.
    pub(crate) fn bare(thread: &str) -> Self {
        Self {
            lineage: Lineage::root(thread_id(thread)),
            run_id: None,
            fence: None,
            parent: None,
            step: 0,
            state: ThreadState::default(),
        }
    }

    pub(crate) async fn admitted(store: &SqliteStore, thread: &str) -> Self {
        let row = store.admit(new_run(thread)).await.unwrap();
        let mut driver = Self::bare(thread);
        driver.under(&row);
        driver
    }

    pub(crate) fn under(&mut self, row: &RunRow) {
        self.run_id = Some(row.run_id.clone());
        self.fence = Some(fence(row));
    }

    /// The commit of a step, as it would be made now. The expected state is moved on.
    pub(crate) fn commit(&mut self, kind: StepKind, next: Next, updates: Vec<NodeUpdate>) -> StepCommit {
        if kind == StepKind::Tools {
            self.state.apply_concurrent(updates.iter().map(|update| &update.update)).unwrap();
        } else {
            for update in &updates {
                self.state.apply(&update.update).unwrap();
            }
        }
        StepCommit {
            lineage: self.lineage.clone(),
            run_id: self.run_id.clone(),
            parent: self.parent.clone(),
            branch: false,
            fence: self.fence.clone(),
            kind,
            step: self.step,
            next,
            updates,
            state: Arc::new(self.state.clone()),
            effects: Vec::new(),
            events: Vec::new(),
            outcome: None,
        }
    }

    pub(crate) async fn send(&mut self, store: &SqliteStore, commit: StepCommit) -> Result<Committed, StoreError> {
        let kind = commit.kind;
        let committed = store.commit(commit).await?;
        if kind != StepKind::Effects {
            self.parent = committed.checkpoint_id.clone();
            self.step += 1;
        }
        Ok(committed)
    }

    pub(crate) async fn step(
        &mut self,
        store: &SqliteStore,
        kind: StepKind,
        next: Next,
        update: StateUpdate,
    ) -> CheckpointId {
        let commit = self.commit(kind, next, vec![frame("node", update)]);
        self.send(store, commit).await.unwrap().checkpoint_id.unwrap()
    }

    /// Ends the run well.
    pub(crate) async fn end(&mut self, store: &SqliteStore, status: RunStatus) -> CheckpointId {
        let mut commit = self.commit(StepKind::End, Next::Done, Vec::new());
        commit.outcome = Some(outcome(status));
        self.send(store, commit).await.unwrap().checkpoint_id.unwrap()
    }
}
