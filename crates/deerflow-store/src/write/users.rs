//! Accounts.

use super::Done;
use crate::error::Fault;
use crate::names::{id, now};
use deerflow_core::ports::{NewUser, OauthIdentity, SystemRole, UserPatch};
use deerflow_core::{StoreError, ThreadId, UserId};
use sqlx::{Row as _, SqliteConnection};

/// Longest address, in bytes: RFC 5321 allows 64 before the `@` and 255 after it.
const EMAIL_BYTES: usize = 320;

/// What is done to accounts.
#[derive(Debug)]
pub(crate) enum UserOp {
    Create {
        user: NewUser,
        /// Only when there is no administrator.
        first_admin: bool,
    },
    Patch {
        user_id: UserId,
        patch: PatchedUser,
    },
    Claim {
        from: UserId,
        to: UserId,
    },
}

/// A checked patch.
#[derive(Clone)]
pub(crate) struct PatchedUser(UserPatch);

/// Hashes do not belong in logs.
impl std::fmt::Debug for PatchedUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PatchedUser(…)")
    }
}

impl UserOp {
    pub(crate) fn create(user: NewUser, first_admin: bool) -> Result<Self, StoreError> {
        check_email(&user.email)?;
        Ok(Self::Create { user, first_admin })
    }

    pub(crate) fn patch(user_id: UserId, patch: UserPatch) -> Result<Self, StoreError> {
        patch.email.as_deref().map_or(Ok(()), check_email)?;
        Ok(Self::Patch { user_id, patch: PatchedUser(patch) })
    }
}

fn check_email(email: &str) -> Result<(), StoreError> {
    if email.is_empty() || email.len() > EMAIL_BYTES {
        let reason = format!("must be 1 to {EMAIL_BYTES} bytes");
        return Err(StoreError::BadInput { field: "email", reason });
    }
    Ok(())
}

/// By what addresses are compared.
pub(crate) fn email_key(email: &str) -> String {
    email.to_lowercase()
}

pub(super) async fn execute(conn: &mut SqliteConnection, op: &UserOp) -> Result<Done, Fault> {
    match op {
        UserOp::Create { user, first_admin } => create(conn, user, *first_admin).await,
        UserOp::Patch { user_id, patch } => self::patch(conn, user_id, &patch.0).await,
        UserOp::Claim { from, to } => claim(conn, from, to).await,
    }
}

/// Which of the unique values another account has. Always one row.
const TAKEN: &str = "
    SELECT EXISTS (SELECT 1 FROM users WHERE email_key = $2 AND user_id <> $1),
        EXISTS (SELECT 1 FROM users WHERE oauth_provider = $3 AND oauth_id = $4 AND user_id <> $1)";

async fn check_free(
    conn: &mut SqliteConnection,
    user_id: &UserId,
    email: Option<&str>,
    oauth: Option<&OauthIdentity>,
) -> Result<(), Fault> {
    let row = sqlx::query(TAKEN)
        .bind(user_id.as_str().to_owned())
        .bind(email.map(email_key))
        .bind(oauth.map(|oauth| oauth.provider.clone()))
        .bind(oauth.map(|oauth| oauth.id.clone()))
        .fetch_one(conn)
        .await?;
    if row.try_get::<bool, _>(0)? {
        let id = email.unwrap_or_default().to_owned();
        return Err(StoreError::Exists { what: "email", id }.into());
    }
    if row.try_get::<bool, _>(1)? {
        let id = oauth.map(|oauth| format!("{} of {}", oauth.id, oauth.provider)).unwrap_or_default();
        return Err(StoreError::Exists { what: "oauth identity", id }.into());
    }
    Ok(())
}

const ADMINS: &str = "SELECT count(*) FROM users WHERE system_role = 'admin'";
const CREATE: &str = "
    INSERT INTO users (user_id, email, email_key, password_hash, system_role, needs_setup, token_version,
            oauth_provider, oauth_id, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $8, $9) ON CONFLICT (user_id) DO NOTHING";

async fn create(conn: &mut SqliteConnection, user: &NewUser, first_admin: bool) -> Result<Done, Fault> {
    if first_admin && sqlx::query_scalar::<_, i64>(ADMINS).fetch_one(&mut *conn).await? > 0 {
        return Ok(Done::Created(false));
    }
    check_free(conn, &user.user_id, Some(&user.email), user.oauth.as_ref()).await?;
    let role = if first_admin { SystemRole::Admin } else { user.system_role };
    let made = sqlx::query(CREATE)
        .bind(user.user_id.as_str().to_owned())
        .bind(user.email.clone())
        .bind(email_key(&user.email))
        .bind(user.password_hash.clone())
        .bind(role.as_str())
        .bind(user.needs_setup)
        .bind(user.oauth.as_ref().map(|oauth| oauth.provider.clone()))
        .bind(user.oauth.as_ref().map(|oauth| oauth.id.clone()))
        .bind(now())
        .execute(conn)
        .await?;
    if made.rows_affected() == 0 {
        return Err(StoreError::Exists { what: "user", id: user.user_id.to_string() }.into());
    }
    Ok(Done::Created(true))
}

const ROLE: &str = "SELECT system_role, (SELECT count(*) FROM users WHERE system_role = 'admin') FROM users
    WHERE user_id = $1";
const PATCH: &str = "
    UPDATE users SET email = COALESCE($2, email), email_key = COALESCE($3, email_key),
            password_hash = COALESCE($4, password_hash), system_role = COALESCE($5, system_role),
            needs_setup = COALESCE($6, needs_setup), oauth_provider = COALESCE($7, oauth_provider),
            oauth_id = COALESCE($8, oauth_id), token_version = token_version + $9
        WHERE user_id = $1";

async fn patch(conn: &mut SqliteConnection, user_id: &UserId, patch: &UserPatch) -> Result<Done, Fault> {
    let row = sqlx::query(ROLE).bind(user_id.as_str().to_owned()).fetch_optional(&mut *conn).await?;
    let Some(row) = row else {
        return Err(StoreError::NotFound { what: "user", id: user_id.to_string() }.into());
    };
    let (role, admins): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
    if role == SystemRole::Admin.as_str() && patch.system_role == Some(SystemRole::User) && admins == 1 {
        let reason = format!("{user_id} is the only administrator; make another one first");
        return Err(StoreError::BadInput { field: "system_role", reason }.into());
    }
    check_free(conn, user_id, patch.email.as_deref(), patch.oauth.as_ref()).await?;
    let ends_sessions = patch.end_sessions
        || patch.password_hash.is_some()
        || patch.system_role.is_some_and(|new| new.as_str() != role);
    sqlx::query(PATCH)
        .bind(user_id.as_str().to_owned())
        .bind(patch.email.clone())
        .bind(patch.email.as_deref().map(email_key))
        .bind(patch.password_hash.clone())
        .bind(patch.system_role.map(SystemRole::as_str))
        .bind(patch.needs_setup)
        .bind(patch.oauth.as_ref().map(|oauth| oauth.provider.clone()))
        .bind(patch.oauth.as_ref().map(|oauth| oauth.id.clone()))
        .bind(i64::from(ends_sessions))
        .execute(conn)
        .await?;
    Ok(Done::Nothing)
}

const CLAIM: &str = "
    UPDATE threads SET user_id = $2 WHERE user_id = $1 AND NOT EXISTS (
            SELECT 1 FROM runs r WHERE r.thread_key = threads.thread_key AND r.status IN ('pending', 'running'))
        RETURNING thread_id";
/// Runs and feedback follow their threads.
const CLAIM_REST: &str = "
    UPDATE runs SET user_id = $2 WHERE user_id = $1
        AND EXISTS (SELECT 1 FROM threads t WHERE t.thread_key = runs.thread_key AND t.user_id = $2);
    UPDATE OR IGNORE feedback SET user_id = $2 WHERE user_id = $1
        AND EXISTS (SELECT 1 FROM threads t WHERE t.thread_key = feedback.thread_key AND t.user_id = $2);
    UPDATE OR IGNORE items SET user_id = $2 WHERE user_id = $1";

async fn claim(conn: &mut SqliteConnection, from: &UserId, to: &UserId) -> Result<Done, Fault> {
    if from == to {
        return Ok(Done::Threads(Vec::new()));
    }
    let threads: Vec<String> = sqlx::query_scalar(CLAIM)
        .bind(from.as_str().to_owned())
        .bind(to.as_str().to_owned())
        .fetch_all(&mut *conn)
        .await?;
    sqlx::query(CLAIM_REST)
        .bind(from.as_str().to_owned())
        .bind(to.as_str().to_owned())
        // Rows are collected rather than counted: the text holds several statements.
        .fetch_all(&mut *conn)
        .await?;
    Ok(Done::Threads(threads.into_iter().map(id::<ThreadId>).collect::<Result<_, _>>()?))
}
