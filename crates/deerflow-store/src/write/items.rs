//! Values beside threads.

use super::Done;
use crate::error::{Fault, damaged};
use crate::names::now;
use deerflow_core::ports::{ITEM_KEY_BYTES, ITEM_NAMESPACE_LABELS, ITEM_VALUE_BYTES, NewItem};
use deerflow_core::{StoreError, UserId};
use sqlx::SqliteConnection;

const MINUTE: f64 = 60e6;
/// Longest time to live, in minutes: a century.
const TTL_MINUTES: f64 = 52_560_000.0;

/// What is done to values. Namespaces are in the form the database keeps.
#[derive(Debug)]
pub(crate) enum ItemOp {
    Put {
        user_id: UserId,
        namespace: String,
        key: String,
        value: String,
        /// In microseconds.
        ttl: Option<i64>,
    },
    Delete {
        user_id: UserId,
        namespace: String,
        key: String,
    },
    /// Lets values live on as if they were written now: a JSON list of lists of namespace and key.
    Refresh {
        user_id: UserId,
        items: String,
    },
}

impl ItemOp {
    pub(crate) fn put(user_id: &UserId, item: NewItem) -> Result<Self, StoreError> {
        let bad = |field, reason| StoreError::BadInput { field, reason };
        let count = item.namespace.len();
        if count == 0 || count > ITEM_NAMESPACE_LABELS {
            return Err(bad("namespace", format!("must have 1 to {ITEM_NAMESPACE_LABELS} labels")));
        }
        for label in &item.namespace {
            let whole = !label.is_empty() && label.len() <= ITEM_KEY_BYTES;
            if !whole || label.chars().any(|c| c == '.' || c.is_control()) {
                let reason = format!("a label must be 1 to {ITEM_KEY_BYTES} bytes without dots or control characters");
                return Err(bad("namespace", reason));
            }
        }
        if item.key.is_empty() || item.key.len() > ITEM_KEY_BYTES {
            return Err(bad("key", format!("must be 1 to {ITEM_KEY_BYTES} bytes")));
        }
        let value = serde_json::to_string(&item.value).map_err(|error| damaged("a value cannot be written", error))?;
        if value.len() > ITEM_VALUE_BYTES {
            return Err(bad("value", format!("must be at most {ITEM_VALUE_BYTES} bytes of JSON")));
        }
        let ttl = match item.ttl_minutes {
            None => None,
            Some(minutes) if minutes > 0.0 && minutes <= TTL_MINUTES => Some((minutes * MINUTE) as i64),
            Some(_) => return Err(bad("ttl", format!("must be more than 0 and at most {TTL_MINUTES} minutes"))),
        };
        Ok(Self::Put {
            user_id: user_id.clone(),
            namespace: namespace_text(&item.namespace),
            key: item.key,
            value,
            ttl,
        })
    }
}

/// A namespace as the database keeps it.
pub(crate) fn namespace_text(labels: &[String]) -> String {
    labels.iter().flat_map(|label| [label.as_str(), "."]).collect()
}

/// Expired values are deleted by whoever writes next.
const PUT: &str = "
    DELETE FROM items WHERE expires_at <= $5;
    INSERT INTO items (user_id, namespace, item_key, value, created_at, updated_at, ttl, expires_at)
        VALUES ($1, $2, $3, $4, $5, $5, $6, $5 + $6)
        ON CONFLICT (user_id, namespace, item_key) DO UPDATE SET value = excluded.value,
            updated_at = excluded.updated_at, ttl = excluded.ttl, expires_at = excluded.expires_at";
const DELETE: &str = "DELETE FROM items WHERE user_id = $1 AND namespace = $2 AND item_key = $3";
const REFRESH: &str = "
    UPDATE items SET expires_at = $3 + ttl WHERE user_id = $1 AND ttl IS NOT NULL AND expires_at > $3
        AND (namespace, item_key) IN (SELECT value ->> 0, value ->> 1 FROM json_each($2))";

pub(super) async fn execute(conn: &mut SqliteConnection, op: &ItemOp) -> Result<Done, Fault> {
    match op {
        ItemOp::Put { user_id, namespace, key, value, ttl } => {
            sqlx::query(PUT)
                .bind(user_id.as_str().to_owned())
                .bind(namespace.clone())
                .bind(key.clone())
                .bind(value.clone())
                .bind(now())
                .bind(*ttl)
                // Rows are collected rather than counted: the text holds several statements.
                .fetch_all(conn)
                .await?;
        }
        ItemOp::Delete { user_id, namespace, key } => {
            let query = sqlx::query(DELETE).bind(user_id.as_str().to_owned());
            query.bind(namespace.clone()).bind(key.clone()).execute(conn).await?;
        }
        ItemOp::Refresh { user_id, items } => {
            let query = sqlx::query(REFRESH).bind(user_id.as_str().to_owned()).bind(items.clone()).bind(now());
            query.execute(conn).await?;
        }
    }
    Ok(Done::Nothing)
}
