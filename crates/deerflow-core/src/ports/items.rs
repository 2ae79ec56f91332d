//! Values that clients keep beside threads: LangGraph's `store`, per user.
//!
//! Shapes and semantics follow the store client of the LangGraph SDK and its in-memory store: a namespace is a list of
//! labels, a filter compares fields, and `*` stands for any label when namespaces are listed.

use crate::{JsonMap, StoreError, UserId};
use async_trait::async_trait;

/// Labels of a namespace at most.
pub const ITEM_NAMESPACE_LABELS: usize = 16;
/// Longest key or label, in bytes.
pub const ITEM_KEY_BYTES: usize = 256;
/// Largest value, in bytes of JSON: 1 MiB.
pub const ITEM_VALUE_BYTES: usize = 1 << 20;

/// A value to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewItem {
    /// Labels, at least one. No label is empty or holds a dot or a control character.
    pub namespace: Vec<String>,
    /// Its name in the namespace.
    pub key: String,
    /// The value.
    pub value: JsonMap,
    /// Minutes it lives after its last write, or last read with a refresh; for ever when absent.
    pub ttl_minutes: Option<f64>,
}

/// A stored value.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Labels.
    pub namespace: Vec<String>,
    /// Its name in the namespace.
    pub key: String,
    /// The value.
    pub value: JsonMap,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
    /// Microseconds since 1970, UTC.
    pub updated_at: i64,
}

/// Which values to find.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemQuery {
    /// Labels their namespaces begin with; none for all.
    pub namespace_prefix: Vec<String>,
    /// Fields the value must have. An expected value is compared whole if it is a list or a scalar; an object of `$eq`, `$ne`,
    /// `$gt`, `$gte`, `$lt`, `$lte` compares; any other object is a filter on the field's own fields. Numbers are equal by
    /// value; only two numbers or two texts have an order.
    pub filter: JsonMap,
    /// At most this many.
    pub limit: u32,
    /// Skips this many.
    pub offset: u32,
    /// Lets those found live on as if they were written now.
    pub refresh_ttl: bool,
}

impl Default for ItemQuery {
    fn default() -> Self {
        Self { namespace_prefix: Vec::new(), filter: JsonMap::new(), limit: 10, offset: 0, refresh_ttl: true }
    }
}

/// Which namespaces to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceQuery {
    /// Labels they begin with; `*` is any label.
    pub prefix: Vec<String>,
    /// Labels they end with; `*` is any label.
    pub suffix: Vec<String>,
    /// Cuts longer namespaces to this many labels, after they have been matched.
    pub max_depth: Option<u32>,
    /// At most this many.
    pub limit: u32,
    /// Skips this many.
    pub offset: u32,
}

impl Default for NamespaceQuery {
    fn default() -> Self {
        Self { prefix: Vec::new(), suffix: Vec::new(), max_depth: None, limit: 100, offset: 0 }
    }
}

/// Values of users. An expired one is there for nobody.
#[async_trait]
pub trait ItemRepo: Send + Sync {
    /// Stores a value in place of what was there.
    ///
    /// # Errors
    /// [`StoreError::BadInput`] for a bad namespace, key, size or time to live.
    async fn put_item(&self, user_id: &UserId, item: NewItem) -> Result<(), StoreError>;

    /// One value.
    ///
    /// # Errors
    /// When the database fails.
    async fn item(
        &self,
        user_id: &UserId,
        namespace: &[String],
        key: &str,
        refresh_ttl: bool,
    ) -> Result<Option<Item>, StoreError>;

    /// Deletes a value, if it is there.
    ///
    /// # Errors
    /// When the database fails.
    async fn delete_item(&self, user_id: &UserId, namespace: &[String], key: &str) -> Result<(), StoreError>;

    /// Values under a prefix, last written first; then by namespace and key.
    ///
    /// # Errors
    /// [`StoreError::BadInput`] for an unknown operator of a filter.
    async fn search_items(&self, user_id: &UserId, query: ItemQuery) -> Result<Vec<Item>, StoreError>;

    /// Namespaces that hold something, each once, in order.
    ///
    /// # Errors
    /// When the database fails.
    async fn item_namespaces(&self, user_id: &UserId, query: NamespaceQuery) -> Result<Vec<Vec<String>>, StoreError>;
}
