//! Accounts, sessions and personal keys.

mod account;
mod api_keys;
mod login;
mod oauth;
mod providers;
mod setup;
mod wire;

use crate::app::AppState;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(setup::status))
        .routes(routes!(setup::initialize))
        .routes(routes!(setup::register))
        .routes(routes!(login::login))
        .routes(routes!(login::logout))
        .routes(routes!(account::me))
        .routes(routes!(account::change_password))
        .routes(routes!(providers::list))
        .routes(routes!(oauth::begin))
        .routes(routes!(oauth::callback))
        .routes(routes!(api_keys::list, api_keys::create))
        .routes(routes!(api_keys::revoke))
}
