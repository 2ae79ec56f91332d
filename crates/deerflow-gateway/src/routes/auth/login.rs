//! Begin and end of a session.

use super::wire::{Message, logged_in, yes};
use crate::app::AppState;
use crate::auth::ClientAddress;
use crate::error::ApiError;
use crate::extract::Form;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use deerflow_config::Secret;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::time::Instant;
use utoipa::ToSchema;

/// Who logs in.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Login {
    /// The account's address.
    #[schema(example = "ann@example.com")]
    username: String,
    /// Its password.
    #[schema(value_type = String, format = Password, example = "three grey herons")]
    password: Secret,
    /// Whether the login outlives the browser.
    #[serde(default = "yes", deserialize_with = "flag")]
    remember_me: bool,
}

/// A flag of a form: `true`, `1`, `on` or `yes`, and their opposites.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match String::deserialize(deserializer)?.to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "yes" => Ok(true),
        "false" | "0" | "off" | "no" => Ok(false),
        _ => Err(de::Error::custom("Input should be a valid boolean, unable to interpret input")),
    }
}

/// A session has begun; it is in the cookies.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LoggedIn {
    /// Seconds that it lasts.
    #[schema(example = 604_800)]
    expires_in: u64,
    /// Whether address and password have to be chosen yet.
    needs_setup: bool,
}

/// Log in
#[utoipa::path(post, path = "/v1/auth/login/local", tag = "auth", security(()),
    request_body(content = Login, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, body = LoggedIn), (status = 401, description = "Address or password is wrong"),
        (status = 429, description = "Five wrong ones: wait five minutes")))]
pub(super) async fn login(
    State(app): State<AppState>,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    Form(login): Form<Login>,
) -> Result<Response, ApiError> {
    if !app.auth.attempts.begin(address, Instant::now()) {
        let message = "Too many login attempts. Try again later.";
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, message));
    }
    let user = app.auth.accounts.login(&*app.store, &login.username, &login.password).await?;
    let Some(user) = user else {
        return Err(ApiError::unauthorized("invalid_credentials", "Incorrect email or password"));
    };
    app.auth.attempts.succeeded(address);
    let body = LoggedIn { expires_in: app.auth.settings.session_seconds(), needs_setup: user.needs_setup };
    logged_in(&app, &headers, &user, login.remember_me, StatusCode::OK, body)
}

/// Log out
///
/// The cookies go. Other sessions go on; a new password ends them.
#[utoipa::path(post, path = "/v1/auth/logout", tag = "auth", security(()), responses((status = 200, body = Message)))]
pub(super) async fn logout() -> Response {
    let mut response = Json(Message { message: "Successfully logged out".to_owned() }).into_response();
    let cookies = crate::auth::logout().into_iter().map(|cookie| (header::SET_COOKIE, cookie));
    response.headers_mut().extend(cookies);
    response
}
