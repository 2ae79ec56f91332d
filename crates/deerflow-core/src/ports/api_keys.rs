//! Personal API keys. A key is shown once, when it is made; the database holds its hash.

use crate::{StoreError, UserId};
use async_trait::async_trait;

/// Keys of one user at most.
pub const API_KEYS_PER_USER: u32 = 100;
/// How coarse [`ApiKeyRow::last_used_at`] is, in microseconds: a minute.
pub const API_KEY_USE_GRAIN: i64 = 60_000_000;

/// SHA-256 of a key. Keys are long and random, so that a fast hash suffices.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ApiKeyHash(pub [u8; 32]);

/// The hash is left out.
impl std::fmt::Debug for ApiKeyHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiKeyHash(…)")
    }
}

/// A key to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApiKey {
    /// The owner's name for it; 1 to 100 characters.
    pub name: String,
    /// Its hash.
    pub hash: ApiKeyHash,
    /// First characters of the key, by which the owner knows it again; at most 32 bytes.
    pub prefix: String,
    /// When it stops to hold, in microseconds since 1970, UTC; never when absent.
    pub expires_at: Option<i64>,
}

/// A key that was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRow {
    /// Its id, for revoking it.
    pub key_id: String,
    /// Whose it is.
    pub user_id: UserId,
    /// The owner's name for it.
    pub name: String,
    /// First characters of the key.
    pub prefix: String,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
    /// Last use, as coarse as [`API_KEY_USE_GRAIN`], in microseconds since 1970, UTC.
    pub last_used_at: Option<i64>,
    /// When it stops to hold, in microseconds since 1970, UTC.
    pub expires_at: Option<i64>,
}

/// Personal API keys. A revoked key is deleted.
#[async_trait]
pub trait ApiKeyRepo: Send + Sync {
    /// Stores a key of a user.
    ///
    /// # Errors
    /// [`StoreError::BadInput`] for a bad name or prefix, and beyond [`API_KEYS_PER_USER`]; [`StoreError::Exists`] for a hash
    /// that is there.
    async fn create_api_key(&self, user_id: &UserId, key: NewApiKey) -> Result<ApiKeyRow, StoreError>;

    /// Keys of a user, newest first, expired ones too.
    ///
    /// # Errors
    /// When the database fails.
    async fn api_keys(&self, user_id: &UserId) -> Result<Vec<ApiKeyRow>, StoreError>;

    /// The key of this hash, if it holds now.
    ///
    /// # Errors
    /// When the database fails.
    async fn api_key_by_hash(&self, hash: &ApiKeyHash) -> Result<Option<ApiKeyRow>, StoreError>;

    /// Remembers that a key is used now. Writes only when the row is older than [`API_KEY_USE_GRAIN`].
    ///
    /// # Errors
    /// When the database fails. A key that was revoked meanwhile is none.
    async fn touch_api_key(&self, key: &ApiKeyRow) -> Result<(), StoreError>;

    /// Revokes a key of a user.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the user has no such key.
    async fn revoke_api_key(&self, user_id: &UserId, key_id: &str) -> Result<(), StoreError>;
}
