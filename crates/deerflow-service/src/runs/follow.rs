//! A run as a stream of frames, and its end as one value.

use crate::refusal::Refusal;
use crate::service::{Service, Store};
use deerflow_core::ports::{RunRow, StepLog as _};
use deerflow_core::{JsonMap, Lineage};
use deerflow_runtime::{
    EventId, Frame, OnDisconnect, ReaderGuard, RunFacts, RunView, StreamMode, Subscription, Views, state_json,
};
use futures::Stream;
use futures::stream::{self, BoxStream};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

/// How a reader follows a run.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    /// What it wants to see; what the run was created for when it does not say.
    pub modes: Vec<StreamMode>,
    /// What it has seen.
    pub after: Option<EventId>,
    /// Whether the run is cancelled when it goes away.
    pub cancels: bool,
}

impl Reader {
    /// The one that created the run.
    #[must_use]
    pub fn creator(row: &RunRow) -> Self {
        let cancels = RunFacts::of(&row.options).is_some_and(|facts| facts.on_disconnect == OnDisconnect::Cancel);
        Self { modes: Vec::new(), after: None, cancels }
    }
}

/// The frames of a run for one reader, up to `end`. Dropped before, the reader has gone away.
pub struct Frames(BoxStream<'static, Frame>);

impl Stream for Frames {
    type Item = Frame;
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl Service {
    /// The frames of a run for one reader. The run must be the caller's: that is not looked at here.
    #[must_use]
    pub fn frames(&self, row: &RunRow, reader: Reader) -> Frames {
        let facts = RunFacts::of(&row.options).unwrap_or_default();
        let modes = if reader.modes.is_empty() {
            facts.stream_mode.iter().filter_map(|name| name.parse().ok()).collect()
        } else {
            reader.modes
        };
        let view = RunView { metadata: shown(&facts), ..RunView::new(row.run_id.clone(), row.thread_id.clone()) };
        let (run_id, thread_id) = (row.run_id.clone(), row.thread_id.clone());
        let following = Following {
            items: self.runs.bridge().subscribe(self.store.clone(), run_id, thread_id, reader.after),
            views: Views::new(modes, view),
            ready: VecDeque::new(),
            guard: Some(self.runs.attach(&row.run_id, reader.cancels)),
        };
        Frames(Box::pin(stream::unfold(following, |mut following| async move {
            let frame = following.next().await?;
            Some((frame, following))
        })))
    }

    /// Waits for the end of a run, and gives the values of its thread then; how it ended when there are none. The run must be
    /// the caller's: that is not looked at here.
    ///
    /// With `cancels` the run is stopped when nobody waits any more.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn outcome(&self, row: &RunRow, cancels: bool) -> Result<Value, Refusal> {
        let guard = self.runs.attach(&row.run_id, cancels);
        let outcome = self.values_at_end(row).await;
        guard.done();
        outcome
    }

    async fn values_at_end(&self, row: &RunRow) -> Result<Value, Refusal> {
        let ended = self.runs.wait(&row.run_id).await?;
        let head = self.store.load(&Lineage::root(ended.thread_id.clone()), None).await?;
        Ok(match head {
            Some(head) => state_json(&head.state),
            None => json!({"status": ended.status.wire(), "error": ended.error}),
        })
    }
}

/// Metadata and plain configuration values: they come back with every message.
fn shown(facts: &RunFacts) -> JsonMap {
    let configurable =
        facts.kwargs.get("config").and_then(|config| config.get("configurable")).and_then(Value::as_object);
    let mut shown: JsonMap = configurable.cloned().unwrap_or_default();
    shown.extend(facts.metadata.clone());
    shown
}

struct Following {
    items: Subscription<Store>,
    views: Views,
    ready: VecDeque<Frame>,
    guard: Option<ReaderGuard<Store>>,
}

impl Following {
    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                // Whoever has the end does not leave a run behind.
                if frame.event == "end"
                    && let Some(guard) = self.guard.take()
                {
                    guard.done();
                }
                return Some(frame);
            }
            let item = self.items.next().await?;
            self.ready.extend(self.views.frames(&item));
        }
    }
}
