//! Changes of a thread's state from outside a run: a client's edit, and a run taken back.
//!
//! Both are commits like any other. An edit of an older checkpoint, and a rollback, are branches: they move the head and
//! delete nothing.

use deerflow_core::ports::{
    Checkpoint, Committed, EventRepo, Fence, NewJournalRow, ROLLED_BACK, RunFilter, RunOutcome, RunRepo, RunRow,
    StepCommit, StepKind, StepLog, ThreadRepo,
};
use deerflow_core::run::Next;
use deerflow_core::{
    Channel, CheckpointId, Lineage, Message, NodeUpdate, RunId, RunStatus, StateError, StateUpdate, StoreError,
    ThreadId, ThreadState, ToolCall, Usage, UserId,
};
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;

/// Writer of an edit that names none.
const EDITOR: &str = "manual_state_update";
/// How often an edit of the head is made again when another one came first.
const ATTEMPTS: usize = 3;
/// Runs looked through for the last one that stands.
const RUNS: u32 = 1000;
/// Checkpoints looked through at a time for the beginning of a run.
const PAGE: u32 = 100;
/// Error text of a run that was taken back, as clients know it.
pub(crate) const ROLLED_BACK_TEXT: &str = "Rolled back by user";

/// Journal row of a run that began at another checkpoint than the head; its content names the head it left.
pub(crate) const BRANCHED: &str = "run.branched";

/// A state cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// Storage failed, there is no such thread, run or checkpoint, or a run is live on the thread.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A reducer refused the write.
    #[error(transparent)]
    State(#[from] StateError),
    /// `as_node` names nothing that writes.
    #[error(
        "there is no node {0:?}; hint: use `model`, `tools`, `__input__`, `__end__` or a hook like `TitleMiddleware.after_model`"
    )]
    UnknownNode(String),
    /// A later run stands on the one to be taken back.
    #[error("run {run_id} is not the last of its thread: {last} came later; take that one back first")]
    NotLast {
        /// The run to be taken back.
        run_id: RunId,
        /// The last one.
        last: RunId,
    },
}

/// A client's edit of a thread's state.
#[derive(Debug, Clone, Default)]
pub struct StateEdit {
    /// The checkpoint to edit; the head when absent.
    pub at: Option<CheckpointId>,
    /// Refuses the edit unless this is the head: it was made for that state and no other.
    pub head: Option<CheckpointId>,
    /// In whose name it is made. The thread goes on with what follows that node; where it stood when absent.
    pub as_node: Option<String>,
    /// What to write.
    pub update: StateUpdate,
    /// Puts the values in place of those that are there, where a reducer would fold them together.
    pub replace: bool,
}

/// Edits the state of a thread.
///
/// # Errors
/// [`StoreError::ThreadBusy`] while a run is live on it; [`StoreError::NotFound`] for thread or checkpoint;
/// [`EditError::UnknownNode`]; [`EditError::State`] when a reducer refuses; [`StoreError::StaleParent`] when the head is not
/// [`StateEdit::head`]. Nothing is written then.
pub async fn update_state<S: StepLog + ThreadRepo>(
    store: &S,
    user_id: &UserId,
    thread_id: &ThreadId,
    edit: StateEdit,
) -> Result<Committed, EditError> {
    if store.thread(user_id, thread_id).await?.is_none() {
        return Err(StoreError::NotFound { what: "thread", id: thread_id.to_string() }.into());
    }
    let node = edit.as_node.clone().unwrap_or_else(|| EDITOR.to_owned());
    let mut updates = Vec::new();
    if edit.replace {
        let remove = edit.update.written().into_iter().filter(|channel| channel.has_reducer()).collect();
        updates.push(NodeUpdate { node: node.clone(), update: StateUpdate { remove, ..StateUpdate::none() } });
    }
    let mut update = edit.update;
    for message in update.messages.iter_mut().filter(|message| message.id.is_none()) {
        Arc::make_mut(message).ensure_id();
    }
    updates.push(NodeUpdate { node: node.clone(), update });

    let lineage = Lineage::root(thread_id.clone());
    let mut attempt = 0;
    loop {
        attempt += 1;
        let base = store.load(&lineage, edit.at.as_ref()).await?;
        if let Some(head) = &edit.head
            && base.as_ref().map(|base| &base.id) != Some(head)
        {
            let (thread_id, parent) = (thread_id.to_string(), head.to_string());
            return Err(StoreError::StaleParent { thread_id, parent }.into());
        }
        let mut state = base.as_ref().map(|base| base.state.clone()).unwrap_or_default();
        for update in &updates {
            state.apply(&update.update)?;
        }
        let next = match &edit.as_node {
            Some(node) => next_after(node, &state)?,
            None => match base.as_ref().map_or(Next::Done, |base| base.next) {
                // The edit has answered the calls, or taken them away.
                Next::Tools if open_calls(&state).is_empty() => Next::Model,
                next => next,
            },
        };
        let channels: Vec<Channel> = updates.iter().flat_map(|update| update.update.written()).collect();
        let event = NewJournalRow::new(
            "lifecycle",
            "state.edit",
            json!({"node": node, "channels": channels, "checkpoint_id": base.as_ref().map(|base| &base.id)}),
        );
        let commit = StepCommit {
            branch: edit.at.is_some(),
            next,
            updates: updates.clone(),
            state: Arc::new(state),
            events: vec![event],
            ..commit(&lineage, base.as_ref())
        };
        match store.commit(commit).await {
            // Somebody else's edit came first: this one is made on top of it.
            Err(StoreError::StaleParent { .. }) if attempt < ATTEMPTS => {}
            committed => return Ok(committed?),
        }
    }
}

/// Takes the last run of a thread back (of those that are not taken back already): the state before it becomes the head again. The run's row says so
/// ([`ROLLED_BACK`]); its checkpoints stay in the history. Doing it twice changes nothing more.
///
/// A tool batch that was cut off before the run is answered as of unknown outcome, since what became of it is not known any
/// more.
///
/// # Errors
/// [`StoreError::NotFound`]; [`StoreError::ThreadBusy`] while a run of the thread is live, this one included;
/// [`EditError::NotLast`].
pub async fn rollback_run<S: StepLog + RunRepo + EventRepo>(
    store: &S,
    user_id: &UserId,
    run_id: &RunId,
) -> Result<Committed, EditError> {
    let run = store.run(run_id).await?.filter(|run| run.user_id == *user_id);
    let Some(run) = run else { return Err(StoreError::NotFound { what: "run", id: run_id.to_string() }.into()) };
    let lineage = Lineage::root(run.thread_id.clone());
    let filter = RunFilter { thread_id: Some(run.thread_id.clone()), limit: RUNS, ..RunFilter::default() };
    let runs = store.runs(user_id, filter).await?;
    let standing = runs.into_iter().find(|run| run.stop_reason.as_deref() != Some(ROLLED_BACK));
    let last = standing.unwrap_or_else(|| run.clone());
    if !last.status.is_terminal() {
        let (thread_id, run_id) = (run.thread_id.to_string(), last.run_id.to_string());
        return Err(StoreError::ThreadBusy { thread_id, run_id, holder: last.worker.label }.into());
    }
    if run.stop_reason.as_deref() == Some(ROLLED_BACK) {
        let head = store.history(&lineage, None, 1).await?.pop();
        return Ok(Committed { checkpoint_id: head.map(|head| head.id), seqs: Vec::new(), last_seq: 0 });
    }
    if last.run_id != run.run_id {
        return Err(EditError::NotLast { run_id: run.run_id, last: last.run_id });
    }
    let base = match branched_from(store, &run).await? {
        Some(head) => head,
        None => before_run(store, &lineage, &run).await?,
    };
    let commit = taken_back(store, &lineage, &run, base, run.usage.clone()).await?;
    Ok(store.commit(commit).await?)
}

/// Takes back a run that is live and ours, and ends it with that: one write, so that no other run gets in between.
///
/// # Errors
/// [`StoreError::Fenced`] when it is not ours any more.
pub(crate) async fn rollback_owned<S: StepLog + EventRepo>(
    store: &S,
    run: &RunRow,
    fence: &Fence,
    usage: Usage,
) -> Result<RunOutcome, EditError> {
    let lineage = Lineage::root(run.thread_id.clone());
    let base = match branched_from(store, run).await? {
        // It began elsewhere than at the head: the head it left is what was there before it.
        Some(head) => head,
        None => before_run(store, &lineage, run).await?,
    };
    let commit = taken_back(store, &lineage, run, base, usage).await?;
    let outcome = commit.outcome.clone().unwrap_or_else(|| rolled_back(Usage::default()));
    store.commit(StepCommit { fence: Some(fence.clone()), ..commit }).await?;
    Ok(outcome)
}

/// The head that a run left when it began at another checkpoint. `Some(None)` for a thread that was empty.
async fn branched_from<S: EventRepo>(store: &S, run: &RunRow) -> Result<Option<Option<CheckpointId>>, StoreError> {
    /// The row is one of the first of its run.
    const FIRST_ROWS: u32 = 20;
    let rows = store.journal(&run.thread_id, Some(&run.run_id), 0, FIRST_ROWS).await?;
    let Some(row) = rows.into_iter().find(|row| row.row.event == BRANCHED) else { return Ok(None) };
    let head = row.row.content.get("head").cloned().unwrap_or_default();
    let head = serde_json::from_value(head).map_err(|error| StoreError::Damaged(error.to_string()))?;
    Ok(Some(head))
}

/// The edit that takes a run back to `base`.
async fn taken_back<S: StepLog>(
    store: &S,
    lineage: &Lineage,
    run: &RunRow,
    base: Option<CheckpointId>,
    usage: Usage,
) -> Result<StepCommit, EditError> {
    let base = match base {
        None => None,
        Some(id) => store.load(lineage, Some(&id)).await?,
    };
    let mut state = base.as_ref().map(|base| base.state.clone()).unwrap_or_default();
    let mut next = base.as_ref().map_or(Next::Done, |base| base.next);
    let mut updates = Vec::new();
    if next == Next::Tools {
        let answers = open_calls(&state).into_iter().map(unknown_outcome);
        let update = StateUpdate::messages(answers);
        state.apply(&update)?;
        updates.push(NodeUpdate { node: "tools".to_owned(), update });
        next = Next::Model;
    }
    let event = NewJournalRow::new(
        "lifecycle",
        "run.rolled_back",
        json!({"checkpoint_id": base.as_ref().map(|base| &base.id)}),
    );
    Ok(StepCommit {
        run_id: Some(run.run_id.clone()),
        branch: true,
        next,
        updates,
        state: Arc::new(state),
        events: vec![event],
        outcome: Some(rolled_back(usage)),
        ..commit(lineage, base.as_ref())
    })
}

fn rolled_back(usage: Usage) -> RunOutcome {
    RunOutcome {
        status: RunStatus::Error,
        error: Some(ROLLED_BACK_TEXT.to_owned()),
        stop_reason: Some(ROLLED_BACK.to_owned()),
        usage,
    }
}

/// An edit on a checkpoint, with nothing in it yet.
pub(crate) fn commit(lineage: &Lineage, base: Option<&Checkpoint>) -> StepCommit {
    StepCommit {
        lineage: lineage.clone(),
        run_id: None,
        parent: base.map(|base| base.id.clone()),
        branch: false,
        fence: None,
        kind: StepKind::Edit,
        step: base.map_or(0, |base| base.step + 1),
        next: Next::Done,
        updates: Vec::new(),
        state: Arc::default(),
        effects: Vec::new(),
        events: Vec::new(),
        outcome: None,
    }
}

/// The checkpoint that a run began on; the head when it has written none. The run is the last one of its thread, so that
/// its checkpoints, and edits between, are the newest.
async fn before_run<S: StepLog>(
    store: &S,
    lineage: &Lineage,
    run: &RunRow,
) -> Result<Option<CheckpointId>, StoreError> {
    let mut before = None;
    let mut base = None;
    'pages: loop {
        let page = store.history(lineage, before.as_ref(), PAGE).await?;
        for entry in &page {
            match &entry.run_id {
                Some(run_id) if *run_id == run.run_id => base = Some(entry.parent.clone()),
                // Before the run's own steps stand earlier ones, after them at most those of runs that were taken back.
                Some(_) if base.is_some() => break 'pages,
                _ => {}
            }
        }
        let Some(oldest) = page.last() else { break };
        before = Some(oldest.id.clone());
    }
    match base {
        Some(base) => Ok(base),
        None => Ok(store.history(lineage, None, 1).await?.pop().map(|head| head.id)),
    }
}

/// What follows a node.
pub(crate) fn next_after(node: &str, state: &ThreadState) -> Result<Next, EditError> {
    let after_model = || if open_calls(state).is_empty() { Next::End } else { Next::Tools };
    Ok(match node {
        "model" => after_model(),
        "__input__" | "__start__" | "tools" => Next::Model,
        "__end__" => Next::Done,
        hook => match hook.rsplit_once('.') {
            Some((name, "before_agent" | "before_model")) if !name.is_empty() => Next::Model,
            Some((name, "after_model")) if !name.is_empty() => after_model(),
            Some((name, "after_agent")) if !name.is_empty() => Next::Done,
            _ => return Err(EditError::UnknownNode(node.to_owned())),
        },
    })
}

/// Calls of the last assistant message that have no result.
fn open_calls(state: &ThreadState) -> Vec<&ToolCall> {
    let results = state.answered_since_last_ai();
    let answered: HashSet<&str> = results.iter().filter_map(|m| m.as_tool()).map(|t| t.tool_call_id.as_str()).collect();
    let calls = state.last_ai().and_then(|message| message.as_ai()).map(|part| part.tool_calls.as_slice());
    calls.unwrap_or_default().iter().filter(|call| !answered.contains(call.id())).collect()
}

fn unknown_outcome(call: &ToolCall) -> Message {
    let text = format!(
        "Error: outcome unknown. The call to `{}` was interrupted and was not run again: inspect the result before you \
         retry.",
        call.name
    );
    let mut message = Message::tool_error(text, call.id(), call.name.as_str());
    message.ensure_id();
    message
}

#[cfg(test)]
mod tests;
