//! Accounts.

use crate::error::Place;
use crate::names::{id, unsigned};
use crate::write::email_key;
use deerflow_core::ports::{OauthIdentity, SystemRole, UserRow};
use deerflow_core::{StoreError, UserId};
use sqlx::{FromRow, SqliteConnection};

#[derive(FromRow)]
struct RawUser {
    user_id: String,
    email: String,
    password_hash: Option<String>,
    system_role: String,
    needs_setup: bool,
    token_version: i64,
    oauth_provider: Option<String>,
    oauth_id: Option<String>,
    created_at: i64,
}

impl RawUser {
    fn read(self) -> Result<UserRow, StoreError> {
        let role = SystemRole::from_name(&self.system_role);
        Ok(UserRow {
            user_id: id(self.user_id)?,
            email: self.email,
            password_hash: self.password_hash,
            system_role: role
                .ok_or_else(|| StoreError::Damaged(format!("unknown system role {:?}", self.system_role)))?,
            needs_setup: self.needs_setup,
            token_version: unsigned(self.token_version)?,
            oauth: self.oauth_provider.zip(self.oauth_id).map(|(provider, id)| OauthIdentity { provider, id }),
            created_at: self.created_at,
        })
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT user_id, email, password_hash, system_role, needs_setup, token_version, oauth_provider, oauth_id,
                created_at FROM users ",
            $rest
        )
    };
}
const BY_ID: &str = select!("WHERE user_id = $1");
const BY_EMAIL: &str = select!("WHERE email_key = $1");
const BY_OAUTH: &str = select!("WHERE oauth_provider = $1 AND oauth_id = $2");
const ALL: &str = select!("ORDER BY created_at, user_key LIMIT $1 OFFSET $2");
const ADMINS: &str = "SELECT count(*) FROM users WHERE system_role = 'admin'";

type Query = sqlx::query::QueryAs<'static, sqlx::Sqlite, RawUser, sqlx::sqlite::SqliteArguments>;

async fn one(view: &mut SqliteConnection, place: &Place, query: Query) -> Result<Option<UserRow>, StoreError> {
    let row = query.fetch_optional(view).await.map_err(|error| place.explain(&error))?;
    row.map(RawUser::read).transpose()
}

pub(crate) async fn user(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
) -> Result<Option<UserRow>, StoreError> {
    one(view, place, sqlx::query_as(BY_ID).bind(user_id.as_str().to_owned())).await
}

pub(crate) async fn user_by_email(
    view: &mut SqliteConnection,
    place: &Place,
    email: &str,
) -> Result<Option<UserRow>, StoreError> {
    one(view, place, sqlx::query_as(BY_EMAIL).bind(email_key(email))).await
}

pub(crate) async fn user_by_oauth(
    view: &mut SqliteConnection,
    place: &Place,
    identity: &OauthIdentity,
) -> Result<Option<UserRow>, StoreError> {
    one(view, place, sqlx::query_as(BY_OAUTH).bind(identity.provider.clone()).bind(identity.id.clone())).await
}

pub(crate) async fn users(
    view: &mut SqliteConnection,
    place: &Place,
    limit: u32,
    offset: u32,
) -> Result<Vec<UserRow>, StoreError> {
    let query = sqlx::query_as::<_, RawUser>(ALL).bind(i64::from(limit)).bind(i64::from(offset));
    let rows = query.fetch_all(view).await.map_err(|error| place.explain(&error))?;
    rows.into_iter().map(RawUser::read).collect()
}

pub(crate) async fn count_admins(view: &mut SqliteConnection, place: &Place) -> Result<u64, StoreError> {
    let count = sqlx::query_scalar(ADMINS).fetch_one(view).await.map_err(|error| place.explain(&error))?;
    unsigned(count)
}
