//! Compaction of a thread on request.

use crate::edit::{StateEdit, update_state};
use crate::manager::RuntimeError;
use deerflow_agent::RunContext;
use deerflow_core::ports::{Committed, RunFilter, RunRepo, StepLog, ThreadRepo};
use deerflow_core::{EventSink, Lineage, RunId, RunStatus, StoreError, ThreadId, UserId};
use deerflow_harness::middleware::{CompactOptions, Compaction, compact};
use deerflow_harness::{Harness, LeadOptions};
use tokio_util::sync::CancellationToken;

/// Compacts a thread now: its older messages make room for a summary. An edit like any other, so that the history keeps what
/// was there. Takes as long as the model that writes the summary.
///
/// # Errors
/// [`RuntimeError::NoThread`]; [`RuntimeError::Compact`] when there is nothing to compact or no model wrote a summary;
/// [`StoreError::ThreadBusy`] while a run is live; [`StoreError::StaleParent`] when the thread was changed meanwhile. Nothing
/// is written then.
///
/// # Cancel safety
/// Dropping it leaves the thread as it was, or compacted.
pub async fn compact_thread<S: StepLog + ThreadRepo + RunRepo>(
    store: &S,
    harness: &Harness,
    user_id: &UserId,
    thread_id: &ThreadId,
    lead: &LeadOptions,
    options: CompactOptions,
) -> Result<(Compaction, Committed), RuntimeError> {
    if store.thread(user_id, thread_id).await?.is_none() {
        return Err(RuntimeError::NoThread(thread_id.clone()));
    }
    let live = RunFilter {
        thread_id: Some(thread_id.clone()),
        status: vec![RunStatus::Pending, RunStatus::Running],
        ..RunFilter::default()
    };
    if let Some(live) = store.runs(user_id, live).await?.into_iter().next() {
        return Err(StoreError::ThreadBusy {
            thread_id: thread_id.to_string(),
            run_id: live.run_id.to_string(),
            holder: live.worker.label,
        }
        .into());
    }
    let compactor = harness.compactor(lead)?;
    let head = store.load(&Lineage::root(thread_id.clone()), None).await?;
    let (head, state) = head.map_or_else(Default::default, |head| (Some(head.id), head.state));
    let cancel = CancellationToken::new();
    let ctx = RunContext::new(user_id.clone(), thread_id.clone(), RunId::random(), cancel, EventSink::none());
    let compaction = compact(&compactor, &ctx, &state, options).await?;
    // The write replaces the conversation: one that was added to meanwhile must not lose what was added.
    let edit = StateEdit { head, update: compaction.update.clone(), ..StateEdit::default() };
    let committed = update_state(store, user_id, thread_id, edit).await?;
    Ok((compaction, committed))
}
