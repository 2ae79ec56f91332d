//! A run as a stream of frames.

use crate::app::{AppState, Store};
use crate::error::ApiError;
use crate::metrics::OpenStream;
use crate::sse;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use deerflow_core::JsonMap;
use deerflow_core::ports::RunRow;
use deerflow_runtime::{EventId, Frame, OnDisconnect, ReaderGuard, RunFacts, RunView, StreamMode, Subscription, Views};
use futures::{Stream, stream};
use serde_json::Value;
use std::collections::VecDeque;

/// Header in which a reader says what it saw last.
const LAST_EVENT_ID: &str = "last-event-id";

/// How a reader follows a run.
pub(super) struct Reader {
    /// What it wants to see; what the run was created for when it does not say.
    pub(super) modes: Vec<StreamMode>,
    /// What it has seen.
    pub(super) after: Option<EventId>,
    /// Whether the run is cancelled when it goes away.
    pub(super) cancels: bool,
}

impl Reader {
    /// The one that created the run.
    pub(super) fn creator(row: &RunRow) -> Self {
        let cancels = RunFacts::of(&row.options).is_some_and(|facts| facts.on_disconnect == OnDisconnect::Cancel);
        Self { modes: Vec::new(), after: None, cancels }
    }
}

/// What the reader saw last; anything that is no id of ours means nothing.
pub(super) fn last_seen(headers: &HeaderMap) -> Option<EventId> {
    EventId::from_header(headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok()))
}

/// The response that streams a run to its end.
pub(super) fn response(app: &AppState, row: &RunRow, reader: Reader) -> Response {
    sse::response(frames(app, row, reader), app.stop.clone())
}

/// The frames of a run for one reader.
pub(super) fn frames(
    app: &AppState,
    row: &RunRow,
    reader: Reader,
) -> impl Stream<Item = Frame> + Send + 'static + use<> {
    let facts = RunFacts::of(&row.options).unwrap_or_default();
    let modes = if reader.modes.is_empty() {
        facts.stream_mode.iter().filter_map(|name| name.parse().ok()).collect()
    } else {
        reader.modes
    };
    let metadata = shown(&facts);
    let view = RunView { metadata, ..RunView::new(row.run_id.clone(), row.thread_id.clone()) };
    let following = Following {
        items: app.runs.bridge().subscribe(app.store.clone(), row.run_id.clone(), row.thread_id.clone(), reader.after),
        views: Views::new(modes, view),
        ready: VecDeque::new(),
        guard: Some(app.runs.attach(&row.run_id, reader.cancels)),
        _open: app.metrics.stream(),
    };
    stream::unfold(following, |mut following| async move {
        let frame = following.next().await?;
        Some((frame, following))
    })
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
    _open: OpenStream,
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

/// Says which run a response is of (`Content-Location`), and where to go on when it breaks off (`Location`, relative to the
/// mount: clients put their base before it).
pub(super) fn locate(response: &mut Response, row: &RunRow, part: &str) -> Result<(), ApiError> {
    let run = format!("/threads/{}/runs/{}", row.thread_id, row.run_id);
    let value = |text: String| HeaderValue::try_from(text).map_err(|error| ApiError::internal(&error));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LOCATION, value(format!("/api{run}"))?);
    headers.insert(header::LOCATION, value(format!("{run}/{part}"))?);
    Ok(())
}
