//! Server-sent events, in the bytes that LangGraph's clients expect.

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use deerflow_runtime::Frame;
use futures::{Stream, StreamExt as _, stream};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Silence after which a comment is sent, so that nobody on the way takes the stream for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// A response of frames; it ends with them, or when `stop` is cancelled (the server goes down; clients reconnect).
pub(crate) fn response(frames: impl Stream<Item = Frame> + Send + 'static, stop: CancellationToken) -> Response {
    let bytes = bytes(frames, HEARTBEAT).take_until(stop.cancelled_owned()).map(Ok::<_, Infallible>);
    let mut response = Body::from_stream(bytes).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// The frames as bytes, with a heartbeat after each `silence`.
fn bytes(frames: impl Stream<Item = Frame> + Send + 'static, silence: Duration) -> impl Stream<Item = Bytes> + Send {
    let mut ticks = interval(silence);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    stream::unfold((Box::pin(frames), ticks), |(mut frames, mut ticks)| async move {
        let bytes = tokio::select! {
            biased;
            frame = frames.next() => encode(&frame?),
            _ = ticks.tick() => Bytes::from_static(b": heartbeat\n\n"),
        };
        ticks.reset();
        Some((bytes, (frames, ticks)))
    })
}

/// One frame. Event names and ids are ours, and data is one line of JSON, so nothing has to be escaped.
fn encode(frame: &Frame) -> Bytes {
    let mut text = String::with_capacity(frame.data.len() + frame.event.len() + 48);
    let _ = write!(text, "event: {}\ndata: {}\n", frame.event, frame.data);
    if let Some(id) = &frame.id {
        let _ = writeln!(text, "id: {id}");
    }
    text.push('\n');
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_runtime::EventId;

    fn frame(event: &str, data: &str, id: Option<EventId>) -> Frame {
        Frame { event: event.into(), data: data.into(), id }
    }

    #[test]
    fn frames_have_the_documented_bytes() {
        let with = encode(&frame("values", "{\"a\": \"é\"}", Some(EventId { seq: 7, n: 2 })));
        assert_eq!(with, "event: values\ndata: {\"a\": \"é\"}\nid: 7-2\n\n");
        assert_eq!(encode(&frame("end", "null", None)), "event: end\ndata: null\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_filled_with_heartbeats() {
        let frames = stream::once(async {
            tokio::time::sleep(Duration::from_secs(35)).await;
            frame("end", "null", None)
        });
        let all: Vec<Bytes> = bytes(frames, HEARTBEAT).collect().await;
        assert_eq!(all, [": heartbeat\n\n", ": heartbeat\n\n", "event: end\ndata: null\n\n"]);
    }
}
