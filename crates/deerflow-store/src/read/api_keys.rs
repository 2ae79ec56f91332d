//! Personal API keys.

use crate::error::Place;
use crate::names::{id, now};
use deerflow_core::ports::{ApiKeyHash, ApiKeyRow};
use deerflow_core::{StoreError, UserId};
use sqlx::{FromRow, SqliteConnection};

#[derive(FromRow)]
struct RawApiKey {
    key_id: String,
    user_id: String,
    name: String,
    prefix: String,
    created_at: i64,
    last_used_at: Option<i64>,
    expires_at: Option<i64>,
}

impl RawApiKey {
    fn read(self) -> Result<ApiKeyRow, StoreError> {
        Ok(ApiKeyRow {
            key_id: self.key_id,
            user_id: id(self.user_id)?,
            name: self.name,
            prefix: self.prefix,
            created_at: self.created_at,
            last_used_at: self.last_used_at,
            expires_at: self.expires_at,
        })
    }
}

const OF_USER: &str = "
    SELECT key_id, user_id, name, prefix, created_at, last_used_at, expires_at FROM api_keys
        WHERE user_id = $1 ORDER BY created_at DESC, api_key DESC";
const BY_HASH: &str = "
    SELECT key_id, user_id, name, prefix, created_at, last_used_at, expires_at FROM api_keys
        WHERE hash = $1 AND (expires_at IS NULL OR expires_at > $2)";

pub(crate) async fn api_keys(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
) -> Result<Vec<ApiKeyRow>, StoreError> {
    let query = sqlx::query_as::<_, RawApiKey>(OF_USER).bind(user_id.as_str().to_owned());
    let rows = query.fetch_all(view).await.map_err(|error| place.explain(&error))?;
    rows.into_iter().map(RawApiKey::read).collect()
}

pub(crate) async fn api_key_by_hash(
    view: &mut SqliteConnection,
    place: &Place,
    hash: &ApiKeyHash,
) -> Result<Option<ApiKeyRow>, StoreError> {
    let query = sqlx::query_as::<_, RawApiKey>(BY_HASH).bind(hash.0.to_vec()).bind(now());
    let row = query.fetch_optional(view).await.map_err(|error| place.explain(&error))?;
    row.map(RawApiKey::read).transpose()
}
