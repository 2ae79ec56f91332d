//! Accounts.

use super::SqliteStore;
use crate::read;
use crate::write::{Done, Op, UserOp};
use async_trait::async_trait;
use deerflow_core::ports::{NewUser, OauthIdentity, UserPatch, UserRepo, UserRow};
use deerflow_core::{StoreError, ThreadId, UserId};

impl SqliteStore {
    async fn known_user(&self, user_id: &UserId) -> Result<UserRow, StoreError> {
        let row = self.user(user_id).await?;
        row.ok_or_else(|| StoreError::NotFound { what: "user", id: user_id.to_string() })
    }
}

#[async_trait]
impl UserRepo for SqliteStore {
    async fn create_user(&self, user: NewUser) -> Result<UserRow, StoreError> {
        let user_id = user.user_id.clone();
        self.write(Op::User(Box::new(UserOp::create(user, false)?))).await?;
        self.known_user(&user_id).await
    }

    async fn create_first_admin(&self, user: NewUser) -> Result<Option<UserRow>, StoreError> {
        let user_id = user.user_id.clone();
        match self.write(Op::User(Box::new(UserOp::create(user, true)?))).await? {
            Done::Created(true) => self.known_user(&user_id).await.map(Some),
            _ => Ok(None),
        }
    }

    async fn user(&self, user_id: &UserId) -> Result<Option<UserRow>, StoreError> {
        let mut view = self.view().await?;
        read::user(&mut view, &self.place, user_id).await
    }

    async fn user_by_email(&self, email: &str) -> Result<Option<UserRow>, StoreError> {
        let mut view = self.view().await?;
        read::user_by_email(&mut view, &self.place, email).await
    }

    async fn user_by_oauth(&self, identity: &OauthIdentity) -> Result<Option<UserRow>, StoreError> {
        let mut view = self.view().await?;
        read::user_by_oauth(&mut view, &self.place, identity).await
    }

    async fn patch_user(&self, user_id: &UserId, patch: UserPatch) -> Result<UserRow, StoreError> {
        self.write(Op::User(Box::new(UserOp::patch(user_id.clone(), patch)?))).await?;
        self.known_user(user_id).await
    }

    async fn users(&self, limit: u32, offset: u32) -> Result<Vec<UserRow>, StoreError> {
        let mut view = self.view().await?;
        read::users(&mut view, &self.place, limit, offset).await
    }

    async fn count_admins(&self) -> Result<u64, StoreError> {
        let mut view = self.view().await?;
        read::count_admins(&mut view, &self.place).await
    }

    async fn claim_threads(&self, from: &UserId, to: &UserId) -> Result<Vec<ThreadId>, StoreError> {
        let op = UserOp::Claim { from: from.clone(), to: to.clone() };
        match self.write(Op::User(Box::new(op))).await? {
            Done::Threads(threads) => Ok(threads),
            _ => Err(StoreError::Database("no threads were answered".to_owned())),
        }
    }
}
