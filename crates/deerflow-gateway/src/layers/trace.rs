//! An id for every request, by which its log lines are found.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use std::time::Instant;
use tracing::{Instrument as _, field::Empty};

/// The id; a client or a proxy may give its own.
const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");
/// Longest id that is taken over.
const LONGEST: usize = 128;

/// The layer. Of a request, method and path are logged; never its query, its headers or its body.
pub(crate) async fn trace(request: Request, next: Next) -> Response {
    let given = request.headers().get(&TRACE_ID).filter(|id| is_usable(id.as_bytes())).cloned();
    let id = given.or_else(|| HeaderValue::try_from(uuid::Uuid::new_v4().simple().to_string()).ok());
    let shown = id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or_default();
    let (method, path) = (request.method().as_str(), request.uri().path());
    let span = tracing::info_span!("request", method, path, trace_id = shown, user_id = Empty);
    let began = Instant::now();
    let mut response = async {
        let response = next.run(request).await;
        let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::debug!(status = response.status().as_u16(), milliseconds, "answered");
        response
    }
    .instrument(span)
    .await;
    if let Some(id) = id {
        response.headers_mut().insert(TRACE_ID, id);
    }
    response
}

fn is_usable(id: &[u8]) -> bool {
    (1..=LONGEST).contains(&id.len()) && id.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(b))
}
