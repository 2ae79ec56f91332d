//! Login at an identity provider.

use super::wire::{session_cookies, yes};
use crate::app::AppState;
use crate::auth::{CookieRules, Identity, Oidc, OidcError, OidcProviderConfig, STATE_SECONDS, Target, cookie};
use crate::error::ApiError;
use crate::extract::{Path, Query};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use deerflow_core::ports::{OauthIdentity, SystemRole, UserRepo as _, UserRow};
use serde::Deserialize;
use url::form_urlencoded::byte_serialize;
use utoipa::IntoParams;

/// Paths that get the cookie which remembers a login under way.
const STATE_PATH: &str = "/api";
/// Where the web client goes unless told otherwise.
const NEXT: &str = "/workspace";

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct ProviderId {
    /// Id of a provider.
    provider: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Begin {
    /// Path of the web client to go to then.
    next: Option<String>,
    /// Whether the login outlives the browser.
    #[serde(default = "yes")]
    remember_me: bool,
}

/// What the provider sends people back with.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Callback {
    /// What is exchanged for who they are.
    code: Option<String>,
    /// Tells this login from others.
    state: Option<String>,
    /// Why there is no code.
    error: Option<String>,
}

/// Log in at an identity provider
#[utoipa::path(get, path = "/v1/auth/oauth/{provider}", tag = "auth", security(()), params(ProviderId, Begin),
    responses((status = 302, description = "Go to the provider"), (status = 404, description = "There is no such provider"),
        (status = 502, description = "The provider does not answer")))]
pub(super) async fn begin(
    State(app): State<AppState>,
    Path(ProviderId { provider }): Path<ProviderId>,
    Query(begin): Query<Begin>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let oidc = offered(&app)?;
    let target = Target::of(&headers);
    let base = base_url(oidc, target.as_ref())?;
    let redirect_uri = format!("{base}/api/v1/auth/callback/{provider}");
    let next = begin.next.filter(|next| is_path(next)).unwrap_or_else(|| NEXT.to_owned());
    let (address, state) = oidc.begin(&app.auth.signer, &provider, redirect_uri, next, begin.remember_me).await?;
    // The cookie outlives the way there in any browser, and no longer than it may.
    let rules = CookieRules::new(target.as_ref(), true, STATE_SECONDS, true);
    let mut response = redirect(address.as_str())?;
    response
        .headers_mut()
        .extend(rules.scoped(state_cookie(&provider), state, STATE_PATH).map(|cookie| (header::SET_COOKIE, cookie)));
    Ok(response)
}

/// Come back from an identity provider
///
/// You are logged in, and sent on to the web client.
#[utoipa::path(get, path = "/v1/auth/callback/{provider}", tag = "auth", security(()), params(ProviderId, Callback),
    responses((status = 302, description = "Go to the web client, which says how it ended"), (status = 400, description = "Code or state is missing"),
        (status = 403, description = "This login did not begin here"), (status = 404, description = "There is no such provider"),
        (status = 502, description = "The provider does not answer")))]
pub(super) async fn callback(
    State(app): State<AppState>,
    Path(ProviderId { provider }): Path<ProviderId>,
    Query(callback): Query<Callback>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let oidc = offered(&app)?;
    let settings = oidc.provider(&provider)?;
    let frontend = oidc.base_url().unwrap_or_default();
    let failed = |why: &str| redirect(&format!("{frontend}/login?error={why}"));
    if callback.error.is_some() {
        tracing::info!(provider, "the identity provider let somebody not log in");
        return failed("sso_failed");
    }
    let (Some(code), Some(state)) = (callback.code, callback.state) else {
        return Err(ApiError::bad_request("code and state are needed"));
    };
    let cookie = cookie(&headers, &state_cookie(&provider)).ok_or(OidcError::State)?;
    let remembered = oidc.recall(&app.auth.signer, &provider, cookie, &state)?;
    let identity = match oidc.finish(&provider, &remembered, &code).await {
        Ok(identity) => identity,
        Err(error @ OidcError::Token(_)) => {
            tracing::warn!(provider, %error, "a login elsewhere is refused");
            return failed("sso_failed");
        }
        Err(error) => return Err(error.into()),
    };
    let user = match account(&app, &provider, settings, identity).await? {
        Ok(user) => user,
        Err(refused) => {
            tracing::info!(provider, why = refused, "a login elsewhere is refused");
            return failed(refused);
        }
    };
    let next: String = byte_serialize(remembered.next.as_bytes()).collect();
    let mut response = redirect(&format!("{frontend}/auth/callback?next={next}"))?;
    let cookies = session_cookies(&app, &headers, &user, remembered.remember)?;
    response.headers_mut().extend(cookies.into_iter().map(|cookie| (header::SET_COOKIE, cookie)));
    // A code and its state are good for once.
    let gone = CookieRules::new(Target::of(&headers).as_ref(), true, 0, true);
    response.headers_mut().extend(
        gone.scoped(state_cookie(&provider), String::new(), STATE_PATH).map(|cookie| (header::SET_COOKIE, cookie)),
    );
    Ok(response)
}

/// The account of somebody who logged in elsewhere, or why there is none. An account that was made here is never taken over
/// by an address alone.
async fn account(
    app: &AppState,
    provider: &str,
    settings: &OidcProviderConfig,
    identity: Identity,
) -> Result<Result<UserRow, &'static str>, ApiError> {
    let email = identity.email.as_deref().map(str::trim).filter(|email| !email.is_empty());
    let domain = email.and_then(|email| email.rsplit_once('@')).map(|(_, domain)| domain);
    let domains = &settings.allowed_email_domains;
    let known_domain = || domain.is_some_and(|domain| domains.iter().any(|known| known.eq_ignore_ascii_case(domain)));
    if (settings.require_verified_email && !identity.email_verified) || (!domains.is_empty() && !known_domain()) {
        return Ok(Err("sso_not_allowed"));
    }
    let oauth = OauthIdentity { provider: provider.to_owned(), id: identity.sub };
    if let Some(user) = app.store.user_by_oauth(&oauth).await? {
        return Ok(Ok(user));
    }
    let Some(email) = email.filter(|_| settings.auto_create_users) else { return Ok(Err("sso_not_allowed")) };
    if app.store.user_by_email(email).await?.is_some() {
        return Ok(Err("sso_account_exists"));
    }
    let is_admin = settings.admin_emails.iter().any(|admin| admin.eq_ignore_ascii_case(email));
    // An address that nobody has verified makes no administrator.
    let role = if is_admin && identity.email_verified { SystemRole::Admin } else { SystemRole::User };
    Ok(Ok(app.auth.accounts.create_elsewhere(&*app.store, email, oauth, role).await?))
}

fn offered(app: &AppState) -> Result<&Oidc, ApiError> {
    app.auth.oidc.as_ref().ok_or_else(|| OidcError::Unknown.into())
}

fn base_url(oidc: &Oidc, target: Option<&Target>) -> Result<String, ApiError> {
    let told = oidc.base_url().map(str::to_owned).or_else(|| target.map(ToString::to_string));
    told.ok_or_else(|| ApiError::bad_request("The request names no host"))
}

/// A path of this site, and no address of another in disguise.
fn is_path(next: &str) -> bool {
    next.starts_with('/')
        && !next[1..].starts_with(['/', '\\'])
        && !next.contains(char::is_control)
        && next.len() <= 2048
}

fn state_cookie(provider: &str) -> String {
    format!("df_oidc_state_{provider}")
}

fn redirect(address: &str) -> Result<Response, ApiError> {
    let address = HeaderValue::try_from(address).map_err(|error| ApiError::internal(&error))?;
    Ok((StatusCode::FOUND, [(header::LOCATION, address)]).into_response())
}

impl From<OidcError> for ApiError {
    fn from(error: OidcError) -> Self {
        match &error {
            OidcError::Unknown => {
                Self::coded(StatusCode::NOT_FOUND, "provider_not_found", "There is no such identity provider")
            }
            OidcError::State => Self::forbidden("This login did not begin here, or took too long. Start again."),
            OidcError::Token(_) => Self::forbidden("What the identity provider says is refused"),
            OidcError::Provider(_) => {
                tracing::warn!(%error, "login elsewhere failed");
                Self::new(StatusCode::BAD_GATEWAY, "The identity provider does not answer as it should")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_paths_of_ours_are_gone_to() {
        for good in ["/", "/workspace", "/workspace/chats/x?y=//z"] {
            assert!(super::is_path(good), "{good}");
        }
        for bad in ["", "//evil.example", "/\\evil.example", "https://evil.example", "workspace", "/a\nb"] {
            assert!(!super::is_path(bad), "{bad:?}");
        }
    }
}
