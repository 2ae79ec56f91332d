//! Thread rows.

use crate::error::{Place, damaged};
use crate::names::id;
use deerflow_core::ports::ThreadRow;
use deerflow_core::{StoreError, ThreadId, UserId};
use sqlx::{FromRow, SqliteConnection};

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
