//! Accounts.

use crate::{StoreError, ThreadId, UserId};
use async_trait::async_trait;

/// What an account may do in this installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SystemRole {
    /// Manages the installation.
    Admin,
    /// Uses it.
    User,
}

impl SystemRole {
    /// Stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::User => "user",
        }
    }
    /// Role of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Admin, Self::User].into_iter().find(|role| role.as_str() == name)
    }
}

/// Who somebody is at an identity provider. No two accounts share one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OauthIdentity {
    /// Our name of the provider.
    pub provider: String,
    /// The provider's id of the person.
    pub id: String,
}

/// An account to be made.
#[derive(Clone, PartialEq, Eq)]
pub struct NewUser {
    /// Its id.
    pub user_id: UserId,
    /// Address to log in with; kept as it is given, at most 320 bytes.
    pub email: String,
    /// Hash of the password; none for an account of an identity provider.
    pub password_hash: Option<String>,
    /// What it may do.
    pub system_role: SystemRole,
    /// Whether the owner has to choose address and password yet.
    pub needs_setup: bool,
    /// Who the owner is elsewhere.
    pub oauth: Option<OauthIdentity>,
}

/// The hash is left out.
impl std::fmt::Debug for NewUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewUser")
            .field("user_id", &self.user_id)
            .field("email", &self.email)
            .field("system_role", &self.system_role)
            .finish_non_exhaustive()
    }
}

/// An account.
#[derive(Clone, PartialEq, Eq)]
pub struct UserRow {
    /// Its id.
    pub user_id: UserId,
    /// Address to log in with, as it was given.
    pub email: String,
    /// Hash of the password; none for an account of an identity provider.
    pub password_hash: Option<String>,
    /// What it may do.
    pub system_role: SystemRole,
    /// Whether the owner has to choose address and password yet.
    pub needs_setup: bool,
    /// Grows with every change after which older sessions must not hold; from 0.
    pub token_version: u64,
    /// Who the owner is elsewhere.
    pub oauth: Option<OauthIdentity>,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
}

/// The hash is left out.
impl std::fmt::Debug for UserRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserRow")
            .field("user_id", &self.user_id)
            .field("email", &self.email)
            .field("system_role", &self.system_role)
            .field("needs_setup", &self.needs_setup)
            .field("token_version", &self.token_version)
            .field("oauth", &self.oauth)
            .field("created_at", &self.created_at)
            .finish_non_exhaustive()
    }
}

/// What to change of an account. What is absent stays.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UserPatch {
    /// A new address.
    pub email: Option<String>,
    /// The hash of a new password. Ends older sessions.
    pub password_hash: Option<String>,
    /// A new role. Ends older sessions when it differs.
    pub system_role: Option<SystemRole>,
    /// Whether the owner has to choose address and password yet.
    pub needs_setup: Option<bool>,
    /// Who the owner is elsewhere.
    pub oauth: Option<OauthIdentity>,
    /// Ends older sessions, whatever else is changed.
    pub end_sessions: bool,
}

/// Accounts. Addresses are equal whatever their case.
#[async_trait]
pub trait UserRepo: Send + Sync {
    /// Makes an account.
    ///
    /// # Errors
    /// [`StoreError::Exists`] for what is taken: `email`, `oauth identity` or `user`; [`StoreError::BadInput`] for an empty
    /// or long address.
    async fn create_user(&self, user: NewUser) -> Result<UserRow, StoreError>;

    /// Makes the first administrator, whatever role the row says. `None`, and nothing is made, when there is one: of any
    /// number of attempts, in any number of processes, one succeeds.
    ///
    /// # Errors
    /// As [`Self::create_user`].
    async fn create_first_admin(&self, user: NewUser) -> Result<Option<UserRow>, StoreError>;

    /// An account by its id.
    ///
    /// # Errors
    /// When the database fails.
    async fn user(&self, user_id: &UserId) -> Result<Option<UserRow>, StoreError>;

    /// An account by its address.
    ///
    /// # Errors
    /// When the database fails.
    async fn user_by_email(&self, email: &str) -> Result<Option<UserRow>, StoreError>;

    /// An account by its owner's identity elsewhere.
    ///
    /// # Errors
    /// When the database fails.
    async fn user_by_oauth(&self, identity: &OauthIdentity) -> Result<Option<UserRow>, StoreError>;

    /// Changes an account.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Exists`] as for [`Self::create_user`]; [`StoreError::BadInput`] when it would
    /// leave the installation without an administrator.
    async fn patch_user(&self, user_id: &UserId, patch: UserPatch) -> Result<UserRow, StoreError>;

    /// Accounts, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    async fn users(&self, limit: u32, offset: u32) -> Result<Vec<UserRow>, StoreError>;

    /// How many administrators there are.
    ///
    /// # Errors
    /// When the database fails.
    async fn count_admins(&self) -> Result<u64, StoreError>;

    /// Gives `to` the threads of `from`, with their runs and feedback, and the items of `from` under names that `to` does not
    /// use. Threads with a live run stay. The ids of the threads are answered: their files are the caller's to move.
    ///
    /// The first administrator gets what was made before there were accounts, under [`UserId::local`].
    ///
    /// # Errors
    /// When the database fails.
    async fn claim_threads(&self, from: &UserId, to: &UserId) -> Result<Vec<ThreadId>, StoreError>;
}
