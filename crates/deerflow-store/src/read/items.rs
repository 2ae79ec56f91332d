//! Values beside threads.

use crate::error::{Place, damaged};
use crate::item_filter;
use crate::names::now;
use crate::write::namespace_text;
use deerflow_core::ports::{Item, ItemQuery, NamespaceQuery};
use deerflow_core::{StoreError, UserId};
use futures::TryStreamExt as _;
use sqlx::{FromRow, SqliteConnection};
use std::collections::BTreeSet;

/// A value, and whether it does not live for ever.
pub(crate) type FoundItem = (Item, bool);

#[derive(FromRow)]
struct RawItem {
    namespace: String,
    item_key: String,
    value: String,
    created_at: i64,
    updated_at: i64,
    mortal: bool,
}

impl RawItem {
    fn read(self) -> Result<FoundItem, StoreError> {
        let item = Item {
            namespace: labels(&self.namespace),
            key: self.item_key,
            value: serde_json::from_str(&self.value).map_err(|error| damaged("a stored value", error))?,
            created_at: self.created_at,
            updated_at: self.updated_at,
        };
        Ok((item, self.mortal))
    }
}

fn labels(namespace: &str) -> Vec<String> {
    namespace.split_terminator('.').map(str::to_owned).collect()
}

const ONE: &str = "
    SELECT namespace, item_key, value, created_at, updated_at, ttl IS NOT NULL AS mortal FROM items
        WHERE user_id = $1 AND namespace = $2 AND item_key = $3 AND (expires_at IS NULL OR expires_at > $4)";
/// A namespace under the prefix sorts between it and the prefix with its last dot replaced by what follows a dot.
const UNDER: &str = "
    SELECT namespace, item_key, value, created_at, updated_at, ttl IS NOT NULL AS mortal FROM items
        WHERE user_id = $1 AND namespace >= $2 AND ($3 IS NULL OR namespace < $3)
            AND (expires_at IS NULL OR expires_at > $4)
        ORDER BY updated_at DESC, namespace, item_key";
const NAMESPACES: &str = "
    SELECT DISTINCT namespace FROM items WHERE user_id = $1 AND (expires_at IS NULL OR expires_at > $2)";

pub(crate) async fn item(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    namespace: &[String],
    key: &str,
) -> Result<Option<FoundItem>, StoreError> {
    let row = sqlx::query_as::<_, RawItem>(ONE)
        .bind(user_id.as_str().to_owned())
        .bind(namespace_text(namespace))
        .bind(key.to_owned())
        .bind(now())
        .fetch_optional(view)
        .await
        .map_err(|error| place.explain(&error))?;
    row.map(RawItem::read).transpose()
}

/// Reads on until the page is full; at most one value is held that is not part of it.
pub(crate) async fn search_items(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    query: &ItemQuery,
) -> Result<Vec<FoundItem>, StoreError> {
    item_filter::check(&query.filter)?;
    let prefix = namespace_text(&query.namespace_prefix);
    let beyond = prefix.strip_suffix('.').map(|prefix| format!("{prefix}/"));
    let mut rows = sqlx::query_as::<_, RawItem>(UNDER)
        .bind(user_id.as_str().to_owned())
        .bind(prefix)
        .bind(beyond)
        .bind(now())
        .fetch(view);
    let (mut found, mut skip) = (Vec::new(), query.offset);
    while found.len() < query.limit as usize
        && let Some(row) = rows.try_next().await.map_err(|error| place.explain(&error))?
    {
        let item = row.read()?;
        if !item_filter::matches(&item.0.value, &query.filter) {
            continue;
        }
        if skip > 0 {
            skip -= 1;
        } else {
            found.push(item);
        }
    }
    Ok(found)
}

pub(crate) async fn item_namespaces(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    query: &NamespaceQuery,
) -> Result<Vec<Vec<String>>, StoreError> {
    let rows: Vec<String> = sqlx::query_scalar(NAMESPACES)
        .bind(user_id.as_str().to_owned())
        .bind(now())
        .fetch_all(view)
        .await
        .map_err(|error| place.explain(&error))?;
    let depth = query.max_depth.map_or(usize::MAX, |depth| depth as usize);
    let found: BTreeSet<Vec<String>> = rows
        .iter()
        .map(|namespace| labels(namespace))
        .filter(|labels| begins(labels.iter(), &query.prefix, query.prefix.iter()))
        .filter(|labels| begins(labels.iter().rev(), &query.suffix, query.suffix.iter().rev()))
        .map(|mut labels| {
            labels.truncate(depth);
            labels
        })
        .collect();
    Ok(found.into_iter().skip(query.offset as usize).take(query.limit as usize).collect())
}

/// Whether labels begin with a pattern, both in the same direction.
fn begins<'a>(
    labels: impl ExactSizeIterator<Item = &'a String>,
    pattern: &[String],
    walk: impl Iterator<Item = &'a String>,
) -> bool {
    labels.len() >= pattern.len() && labels.zip(walk).all(|(label, pattern)| pattern == "*" || label == pattern)
}
