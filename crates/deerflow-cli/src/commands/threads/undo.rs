//! `deerflow threads undo`.

use super::super::say;
use super::idle;
use crate::failure::Failure;
use crate::render::printable_line;
use deerflow_core::message::kwargs;
use deerflow_core::ports::{EventRepo, ROLLED_BACK, RunFilter, RunRepo, StepLog, ThreadRepo};
use deerflow_core::{Lineage, ThreadId, ThreadState, UserId, text};
use deerflow_runtime::{EditError, rollback_run};
use std::collections::HashSet;
use std::path::Path;

pub(super) async fn undo(
    store: &(impl ThreadRepo + RunRepo + EventRepo + StepLog),
    user: &UserId,
    home: &Path,
    id: &ThreadId,
) -> Result<(), Failure> {
    idle(store, user, home, id, "undo it").await?;
    let filter = RunFilter { thread_id: Some(id.clone()), limit: 1000, ..RunFilter::default() };
    let runs = store.runs(user, filter).await.map_err(Failure::run)?;
    let last = runs.into_iter().find(|run| run.stop_reason.as_deref() != Some(ROLLED_BACK));
    let Some(last) = last else { return Err(Failure::usage(format!("{id} has no run to take back"))) };
    let before = state(store, id).await?;
    rollback_run(store, user, &last.run_id).await.map_err(|error| match error {
        error @ EditError::NotLast { .. } => Failure::usage(error),
        other => Failure::run(other),
    })?;
    let after = state(store, id).await?;
    let kept: HashSet<&str> = after.messages.iter().map(|m| m.id()).collect();
    let gone = before.messages.iter().filter(|m| !kept.contains(m.id()) && !m.flag(kwargs::HIDE_FROM_UI)).count();
    let asked = last.input.messages.iter().find(|m| m.is_human() && !m.text().trim().is_empty());
    let asked = asked.map_or_else(String::new, |m| format!(": {}", text::ellipsis(&printable_line(&m.text()), 100)));
    say(&format!("took back the last run of {id}{asked}"));
    say(&format!("{gone} messages are gone from the conversation; files that the run made or delivered stay"));
    Ok(())
}

async fn state(store: &impl StepLog, id: &ThreadId) -> Result<ThreadState, Failure> {
    let head = store.load(&Lineage::root(id.clone()), None).await.map_err(Failure::run)?;
    Ok(head.map(|head| head.state).unwrap_or_default())
}
