//! Personal keys, for programs.

use crate::app::AppState;
use crate::auth::FreshApiKey;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Bounded, Json as Body, Path};
use crate::wire::iso;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use deerflow_core::StoreError;
use deerflow_core::ports::{ApiKeyRepo as _, ApiKeyRow, NewApiKey};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

const DAY_MICROS: i64 = 86_400_000_000;

/// A personal key, without the key.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ApiKey {
    /// Its id.
    id: String,
    /// Your name for it.
    #[schema(example = "laptop")]
    name: String,
    /// Its first characters.
    #[schema(example = "df_k3Jx81aQ")]
    prefix: String,
    /// ISO 8601.
    created_at: String,
    /// ISO 8601, to the minute.
    last_used_at: Option<String>,
    /// ISO 8601; never when absent.
    expires_at: Option<String>,
}

impl From<ApiKeyRow> for ApiKey {
    fn from(row: ApiKeyRow) -> Self {
        Self {
            id: row.key_id,
            name: row.name,
            prefix: row.prefix,
            created_at: iso(row.created_at),
            last_used_at: row.last_used_at.map(iso),
            expires_at: row.expires_at.map(iso),
        }
    }
}

/// Your keys.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ApiKeys {
    api_keys: Vec<ApiKey>,
}

/// A key to be made.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct NewKey {
    /// Your name for it.
    #[schema(min_length = 1, max_length = 100, example = "laptop")]
    name: String,
    /// Days until it stops to hold; never when absent.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 3650)]
    expires_in_days: Option<Bounded<1, 3650>>,
}

/// A new key. It is not shown again.
#[derive(Serialize, ToSchema)]
pub(super) struct MadeKey {
    #[serde(flatten)]
    shown: ApiKey,
    /// The key, for `Authorization: Bearer` or `x-api-key`.
    #[schema(example = "df_k3Jx81aQ…")]
    key: String,
}

/// List your keys
#[utoipa::path(get, path = "/v1/auth/api-keys", tag = "auth", responses((status = 200, body = ApiKeys)))]
pub(super) async fn list(caller: Caller, State(app): State<AppState>) -> Result<Json<ApiKeys>, ApiError> {
    let rows = app.store.api_keys(&caller.user_id).await?;
    Ok(Json(ApiKeys { api_keys: rows.into_iter().map(ApiKey::from).collect() }))
}

/// Make a key
///
/// A request with it needs no cookies and no CSRF token: `Authorization: Bearer df_…` or `x-api-key: df_…`.
#[utoipa::path(post, path = "/v1/auth/api-keys", tag = "auth", request_body = NewKey,
    responses((status = 201, body = MadeKey), (status = 422, description = "The name is empty or long, or there are many keys")))]
pub(super) async fn create(
    caller: Caller,
    State(app): State<AppState>,
    Body(new): Body<NewKey>,
) -> Result<(StatusCode, Json<MadeKey>), ApiError> {
    let fresh = FreshApiKey::generate();
    let expires_at = new
        .expires_in_days
        .map(|days| jiff::Timestamp::now().as_microsecond().saturating_add(i64::from(days.get()) * DAY_MICROS));
    let key = NewApiKey { name: new.name, hash: fresh.hash, prefix: fresh.prefix, expires_at };
    let row = app.store.create_api_key(&caller.user_id, key).await.map_err(|error| match error {
        StoreError::BadInput { field, reason } => {
            ApiError::invalid("value_error", json!(["body", field]), format!("Value error, {reason}"), Value::Null)
        }
        other => other.into(),
    })?;
    Ok((StatusCode::CREATED, Json(MadeKey { shown: row.into(), key: fresh.key.expose().to_owned() })))
}

#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct KeyId {
    /// Id of a key.
    key_id: String,
}

/// Revoke a key
#[utoipa::path(delete, path = "/v1/auth/api-keys/{key_id}", tag = "auth", params(KeyId),
    responses((status = 204, description = "It does not hold any more"), (status = 404, description = "You have no such key")))]
pub(super) async fn revoke(
    caller: Caller,
    State(app): State<AppState>,
    Path(KeyId { key_id }): Path<KeyId>,
) -> Result<StatusCode, ApiError> {
    match app.store.revoke_api_key(&caller.user_id, &key_id).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(StoreError::NotFound { .. }) => Err(ApiError::not_found("API key not found")),
        Err(other) => Err(other.into()),
    }
}
