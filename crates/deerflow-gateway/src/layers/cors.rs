//! Pages of other origins.

use crate::auth::{Auth, Origin};
use axum::http::{HeaderName, HeaderValue, header};
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer};

/// Lets the configured origins use the API with cookies; `None` without any. Their pages see where a run can be found again.
pub(crate) fn cors(auth: &Auth) -> Option<CorsLayer> {
    let allowed = auth.settings.allowed_origins.clone();
    if allowed.is_empty() {
        return None;
    }
    let is_allowed = move |origin: &HeaderValue, _: &axum::http::request::Parts| {
        origin.to_str().ok().and_then(Origin::parse).is_some_and(|origin| allowed.contains(&origin))
    };
    let exposed = [header::CONTENT_LOCATION, header::LOCATION, HeaderName::from_static("x-trace-id")];
    Some(
        CorsLayer::new()
            .allow_origin(AllowOrigin::predicate(is_allowed))
            .allow_credentials(true)
            .allow_methods(AllowMethods::mirror_request())
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(exposed),
    )
}
