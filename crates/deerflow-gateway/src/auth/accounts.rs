//! Accounts: who gets one, and how it changes.

use super::Verdict;
use super::password::{HashError, Passwords, WeakPassword, check_password};
use deerflow_config::Secret;
use deerflow_core::ports::{NewUser, OauthIdentity, SystemRole, UserPatch, UserRepo, UserRow};
use deerflow_core::{StoreError, UserId};

/// An account cannot be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// What was given is no e-mail address.
    #[error("value is not a valid email address")]
    Email,
    /// Not good enough.
    #[error(transparent)]
    Password(#[from] WeakPassword),
    /// Somebody has this address.
    #[error("an account with this email exists already")]
    EmailTaken,
    /// There is an administrator.
    #[error("the installation has an administrator already")]
    Initialized,
    /// It could not be hashed.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// The database failed.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for AccountError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Exists { what: "email", .. } => Self::EmailTaken,
            other => Self::Store(other),
        }
    }
}

/// Makes and changes accounts. Holds no account: each call is given the database.
#[derive(Clone, Default)]
pub struct Accounts {
    passwords: Passwords,
}

impl Accounts {
    /// Over these.
    pub(crate) fn new(passwords: Passwords) -> Self {
        Self { passwords }
    }

    /// Makes the first account, which administers the installation. It is the local user of the command line: what was made
    /// before there were accounts belongs to it.
    ///
    /// # Errors
    /// [`AccountError`]; [`AccountError::Initialized`] when there is an administrator.
    pub async fn initialize(
        &self,
        store: &impl UserRepo,
        email: &str,
        password: &Secret,
    ) -> Result<UserRow, AccountError> {
        if store.count_admins().await? > 0 {
            return Err(AccountError::Initialized);
        }
        let mut user = self.draft(email, password).await?;
        user.user_id = UserId::local();
        let made = match store.create_first_admin(user.clone()).await {
            // An ordinary account has the id already.
            Err(StoreError::Exists { what: "user", .. }) => {
                store.create_first_admin(NewUser { user_id: UserId::random(), ..user }).await?
            }
            other => other?,
        };
        made.ok_or(AccountError::Initialized)
    }

    /// Makes an account with a password.
    ///
    /// # Errors
    /// [`AccountError`].
    pub async fn create(
        &self,
        store: &impl UserRepo,
        email: &str,
        password: &Secret,
        role: SystemRole,
    ) -> Result<UserRow, AccountError> {
        let user = self.draft(email, password).await?;
        Ok(store.create_user(NewUser { system_role: role, ..user }).await?)
    }

    /// Makes an account of somebody who logs in elsewhere.
    pub(crate) async fn create_elsewhere(
        &self,
        store: &impl UserRepo,
        email: &str,
        oauth: OauthIdentity,
        role: SystemRole,
    ) -> Result<UserRow, AccountError> {
        let email = checked_email(email)?;
        let user = NewUser {
            user_id: UserId::random(),
            email,
            password_hash: None,
            system_role: role,
            needs_setup: false,
            oauth: Some(oauth),
        };
        Ok(store.create_user(user).await?)
    }

    async fn draft(&self, email: &str, password: &Secret) -> Result<NewUser, AccountError> {
        let email = checked_email(email)?;
        check_password(password.expose())?;
        Ok(NewUser {
            user_id: UserId::random(),
            email,
            password_hash: Some(self.passwords.hash(password).await?),
            system_role: SystemRole::User,
            needs_setup: false,
            oauth: None,
        })
    }

    /// The account of this address, if the password is right. One that is kept in an older way is kept anew.
    pub(crate) async fn login(
        &self,
        store: &impl UserRepo,
        email: &str,
        password: &Secret,
    ) -> Result<Option<UserRow>, AccountError> {
        let user = store.user_by_email(email.trim()).await?;
        let hash = user.as_ref().and_then(|user| user.password_hash.clone());
        let verdict = self.passwords.verify(password, hash).await?;
        let (Some(user), true) = (user, verdict != Verdict::Wrong) else { return Ok(None) };
        if verdict == Verdict::Outdated {
            let hash = self.passwords.hash(password).await?;
            return Ok(Some(store.patch_user(&user.user_id, rehash(hash)).await?));
        }
        Ok(Some(user))
    }

    /// Whether this is the password of the account.
    pub(crate) async fn is_password(&self, user: &UserRow, password: &Secret) -> Result<bool, HashError> {
        Ok(self.passwords.verify(password, user.password_hash.clone()).await? != Verdict::Wrong)
    }

    /// Gives an account a new password, and perhaps a new address. Its sessions end.
    ///
    /// # Errors
    /// [`AccountError`].
    pub async fn change(
        &self,
        store: &impl UserRepo,
        user_id: &UserId,
        password: &Secret,
        email: Option<&str>,
    ) -> Result<UserRow, AccountError> {
        check_password(password.expose())?;
        let email = email.map(checked_email).transpose()?;
        let password_hash = Some(self.passwords.hash(password).await?);
        let patch = UserPatch { email, password_hash, needs_setup: Some(false), ..UserPatch::default() };
        Ok(store.patch_user(user_id, patch).await?)
    }
}

/// The hash alone. Sessions from before end, as with any new hash; at a login that is no loss.
fn rehash(hash: String) -> UserPatch {
    UserPatch { password_hash: Some(hash), ..UserPatch::default() }
}

/// The address without blanks around it.
fn checked_email(email: &str) -> Result<String, AccountError> {
    let email = email.trim();
    let (name, domain) = email.rsplit_once('@').ok_or(AccountError::Email)?;
    let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | ',' | ';' | '"' | '\\');
    if name.is_empty() || domain.is_empty() || email.len() > 320 || email.contains(bad) || name.contains('@') {
        return Err(AccountError::Email);
    }
    Ok(email.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_other_texts() {
        assert_eq!(checked_email("  Ann@Example.com ").unwrap(), "Ann@Example.com");
        assert!(checked_email("ann@localhost").is_ok());
        let long = format!("{}@example.com", "a".repeat(320));
        for bad in ["", "@", "ann", "ann@", "@example.com", "a b@c.d", "a@b@c.d", "a\n@b.c", "Ann <ann@b.c>", &long] {
            assert!(checked_email(bad).is_err(), "{bad:?}");
        }
    }
}
