//! Values beside threads.

use super::SqliteStore;
use crate::read::{self, FoundItem};
use crate::write::{ItemOp, Op, namespace_text};
use async_trait::async_trait;
use deerflow_core::ports::{Item, ItemQuery, ItemRepo, NamespaceQuery, NewItem};
use deerflow_core::{StoreError, UserId};

impl SqliteStore {
    /// Lets those of the values live on that would not anyway.
    async fn refresh_items(&self, user_id: &UserId, found: &[FoundItem]) -> Result<(), StoreError> {
        let mortal = found.iter().filter(|(_, mortal)| *mortal);
        let items: Vec<_> = mortal.map(|(item, _)| (namespace_text(&item.namespace), &item.key)).collect();
        if items.is_empty() {
            return Ok(());
        }
        let items = serde_json::json!(items).to_string();
        self.write(Op::Item(Box::new(ItemOp::Refresh { user_id: user_id.clone(), items }))).await.map(drop)
    }
}

#[async_trait]
impl ItemRepo for SqliteStore {
    async fn put_item(&self, user_id: &UserId, item: NewItem) -> Result<(), StoreError> {
        self.write(Op::Item(Box::new(ItemOp::put(user_id, item)?))).await.map(drop)
    }

    async fn item(
        &self,
        user_id: &UserId,
        namespace: &[String],
        key: &str,
        refresh_ttl: bool,
    ) -> Result<Option<Item>, StoreError> {
        let mut view = self.view().await?;
        let found = read::item(&mut view, &self.place, user_id, namespace, key).await?;
        drop(view);
        if refresh_ttl {
            self.refresh_items(user_id, found.as_slice()).await?;
        }
        Ok(found.map(|(item, _)| item))
    }

    async fn delete_item(&self, user_id: &UserId, namespace: &[String], key: &str) -> Result<(), StoreError> {
        let (namespace, key) = (namespace_text(namespace), key.to_owned());
        let op = ItemOp::Delete { user_id: user_id.clone(), namespace, key };
        self.write(Op::Item(Box::new(op))).await.map(drop)
    }

    async fn search_items(&self, user_id: &UserId, query: ItemQuery) -> Result<Vec<Item>, StoreError> {
        let mut view = self.view().await?;
        let found = read::search_items(&mut view, &self.place, user_id, &query).await?;
        drop(view);
        if query.refresh_ttl {
            self.refresh_items(user_id, &found).await?;
        }
        Ok(found.into_iter().map(|(item, _)| item).collect())
    }

    async fn item_namespaces(&self, user_id: &UserId, query: NamespaceQuery) -> Result<Vec<Vec<String>>, StoreError> {
        let mut view = self.view().await?;
        read::item_namespaces(&mut view, &self.place, user_id, &query).await
    }
}
