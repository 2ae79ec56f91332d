//! Follows a run to its end, and stops it when the user says so.

use crate::failure::{Failure, INTERRUPTED};
use crate::render::Renderer;
use deerflow_core::ports::RunOutcome;
use deerflow_core::{AgentEvent, RunId, ThreadId, ThreadState, Usage};
use deerflow_runtime::RunHandle;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A run that has ended.
pub(crate) struct Ended {
    pub(crate) thread_id: ThreadId,
    pub(crate) run_id: RunId,
    pub(crate) model: String,
    pub(crate) outcome: RunOutcome,
    pub(crate) state: Arc<ThreadState>,
    pub(crate) usage: Usage,
    pub(crate) elapsed: Duration,
    /// Delivered files, where the user finds them.
    pub(crate) files: Vec<PathBuf>,
}

pub(crate) async fn watch(mut handle: RunHandle, renderer: &mut Renderer) -> Result<Ended, Failure> {
    let started = Instant::now();
    renderer.started(&handle);
    let mut usage = Usage::default();
    let mut stopping = false;
    let mut terminate =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map_err(Failure::run)?;
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            event = handle.events.recv() => {
                let Some(event) = event else { break };
                if let AgentEvent::Committed { usage: so_far, .. } = &event {
                    usage = so_far.clone();
                }
                renderer.event(&event);
            }
            _ = tick.tick() => renderer.tick(),
            _ = tokio::signal::ctrl_c() => {
                if stopping {
                    renderer.note("not waiting for the clean-up");
                    renderer.abandon();
                    std::process::exit(i32::from(INTERRUPTED));
                }
                stopping = true;
                renderer.note("stopping… (Ctrl-C again to quit at once)");
                handle.cancel.cancel();
            }
            _ = terminate.recv() => {
                stopping = true;
                handle.cancel.cancel();
            }
        }
    }
    renderer.ended();
    let (thread_id, run_id, model) = (handle.thread_id.clone(), handle.run_id.clone(), handle.model.clone());
    let finished = handle.finished().await.map_err(Failure::run)?;
    if !finished.outcome.usage.is_zero() {
        usage = finished.outcome.usage.clone();
    }
    Ok(Ended {
        thread_id,
        run_id,
        model,
        outcome: finished.outcome,
        state: finished.state,
        usage,
        elapsed: started.elapsed(),
        files: Vec::new(),
    })
}
