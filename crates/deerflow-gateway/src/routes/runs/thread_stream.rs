//! A thread as a stream: its live run, and every run that comes after it, for as long as somebody reads.

use super::InThread;
use super::follow::{Reader, frames, last_seen};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Path, Query};
use crate::sse;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use deerflow_core::ports::{EventRepo as _, JournalQuery, RunFilter, RunRepo as _, RunRow, ThreadRepo as _};
use deerflow_core::{RunId, RunStatus, StoreError, ThreadId};
use deerflow_runtime::{EventId, Frame, StreamMode};
use deerflow_service::one_or_many;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashSet;
use std::time::Duration;
use utoipa::IntoParams;

/// How often a quiet thread is looked at for a new run.
const POLL: Duration = Duration::from_millis(200);
/// Runs that can come between two looks.
const RUNS: u32 = 50;

/// What to see of the thread.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
pub(super) struct Modes {
    /// `run_modes` (what each run was created to stream, and `run_done`), `lifecycle` (begin and end of runs) or
    /// `state_update` (the state after each step); may be given several times.
    #[serde(deserialize_with = "one_or_many")]
    stream_mode: Vec<String>,
}

/// Which frames are shown.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    run_modes: bool,
    lifecycle: bool,
    state: bool,
}

impl Modes {
    fn shown(&self) -> Result<Shown, ApiError> {
        let mut shown = Shown::default();
        for name in self.stream_mode.iter().flat_map(|names| names.split(',')).filter(|name| !name.is_empty()) {
            match name {
                "run_modes" => shown.run_modes = true,
                "lifecycle" => shown.lifecycle = true,
                "state_update" => shown.state = true,
                other => {
                    let message = "Input should be run_modes, lifecycle or state_update";
                    let place = json!(["query", "stream_mode"]);
                    return Err(ApiError::invalid("unsupported_stream_mode", place, message, json!(other)));
                }
            }
        }
        shown.run_modes |= !(shown.lifecycle || shown.state);
        Ok(shown)
    }
}

impl Shown {
    fn has(self, event: &str) -> bool {
        match event {
            "metadata" | "run_done" => self.run_modes || self.lifecycle,
            "values" => self.run_modes || self.state,
            _ => self.run_modes,
        }
    }
}

/// Follow a thread
///
/// Its live run and those that come after, until the reader leaves. `Last-Event-ID` goes on where a reader was cut off.
#[utoipa::path(get, path = "/threads/{thread_id}/stream", tag = "threads", params(InThread, Modes),
    responses((status = 200, description = "Frames", content_type = "text/event-stream", body = String),
    (status = 404, description = "No such thread")))]
pub(super) async fn follow(
    caller: Caller,
    State(app): State<AppState>,
    Path(InThread { thread_id }): Path<InThread>,
    Query(modes): Query<Modes>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if app.store.thread(&caller.user_id, &thread_id).await?.is_none() {
        return Err(ApiError::no_thread(&thread_id));
    }
    let shown = modes.shown()?;
    let after = last_seen(&headers);
    let mut following = Following { app, caller, thread_id, shown, told: HashSet::new(), next: None, current: None };
    following.pass_over(after).await?;
    let stop = following.app.stop.clone();
    Ok(sse::response(following.frames(), stop))
}

struct Following {
    app: AppState,
    caller: Caller,
    thread_id: ThreadId,
    shown: Shown,
    /// Runs that the reader has seen, or that were over when it came.
    told: HashSet<RunId>,
    /// The run to go on with, and after which frame.
    next: Option<(RunRow, EventId)>,
    current: Option<(RunRow, BoxStream<'static, Frame>)>,
}

impl Following {
    /// Takes note of what the reader need not see.
    async fn pass_over(&mut self, after: Option<EventId>) -> Result<(), StoreError> {
        let resumed = match after {
            Some(after) => self.run_at(after.seq).await?,
            None => None,
        };
        for run in self.newest().await? {
            let later = resumed.as_ref().is_some_and(|resumed| run.created_at > resumed.created_at);
            if run.status.is_terminal() && !later {
                self.told.insert(run.run_id);
            }
        }
        self.next = resumed.zip(after);
        Ok(())
    }

    /// The run that was at work after a row of the journal.
    async fn run_at(&mut self, seq: u64) -> Result<Option<RunRow>, StoreError> {
        let query = JournalQuery { after_seq: Some(seq.saturating_sub(1)), limit: 1, ..JournalQuery::default() };
        let rows = self.app.store.journal_page(&self.caller.user_id, &self.thread_id, query).await?;
        match rows.first() {
            Some(row) => self.app.store.run(&row.run_id).await,
            None => Ok(None),
        }
    }

    async fn newest(&mut self) -> Result<Vec<RunRow>, StoreError> {
        let filter = RunFilter { thread_id: Some(self.thread_id.clone()), limit: RUNS, ..RunFilter::default() };
        self.app.store.runs(&self.caller.user_id, filter).await
    }

    fn frames(self) -> impl Stream<Item = Frame> + Send + 'static {
        stream::unfold(self, |mut following| async move {
            let frame = following.frame().await?;
            Some((frame, following))
        })
    }

    /// The next frame; `None` when the thread is gone.
    async fn frame(&mut self) -> Option<Frame> {
        loop {
            let Some((run, frames)) = &mut self.current else {
                self.begin().await?;
                continue;
            };
            let Some(frame) = frames.next().await else {
                self.current = None;
                continue;
            };
            let frame = if frame.event == "end" { self.app.done(&run.run_id.clone()).await } else { frame };
            if self.shown.has(&frame.event) {
                return Some(frame);
            }
        }
    }

    /// Waits for the next run, and begins to follow it.
    async fn begin(&mut self) -> Option<()> {
        loop {
            let (run, after) = match self.next.take() {
                Some((run, after)) => (run, Some(after)),
                None => match self.newest().await {
                    // Oldest first; a run that waits for its turn is shown when it begins.
                    Ok(runs) => {
                        let news = runs
                            .into_iter()
                            .rev()
                            .find(|run| !self.told.contains(&run.run_id) && run.status != RunStatus::Queued);
                        match news {
                            Some(run) => (run, None),
                            None => {
                                tokio::time::sleep(POLL).await;
                                if !matches!(
                                    self.app.store.thread(&self.caller.user_id, &self.thread_id).await,
                                    Ok(Some(_))
                                ) {
                                    return None;
                                }
                                continue;
                            }
                        }
                    }
                    Err(error) => {
                        tracing::warn!(thread_id = %self.thread_id, %error, "a thread cannot be followed");
                        return None;
                    }
                },
            };
            self.told.insert(run.run_id.clone());
            let modes = if self.shown.state && !self.shown.run_modes { vec![StreamMode::Values] } else { Vec::new() };
            let followed = frames(&self.app, &run, Reader { modes, after, cancels: false }).boxed();
            self.current = Some((run, followed));
            return Some(());
        }
    }
}

impl AppState {
    /// The frame that says how a run ended.
    async fn done(&self, run_id: &RunId) -> Frame {
        let status = match self.store.run(run_id).await {
            Ok(Some(run)) => run.status.wire(),
            _ => "error",
        };
        let data = json!({"run_id": run_id, "status": status}).to_string();
        Frame { event: "run_done".to_owned(), data: data.into(), id: None }
    }
}
