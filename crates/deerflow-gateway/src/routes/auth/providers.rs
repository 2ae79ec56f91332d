//! Identity providers.

use crate::app::AppState;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

/// Where else one can log in.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Providers {
    providers: Vec<Provider>,
}

/// An identity provider.
#[derive(Debug, Serialize, ToSchema)]
struct Provider {
    /// Its id, for `/api/v1/auth/oauth/{provider}`.
    #[schema(example = "company")]
    id: String,
    /// Name to show.
    #[schema(example = "Company login")]
    display_name: String,
    /// `oidc`.
    #[serde(rename = "type")]
    kind: &'static str,
}

/// List the identity providers
#[utoipa::path(get, path = "/v1/auth/providers", tag = "auth", security(()), responses((status = 200, body = Providers)))]
pub(super) async fn list(State(app): State<AppState>) -> Json<Providers> {
    let oidc = &app.auth.settings.section.oidc;
    let offered = oidc.providers.iter().filter(|_| oidc.enabled).map(|(id, provider)| Provider {
        id: id.clone(),
        display_name: provider.display_name.clone().unwrap_or_else(|| id.clone()),
        kind: "oidc",
    });
    Json(Providers { providers: offered.collect() })
}
