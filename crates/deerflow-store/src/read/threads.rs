//! Thread rows.

use crate::error::{Place, damaged};
use crate::names::{id, unsigned};
use deerflow_core::ports::{ThreadFilter, ThreadQuery, ThreadRow, ThreadSort};
use deerflow_core::{StoreError, ThreadId, UserId};
use sqlx::{AssertSqlSafe, FromRow, SqliteConnection};

#[derive(FromRow)]
struct RawThread {
    thread_id: String,
    user_id: String,
    title: Option<String>,
    metadata: String,
    status: String,
    created_at: i64,
    updated_at: i64,
}

impl RawThread {
    fn read(self) -> Result<ThreadRow, StoreError> {
        Ok(ThreadRow {
            thread_id: id(self.thread_id)?,
            user_id: id(self.user_id)?,
            title: self.title,
            metadata: serde_json::from_str(&self.metadata).map_err(|error| damaged("thread metadata", error))?,
            status: self.status,
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}

const ONE: &str = "
    SELECT thread_id, user_id, title, metadata, status, created_at, updated_at FROM threads
        WHERE user_id = $1 AND thread_id = $2";
const MANY: &str = "
    SELECT thread_id, user_id, title, metadata, status, created_at, updated_at FROM threads
        WHERE user_id = $1 ORDER BY updated_at DESC, thread_key DESC LIMIT $2 OFFSET $3";

pub(crate) async fn thread(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    thread_id: &ThreadId,
) -> Result<Option<ThreadRow>, StoreError> {
    let row = sqlx::query_as::<_, RawThread>(ONE)
        .bind(user_id.as_str().to_owned())
        .bind(thread_id.as_str().to_owned())
        .fetch_optional(&mut *view)
        .await
        .map_err(|error| place.explain(&error))?;
    row.map(RawThread::read).transpose()
}

const FOREIGN: &str = "SELECT EXISTS (SELECT 1 FROM threads WHERE thread_id = $2 AND user_id <> $1)";

pub(crate) async fn is_foreign(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    thread_id: &ThreadId,
) -> Result<bool, StoreError> {
    sqlx::query_scalar(FOREIGN)
        .bind(user_id.as_str().to_owned())
        .bind(thread_id.as_str().to_owned())
        .fetch_one(&mut *view)
        .await
        .map_err(|error| place.explain(&error))
}

pub(crate) async fn threads(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    limit: u32,
    offset: u32,
) -> Result<Vec<ThreadRow>, StoreError> {
    let rows = sqlx::query_as::<_, RawThread>(MANY)
        .bind(user_id.as_str().to_owned())
        .bind(i64::from(limit))
        .bind(i64::from(offset))
        .fetch_all(&mut *view)
        .await
        .map_err(|error| place.explain(&error))?;
    rows.into_iter().map(RawThread::read).collect()
}

/// Threads of a user under a filter: $1 user, $2 metadata, $3 statuses and $4 ids as JSON lists or null. A key asked for as
/// null may be absent.
const MATCHING: &str = "
    FROM threads t WHERE t.user_id = $1
        AND ($3 IS NULL OR t.status IN (SELECT value FROM json_each($3)))
        AND ($4 IS NULL OR t.thread_id IN (SELECT value FROM json_each($4)))
        AND NOT EXISTS (
            SELECT 1 FROM json_each($2) f LEFT JOIN json_each(t.metadata) m ON m.key = f.key
            WHERE NOT CASE
                WHEN f.type = 'null' THEN m.type IS NULL OR m.type = 'null'
                WHEN f.type IN ('integer', 'real') THEN COALESCE(m.type IN ('integer', 'real') AND m.value = f.value, 0)
                ELSE COALESCE(m.type = f.type AND m.value = f.value, 0) END)";

/// The parameters $2 to $4.
fn parameters(filter: &ThreadFilter) -> Result<(String, Option<String>, Option<String>), StoreError> {
    let metadata = serde_json::to_string(&filter.metadata).map_err(|error| damaged("a filter", error))?;
    let status = (!filter.status.is_empty()).then(|| serde_json::json!(filter.status).to_string());
    let ids = filter.ids.as_ref().map(|ids| serde_json::json!(ids).to_string());
    Ok((metadata, status, ids))
}

pub(crate) async fn search(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    query: &ThreadQuery,
) -> Result<Vec<ThreadRow>, StoreError> {
    let direction = if query.ascending { "ASC" } else { "DESC" };
    let column = match query.sort {
        ThreadSort::UpdatedAt => "t.updated_at",
        ThreadSort::CreatedAt => "t.created_at",
        ThreadSort::ThreadId => "t.thread_id",
    };
    // Nothing in it comes from outside.
    let sql = format!(
        "SELECT t.thread_id, t.user_id, t.title, t.metadata, t.status, t.created_at, t.updated_at {MATCHING}
            ORDER BY $7 IS NOT NULL AND EXISTS (
                    SELECT 1 FROM json_each(t.metadata) m WHERE m.key = $7 AND m.type = 'true') DESC,
                {column} {direction}, t.thread_id {direction} LIMIT $5 OFFSET $6"
    );
    let (metadata, status, ids) = parameters(&query.filter)?;
    let rows = sqlx::query_as::<_, RawThread>(AssertSqlSafe(sql))
        .bind(user_id.as_str().to_owned())
        .bind(metadata)
        .bind(status)
        .bind(ids)
        .bind(i64::from(query.limit))
        .bind(i64::from(query.offset))
        .bind(query.pinned_by.clone())
        .fetch_all(&mut *view)
        .await
        .map_err(|error| place.explain(&error))?;
    rows.into_iter().map(RawThread::read).collect()
}

pub(crate) async fn count(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    filter: &ThreadFilter,
) -> Result<u64, StoreError> {
    let (metadata, status, ids) = parameters(filter)?;
    let count: i64 = sqlx::query_scalar(AssertSqlSafe(format!("SELECT count(*) {MATCHING}")))
        .bind(user_id.as_str().to_owned())
        .bind(metadata)
        .bind(status)
        .bind(ids)
        .fetch_one(&mut *view)
        .await
        .map_err(|error| place.explain(&error))?;
    unsigned(count)
}

const UNUSED: &str = "
    SELECT thread_id, user_id, title, metadata, status, created_at, updated_at FROM threads t
        WHERE ($1 IS NULL OR user_id = $1) AND updated_at < $2
            AND NOT EXISTS (
                SELECT 1 FROM runs r WHERE r.thread_key = t.thread_key AND r.status IN ('pending', 'running'))
        ORDER BY updated_at, thread_key";

/// Threads not used since a moment, without a live run.
pub(crate) async fn unused(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: Option<&UserId>,
    since: i64,
) -> Result<Vec<ThreadRow>, StoreError> {
    let query = sqlx::query_as::<_, RawThread>(UNUSED).bind(user_id.map(|user| user.as_str().to_owned())).bind(since);
    let rows = query.fetch_all(view).await.map_err(|error| place.explain(&error))?;
    rows.into_iter().map(RawThread::read).collect()
}
