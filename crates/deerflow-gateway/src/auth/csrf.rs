//! Whether a request that changes something was meant by whoever is logged in.
//!
//! A browser sends our cookies along with the request of any page. A page of ours can read the CSRF token and repeat it in a
//! header, a foreign one cannot. A request with a personal key needs none: no page can add a key by itself.

use super::api_key;
use super::cookies::{self, CSRF, CSRF_HEADER, CookieRules};
use super::origin::{Origin, Target, host_is_loopback};
use super::paths::{Proof, begins_session, canonical, proof};
use crate::app::AppState;
use crate::error::ApiError;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use subtle::ConstantTimeEq as _;

/// The layer.
pub(crate) async fn csrf(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let path = canonical(request.uri().path());
    if let Err(refusal) = check(&app, request.method(), &path, request.headers()) {
        return refusal.into_response();
    }
    let begins = request.method() == Method::POST && app.auth.is_enabled() && begins_session(&path);
    let target = begins.then(|| Target::of(request.headers())).flatten();
    let mut response = next.run(request).await;
    if begins && !has_csrf_cookie(&response) {
        // A page may have been served before there was a session.
        let rules = CookieRules::new(target.as_ref(), false, 0, false);
        response.headers_mut().extend(rules.csrf().map(|cookie| (header::SET_COOKIE, cookie)));
    }
    response
}

fn has_csrf_cookie(response: &Response) -> bool {
    let set = response.headers().get_all(header::SET_COOKIE);
    set.iter().any(|value| value.to_str().is_ok_and(|value| value.starts_with(CSRF)))
}

fn check(app: &AppState, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), ApiError> {
    let upgrades = headers
        .get(header::UPGRADE)
        .is_some_and(|value| value.to_str().is_ok_and(|value| value.eq_ignore_ascii_case("websocket")));
    if !app.auth.is_enabled() {
        check_host(app, headers)?;
        return match proof(method, path) {
            Proof::None if !upgrades => Ok(()),
            _ => check_origin(app, headers),
        };
    }
    if upgrades {
        // Browsers let any page open one, with our cookies, and send no header of ours.
        check_origin(app, headers)?;
    }
    match proof(method, path) {
        Proof::None => Ok(()),
        Proof::Origin => check_origin(app, headers),
        Proof::Token if api_key::presented(headers).is_some() => Ok(()),
        Proof::Token => check_token(headers),
    }
}

/// A page whose domain was pointed to this machine after it was loaded (DNS rebinding) is of our origin as far as the browser
/// knows. Without login nothing else would keep it out.
fn check_host(app: &AppState, headers: &HeaderMap) -> Result<(), ApiError> {
    let allowed = |target: &Target| app.auth.settings.allowed_origins.iter().any(|origin| target.matches(origin));
    if host_is_loopback(headers) || host_target(headers).as_ref().is_some_and(allowed) {
        return Ok(());
    }
    Err(ApiError::forbidden("Without login only this machine is served: use http://localhost or http://127.0.0.1"))
}

/// What `Host` alone says.
fn host_target(headers: &HeaderMap) -> Option<Target> {
    let host = headers.get(header::HOST)?.clone();
    Target::of(&[(header::HOST, host)].into_iter().collect())
}

/// The page is ours, or one that the configuration allows. Programs that are no browser name no page.
fn check_origin(app: &AppState, headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(told) = headers.get(header::ORIGIN) else { return Ok(()) };
    let told = told.to_str().unwrap_or_default();
    let target = Target::of(headers);
    let Some(origin) = Origin::parse(told) else {
        return Err(foreign(told, target.as_ref()));
    };
    let settings = &app.auth.settings;
    let ours = target.as_ref().is_some_and(|target| target.matches(&origin))
        || settings.allowed_origins.contains(&origin)
        || (!settings.enabled && origin.is_loopback());
    if ours { Ok(()) } else { Err(foreign(&origin.to_string(), target.as_ref())) }
}

/// Says what was compared: a proxy that does not pass on the host is found by it.
fn foreign(origin: &str, target: Option<&Target>) -> ApiError {
    let shown: String = origin.chars().take(200).collect();
    let here = target.map_or_else(|| "an unknown host".to_owned(), ToString::to_string);
    ApiError::forbidden(format!("Cross-site auth request denied. The page is from {shown}, this server is {here}."))
}

fn check_token(headers: &HeaderMap) -> Result<(), ApiError> {
    let repeated = headers.get(CSRF_HEADER).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty());
    let (Some(cookie), Some(repeated)) = (cookies::read(headers, CSRF), repeated) else {
        return Err(ApiError::new(StatusCode::FORBIDDEN, "CSRF token missing. Include X-CSRF-Token header."));
    };
    if bool::from(cookie.as_bytes().ct_eq(repeated.as_bytes())) {
        Ok(())
    } else {
        Err(ApiError::forbidden("CSRF token mismatch."))
    }
}
