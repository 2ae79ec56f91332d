//! The page on which a newcomer sets up an account, logs in, and makes a key.

use crate::app::AppState;
use axum::Router;
use axum::http::{HeaderName, header};
use axum::response::{Html, IntoResponse};
use axum::routing::get;

/// Nothing but our own script runs, and nothing is sent elsewhere.
const POLICY: (HeaderName, &str) = (
    header::CONTENT_SECURITY_POLICY,
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

pub(crate) fn routes() -> Router<AppState> {
    let page = || get(|| async { ([POLICY], Html(include_str!("pages/account.html"))) });
    ["/", "/setup", "/login", "/account", "/auth/callback"]
        .into_iter()
        .fold(Router::new(), |router, path| router.route(path, page()))
        .route("/account.js", get(script))
}

async fn script() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("pages/account.js"))
}
