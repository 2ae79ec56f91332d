//! A run as a stream of frames.

use crate::app::AppState;
use crate::error::ApiError;
use crate::sse;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use deerflow_core::ports::RunRow;
use deerflow_runtime::{EventId, Frame};
pub(super) use deerflow_service::Reader;
use futures::{Stream, StreamExt as _};

/// Header in which a reader says what it saw last.
const LAST_EVENT_ID: &str = "last-event-id";

/// What the reader saw last; anything that is no id of ours means nothing.
pub(super) fn last_seen(headers: &HeaderMap) -> Option<EventId> {
    EventId::from_header(headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok()))
}

/// The response that streams a run to its end.
pub(super) fn response(app: &AppState, row: &RunRow, reader: Reader) -> Response {
    sse::response(frames(app, row, reader), app.stop.clone())
}

/// The frames of a run for one reader, counted among the open streams.
pub(super) fn frames(
    app: &AppState,
    row: &RunRow,
    reader: Reader,
) -> impl Stream<Item = Frame> + Send + 'static + use<> {
    let open = app.metrics.stream();
    app.service.frames(row, reader).map(move |frame| {
        let _open = &open;
        frame
    })
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
