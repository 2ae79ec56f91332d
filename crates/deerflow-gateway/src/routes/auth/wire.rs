//! Accounts as clients see them, and how refusals read.

use crate::app::AppState;
use crate::auth::{AccountError, CookieRules, HashError, Target};
use crate::error::ApiError;
use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use deerflow_config::Secret;
use deerflow_core::ports::UserRow;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

/// An account.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct User {
    /// Its id.
    #[schema(example = "default")]
    pub(super) id: String,
    /// Address to log in with.
    #[schema(example = "ann@example.com")]
    pub(super) email: String,
    /// `admin` or `user`.
    #[schema(example = "admin")]
    pub(super) system_role: String,
    /// Whether address and password have to be chosen yet.
    pub(super) needs_setup: bool,
    /// Identity provider that it came from.
    pub(super) oauth_provider: Option<String>,
}

impl From<UserRow> for User {
    fn from(row: UserRow) -> Self {
        Self {
            id: row.user_id.to_string(),
            email: row.email,
            system_role: row.system_role.as_str().to_owned(),
            needs_setup: row.needs_setup,
            oauth_provider: row.oauth.map(|oauth| oauth.provider),
        }
    }
}

/// A new account.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct NewAccount {
    /// Address to log in with.
    #[schema(example = "ann@example.com")]
    pub(super) email: String,
    /// At least 8 characters, and none of the common ones.
    #[schema(value_type = String, format = Password, min_length = 8, max_length = 1024, example = "three grey herons")]
    pub(super) password: Secret,
    /// Whether the login outlives the browser.
    #[serde(default = "yes")]
    pub(super) remember_me: bool,
}

pub(super) fn yes() -> bool {
    true
}

/// What is to say when there is nothing else.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Message {
    /// What was done.
    pub(super) message: String,
}

/// An answer with the cookies of a new session.
pub(super) fn logged_in(
    app: &AppState,
    headers: &HeaderMap,
    user: &UserRow,
    remember: bool,
    status: StatusCode,
    body: impl Serialize,
) -> Result<Response, ApiError> {
    let cookies = session_cookies(app, headers, user, remember)?;
    let mut response = (status, Json(body)).into_response();
    response.headers_mut().extend(cookies.into_iter().map(|cookie| (header::SET_COOKIE, cookie)));
    Ok(response)
}

/// The cookies of a new session.
pub(super) fn session_cookies(
    app: &AppState,
    headers: &HeaderMap,
    user: &UserRow,
    remember: bool,
) -> Result<Vec<HeaderValue>, ApiError> {
    let settings = &app.auth.settings;
    let seconds = settings.session_seconds();
    let target = Target::of(headers);
    let rules = CookieRules::new(target.as_ref(), remember, seconds, settings.keeps_insecure());
    Ok(rules.login(app.auth.signer.session(user, seconds)?))
}

/// 422 about one field of the body. What was given is not repeated.
fn unfit(field: &str, message: &dyn std::fmt::Display) -> ApiError {
    ApiError::invalid("value_error", json!(["body", field]), format!("Value error, {message}"), Value::Null)
}

impl From<AccountError> for ApiError {
    fn from(error: AccountError) -> Self {
        match &error {
            AccountError::Email => unfit("email", &error),
            AccountError::Password(weak) => unfit("password", weak),
            AccountError::EmailTaken => {
                Self::coded(StatusCode::BAD_REQUEST, "email_already_exists", "Email already registered")
            }
            AccountError::Initialized => {
                Self::coded(StatusCode::CONFLICT, "system_already_initialized", "System already initialized")
            }
            AccountError::Hash(_) => Self::internal(&error),
            AccountError::Store(_) => match error {
                AccountError::Store(store) => store.into(),
                other => Self::internal(&other),
            },
        }
    }
}

impl From<HashError> for ApiError {
    fn from(error: HashError) -> Self {
        Self::internal(&error)
    }
}
