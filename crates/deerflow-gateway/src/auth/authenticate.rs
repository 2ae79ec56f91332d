//! Who asks, and whether they may.

use super::address::{ClientAddress, peer};
use super::paths::{canonical, is_open, permission};
use super::session::BadToken;
use super::throttle::Asker;
use super::{api_key, cookies};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use deerflow_core::ports::{ApiKeyRepo as _, UserRepo as _, UserRow};
use deerflow_core::{Principal, UserId};
use std::time::Instant;
use subtle::ConstantTimeEq as _;

/// Proves that another process of ours asks.
const INTERNAL_TOKEN: &str = "x-deerflow-internal-token";
/// For whom it asks.
const OWNER: &str = "x-deerflow-owner-user-id";

/// The layer: finds out who asks, and turns away who may not.
pub(crate) async fn authenticate(State(app): State<AppState>, mut request: Request, next: Next) -> Response {
    let path = canonical(request.uri().path()).into_owned();
    let found = identify(&app, request.headers()).await;
    let found = match found {
        // Whoever cannot be recognised may still log in.
        Err(_) if is_open(&path) => Ok(None),
        Ok(None) if !is_open(&path) => Err(ApiError::not_authenticated()),
        other => other,
    };
    let caller = match found {
        Ok(caller) => caller,
        Err(refusal) => return refusal.into_response(),
    };
    if let Some(throttle) = &app.auth.throttle {
        let address = ClientAddress::of(&app.auth.settings, peer(request.extensions()), request.headers());
        let asker = caller.as_ref().map_or_else(|| Asker::at(address.0), |caller| Asker::User(caller.user_id.clone()));
        if let Err(wait) = throttle.take(asker, Instant::now()) {
            let mut response =
                ApiError::new(StatusCode::TOO_MANY_REQUESTS, "Too many requests. Try again later.").into_response();
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
            return response;
        }
    }
    if let Some(caller) = caller {
        let cancels =
            request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair.starts_with("action=")));
        if let (Some(authorization), Some(needed)) =
            (&app.auth.authorization, permission(request.method(), &path, cancels))
            && !authorization.allows(&caller.user_id, &caller.principal, ("route", "access"), needed).await
        {
            return ApiError::forbidden(format!("Permission denied: {needed}")).into_response();
        }
        tracing::Span::current().record("user_id", caller.user_id.as_str());
        request.extensions_mut().insert(caller);
    }
    next.run(request).await
}

/// Who asks, if anybody says so. What is presented and does not hold is an error, never a reason to look further; only a
/// foreign key is as if it were not there.
async fn identify(app: &AppState, headers: &HeaderMap) -> Result<Option<Caller>, ApiError> {
    if let Some(key) = api_key::presented(headers) {
        return by_key(app, key).await.map(Some);
    }
    if let Some(caller) = internal(app, headers)? {
        return Ok(Some(caller));
    }
    let session = match cookies::read(headers, cookies::SESSION) {
        Some(token) => by_session(app, token).await.map(Some),
        None => Ok(None),
    };
    match session {
        Ok(None) | Err(_) if !app.auth.is_enabled() => Ok(Some(Caller::local())),
        other => other,
    }
}

async fn by_key(app: &AppState, key: &str) -> Result<Caller, ApiError> {
    let invalid = || ApiError::unauthorized("token_invalid", "Invalid API key");
    let row = app.store.api_key_by_hash(&api_key::hash(key)).await?.ok_or_else(invalid)?;
    let user = app.store.user(&row.user_id).await?;
    if let Err(error) = app.store.touch_api_key(&row).await {
        // The key holds all the same.
        tracing::warn!(%error, "the use of a key could not be noted");
    }
    match user {
        Some(user) => Ok(caller(user)),
        // Keys of an installation without accounts are the local user's.
        None if row.user_id == UserId::local() => Ok(Caller::local()),
        None => Err(invalid()),
    }
}

async fn by_session(app: &AppState, token: &str) -> Result<Caller, ApiError> {
    let claims = app.auth.signer.read_session(token)?;
    let user = app.store.user(&claims.sub).await?;
    let user = user.ok_or_else(|| ApiError::unauthorized("user_not_found", "User not found"))?;
    if user.token_version != claims.ver {
        return Err(BadToken::Invalid.into());
    }
    Ok(caller(user))
}

fn caller(user: UserRow) -> Caller {
    let (oauth_provider, oauth_id) = user.oauth.map(|oauth| (oauth.provider, oauth.id)).unzip();
    let user_role = Some(user.system_role.as_str().to_owned());
    Caller {
        user_id: user.user_id,
        principal: Principal { user_role, oauth_provider, oauth_id, ..Principal::default() },
    }
}

/// A process of ours that asks for a user.
fn internal(app: &AppState, headers: &HeaderMap) -> Result<Option<Caller>, ApiError> {
    let expected = app.auth.internal_token.expose().as_bytes();
    match headers.get(INTERNAL_TOKEN) {
        Some(token) if bool::from(token.as_bytes().ct_eq(expected)) => {}
        _ => return Ok(None),
    }
    let user_id = match headers.get(OWNER).map(|owner| owner.to_str().unwrap_or_default().trim()) {
        None | Some("") => UserId::local(),
        Some(owner) => UserId::parse(owner).map_err(|_| {
            ApiError::bad_request("X-DeerFlow-Owner-User-Id is no user id: use 1 to 64 of A-Z a-z 0-9 _ -")
        })?,
    };
    let user_role = Some("internal".to_owned());
    Ok(Some(Caller { user_id, principal: Principal { user_role, is_internal: true, ..Principal::default() } }))
}
