//! Personal API keys.

use super::SqliteStore;
use crate::names::now;
use crate::read;
use crate::write::{ApiKeyOp, Op};
use async_trait::async_trait;
use deerflow_core::ports::{API_KEY_USE_GRAIN, ApiKeyHash, ApiKeyRepo, ApiKeyRow, NewApiKey};
use deerflow_core::{StoreError, UserId};

#[async_trait]
impl ApiKeyRepo for SqliteStore {
    async fn create_api_key(&self, user_id: &UserId, key: NewApiKey) -> Result<ApiKeyRow, StoreError> {
        let (op, row) = ApiKeyOp::create(user_id, key)?;
        self.write(Op::ApiKey(Box::new(op))).await?;
        Ok(row)
    }

    async fn api_keys(&self, user_id: &UserId) -> Result<Vec<ApiKeyRow>, StoreError> {
        let mut view = self.view().await?;
        read::api_keys(&mut view, &self.place, user_id).await
    }

    async fn api_key_by_hash(&self, hash: &ApiKeyHash) -> Result<Option<ApiKeyRow>, StoreError> {
        let mut view = self.view().await?;
        read::api_key_by_hash(&mut view, &self.place, hash).await
    }

    async fn touch_api_key(&self, key: &ApiKeyRow) -> Result<(), StoreError> {
        if key.last_used_at.is_some_and(|used| now() - used < API_KEY_USE_GRAIN) {
            return Ok(());
        }
        self.write(Op::ApiKey(Box::new(ApiKeyOp::Touch { key_id: key.key_id.clone() }))).await.map(drop)
    }

    async fn revoke_api_key(&self, user_id: &UserId, key_id: &str) -> Result<(), StoreError> {
        let op = ApiKeyOp::Revoke { user_id: user_id.clone(), key_id: key_id.to_owned() };
        self.write(Op::ApiKey(Box::new(op))).await.map(drop)
    }
}
