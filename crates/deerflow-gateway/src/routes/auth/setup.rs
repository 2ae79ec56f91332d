//! The first account, and further ones.

use super::wire::{NewAccount, User, logged_in};
use crate::app::AppState;
use crate::error::ApiError;
use crate::extract::Json as Body;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use deerflow_core::ports::{SystemRole, UserRepo as _};
use serde::Serialize;
use utoipa::ToSchema;

/// Whether there is something to set up.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SetupStatus {
    /// There is no administrator yet: `initialize` makes one.
    needs_setup: bool,
    /// Whether `register` makes accounts.
    registration_enabled: bool,
}

/// Ask whether there is an administrator
#[utoipa::path(get, path = "/v1/auth/setup-status", tag = "auth", security(()), responses((status = 200, body = SetupStatus)))]
pub(super) async fn status(State(app): State<AppState>) -> Result<Json<SetupStatus>, ApiError> {
    let needs_setup = app.auth.is_enabled() && app.store.count_admins().await? == 0;
    Ok(Json(SetupStatus { needs_setup, registration_enabled: app.auth.registration_is_open() }))
}

/// Make the first account
///
/// It administers the installation, and owns what was made on the command line. You are logged in.
#[utoipa::path(post, path = "/v1/auth/initialize", tag = "auth", security(()), request_body = NewAccount,
    responses((status = 201, body = User), (status = 409, description = "There is an administrator"),
        (status = 422, description = "The password is weak")))]
pub(super) async fn initialize(
    State(app): State<AppState>,
    headers: HeaderMap,
    Body(new): Body<NewAccount>,
) -> Result<Response, ApiError> {
    let user = app.auth.accounts.initialize(&*app.store, &new.email, &new.password).await?;
    tracing::info!(user_id = %user.user_id, "the first account was made");
    logged_in(&app, &headers, &user, new.remember_me, StatusCode::CREATED, User::from(user.clone()))
}

/// Make an account
///
/// You are logged in.
#[utoipa::path(post, path = "/v1/auth/register", tag = "auth", security(()), request_body = NewAccount,
    responses((status = 201, body = User), (status = 400, description = "The address is taken"),
        (status = 403, description = "Accounts are made by the operator"), (status = 422, description = "The password is weak")))]
pub(super) async fn register(
    State(app): State<AppState>,
    headers: HeaderMap,
    Body(new): Body<NewAccount>,
) -> Result<Response, ApiError> {
    if !app.auth.registration_is_open() {
        return Err(ApiError::coded(StatusCode::FORBIDDEN, "registration_disabled", "Registration is disabled"));
    }
    let user = app.auth.accounts.create(&*app.store, &new.email, &new.password, SystemRole::User).await?;
    tracing::info!(user_id = %user.user_id, "an account was made");
    logged_in(&app, &headers, &user, new.remember_me, StatusCode::CREATED, User::from(user.clone()))
}
