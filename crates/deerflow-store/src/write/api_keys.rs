//! Personal API keys.

use super::Done;
use crate::error::Fault;
use crate::names::now;
use deerflow_core::ports::{API_KEY_USE_GRAIN, API_KEYS_PER_USER, ApiKeyRow, NewApiKey};
use deerflow_core::{StoreError, UserId};
use sqlx::{Row as _, SqliteConnection};

/// Longest name of a key, in characters.
const NAME_CHARS: usize = 100;
/// Longest visible beginning of a key, in bytes.
const PREFIX_BYTES: usize = 32;

/// What is done to keys.
#[derive(Debug)]
pub(crate) enum ApiKeyOp {
    Create { key: NewApiKey, row: ApiKeyRow },
    Touch { key_id: String },
    Revoke { user_id: UserId, key_id: String },
}

impl ApiKeyOp {
    /// A key with the row it will be.
    pub(crate) fn create(user_id: &UserId, key: NewApiKey) -> Result<(Self, ApiKeyRow), StoreError> {
        let bad = |field, reason| StoreError::BadInput { field, reason };
        if key.name.trim().is_empty() || key.name.chars().count() > NAME_CHARS {
            return Err(bad("name", format!("must be 1 to {NAME_CHARS} characters")));
        }
        if key.prefix.len() > PREFIX_BYTES {
            return Err(bad("prefix", format!("must be at most {PREFIX_BYTES} bytes")));
        }
        let row = ApiKeyRow {
            key_id: uuid::Uuid::new_v4().to_string(),
            user_id: user_id.clone(),
            name: key.name.clone(),
            prefix: key.prefix.clone(),
            created_at: now(),
            last_used_at: None,
            expires_at: key.expires_at,
        };
        Ok((Self::Create { key, row: row.clone() }, row))
    }
}

pub(super) async fn execute(conn: &mut SqliteConnection, op: &ApiKeyOp) -> Result<Done, Fault> {
    match op {
        ApiKeyOp::Create { key, row } => create(conn, key, row).await,
        ApiKeyOp::Touch { key_id } => touch(conn, key_id).await,
        ApiKeyOp::Revoke { user_id, key_id } => revoke(conn, user_id, key_id).await,
    }
}

const LOOK: &str = "
    SELECT (SELECT count(*) FROM api_keys WHERE user_id = $1), EXISTS (SELECT 1 FROM api_keys WHERE hash = $2)";
const CREATE: &str = "
    INSERT INTO api_keys (key_id, user_id, name, hash, prefix, created_at, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";

async fn create(conn: &mut SqliteConnection, key: &NewApiKey, row: &ApiKeyRow) -> Result<Done, Fault> {
    let look =
        sqlx::query(LOOK).bind(row.user_id.as_str().to_owned()).bind(key.hash.0.to_vec()).fetch_one(&mut *conn).await?;
    if look.try_get::<i64, _>(0)? >= i64::from(API_KEYS_PER_USER) {
        let reason = format!("there are {API_KEYS_PER_USER} already; revoke one first");
        return Err(StoreError::BadInput { field: "api keys", reason }.into());
    }
    if look.try_get::<bool, _>(1)? {
        return Err(StoreError::Exists { what: "api key", id: row.prefix.clone() }.into());
    }
    sqlx::query(CREATE)
        .bind(row.key_id.clone())
        .bind(row.user_id.as_str().to_owned())
        .bind(row.name.clone())
        .bind(key.hash.0.to_vec())
        .bind(row.prefix.clone())
        .bind(row.created_at)
        .bind(row.expires_at)
        .execute(conn)
        .await?;
    Ok(Done::Nothing)
}

/// Another process may have written it meanwhile.
const TOUCH: &str = "
    UPDATE api_keys SET last_used_at = $2 WHERE key_id = $1 AND (last_used_at IS NULL OR last_used_at <= $2 - $3)";

async fn touch(conn: &mut SqliteConnection, key_id: &str) -> Result<Done, Fault> {
    sqlx::query(TOUCH).bind(key_id.to_owned()).bind(now()).bind(API_KEY_USE_GRAIN).execute(conn).await?;
    Ok(Done::Nothing)
}

async fn revoke(conn: &mut SqliteConnection, user_id: &UserId, key_id: &str) -> Result<Done, Fault> {
    let gone = sqlx::query("DELETE FROM api_keys WHERE user_id = $1 AND key_id = $2")
        .bind(user_id.as_str().to_owned())
        .bind(key_id.to_owned())
        .execute(conn)
        .await?;
    if gone.rows_affected() == 0 {
        return Err(StoreError::NotFound { what: "api key", id: key_id.to_owned() }.into());
    }
    Ok(Done::Nothing)
}
