//! What browsers are told about every answer.

use crate::auth::AUTH_PATHS;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

/// Set unless a route says otherwise.
const HEADERS: [(HeaderName, &str); 3] = [
    // A text is no script, whatever it looks like.
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // No foreign page lays itself over ours.
    (header::X_FRAME_OPTIONS, "SAMEORIGIN"),
    // The names of threads are nobody's business.
    (header::REFERRER_POLICY, "same-origin"),
];

/// The layer.
pub(crate) async fn security_headers(request: Request, next: Next) -> Response {
    let about_login = request.uri().path().contains(AUTH_PATHS);
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if about_login {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    response
}
