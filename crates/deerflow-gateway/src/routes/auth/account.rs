//! One's own account.

use super::wire::{Message, User, logged_in, yes};
use crate::app::AppState;
use crate::auth::ClientAddress;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Json as Body;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use deerflow_config::Secret;
use deerflow_core::ports::UserRepo as _;
use serde::Deserialize;
use std::time::Instant;
use utoipa::ToSchema;

/// Show your account
#[utoipa::path(get, path = "/v1/auth/me", tag = "auth", responses((status = 200, body = User)))]
pub(super) async fn me(caller: Caller, State(app): State<AppState>) -> Result<Json<User>, ApiError> {
    let row = app.store.user(&caller.user_id).await?;
    Ok(Json(row.map_or_else(
        // Without login, or asked for by another process of ours.
        || User {
            id: caller.user_id.to_string(),
            email: format!("{}@test.local", caller.user_id),
            system_role: caller.principal.user_role.clone().unwrap_or_else(|| "user".to_owned()),
            needs_setup: false,
            oauth_provider: None,
        },
        User::from,
    )))
}

/// A new password, and perhaps a new address.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct NewPassword {
    /// The one that is to go.
    #[schema(value_type = String, format = Password, example = "three grey herons")]
    current_password: Secret,
    /// At least 8 characters, and none of the common ones.
    #[schema(value_type = String, format = Password, min_length = 8, max_length = 1024, example = "four grey herons")]
    new_password: Secret,
    /// A new address to log in with.
    new_email: Option<String>,
    /// Whether the login outlives the browser.
    #[serde(default = "yes")]
    remember_me: bool,
}

/// Change your password
///
/// Your other sessions end; this one goes on with new cookies. Personal keys stay.
#[utoipa::path(post, path = "/v1/auth/change-password", tag = "auth", request_body = NewPassword,
    responses((status = 200, body = Message), (status = 400, description = "The old password is wrong, the address is taken, or there is no password here"),
        (status = 422, description = "The new password is weak")))]
pub(super) async fn change_password(
    caller: Caller,
    State(app): State<AppState>,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    Body(new): Body<NewPassword>,
) -> Result<Response, ApiError> {
    let refuse = |message| Err(ApiError::coded(StatusCode::BAD_REQUEST, "invalid_credentials", message));
    let Some(user) = app.store.user(&caller.user_id).await? else {
        return refuse("There is no account to change: login is off");
    };
    if user.password_hash.is_none() {
        return refuse("OAuth users cannot change password");
    }
    if !app.auth.attempts.begin(address, Instant::now()) {
        let message = "Too many login attempts. Try again later.";
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, message));
    }
    if !app.auth.accounts.is_password(&user, &new.current_password).await? {
        return refuse("Current password is incorrect");
    }
    app.auth.attempts.succeeded(address);
    let accounts = &app.auth.accounts;
    let user = accounts.change(&*app.store, &user.user_id, &new.new_password, new.new_email.as_deref()).await?;
    let message = Message { message: "Password changed successfully".to_owned() };
    logged_in(&app, &headers, &user, new.remember_me, StatusCode::OK, message)
}
