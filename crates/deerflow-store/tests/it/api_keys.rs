//! Personal API keys.

use crate::support::{home, raw};
use deerflow_core::ports::{API_KEYS_PER_USER, ApiKeyHash, ApiKeyRepo as _, NewApiKey};
use deerflow_core::{StoreError, UserId};
use pretty_assertions::assert_eq;

fn user(name: &str) -> UserId {
    UserId::parse(name).unwrap()
}

fn key(name: &str, n: u8) -> NewApiKey {
    NewApiKey { name: name.into(), hash: ApiKeyHash([n; 32]), prefix: format!("df_{n}"), expires_at: None }
}

#[tokio::test]
async fn a_key_is_found_by_its_hash_until_it_is_revoked() {
    let home = home().await;
    let (ada, eve) = (user("ada"), user("eve"));
    let row = home.store.create_api_key(&ada, key("laptop", 1)).await.unwrap();
    assert_eq!((row.name.as_str(), row.prefix.as_str(), row.user_id.clone()), ("laptop", "df_1", ada.clone()));
    assert_eq!(home.store.api_key_by_hash(&ApiKeyHash([1; 32])).await.unwrap(), Some(row.clone()));
    assert_eq!(home.store.api_key_by_hash(&ApiKeyHash([2; 32])).await.unwrap(), None);
    let second = home.store.create_api_key(&ada, key("ci", 2)).await.unwrap();
    assert_eq!(home.store.api_keys(&ada).await.unwrap(), [second, row.clone()]);

    // Another user neither sees nor revokes it.
    assert_eq!(home.store.api_keys(&eve).await.unwrap(), vec![]);
    let refused = home.store.revoke_api_key(&eve, &row.key_id).await;
    assert!(matches!(refused, Err(StoreError::NotFound { what: "api key", .. })));
    assert!(matches!(home.store.create_api_key(&eve, key("x", 1)).await, Err(StoreError::Exists { .. })));

    home.store.revoke_api_key(&ada, &row.key_id).await.unwrap();
    assert_eq!(home.store.api_key_by_hash(&ApiKeyHash([1; 32])).await.unwrap(), None);
    home.store.touch_api_key(&row).await.unwrap();
    assert_eq!(home.store.api_keys(&ada).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_expired_key_does_not_hold_but_is_listed() {
    let home = home().await;
    let row = home.store.create_api_key(&user("ada"), key("k", 1)).await.unwrap();
    for (n, expires_at, holds) in [(2, row.created_at - 1, false), (3, row.created_at + 3_600_000_000, true)] {
        let new = NewApiKey { expires_at: Some(expires_at), ..key("k", n) };
        home.store.create_api_key(&user("ada"), new).await.unwrap();
        assert_eq!(home.store.api_key_by_hash(&ApiKeyHash([n; 32])).await.unwrap().is_some(), holds);
    }
    assert_eq!(home.store.api_keys(&user("ada")).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_use_is_written_once_a_minute() {
    let home = home().await;
    let row = home.store.create_api_key(&user("ada"), key("k", 1)).await.unwrap();
    let used = async || home.store.api_keys(&user("ada")).await.unwrap()[0].last_used_at;
    assert_eq!(used().await, None);
    home.store.touch_api_key(&row).await.unwrap();
    let first = used().await.unwrap();
    assert!(first >= row.created_at);
    // With the old row, as another process would have it.
    home.store.touch_api_key(&row).await.unwrap();
    assert_eq!(used().await, Some(first));
    sqlx::query("UPDATE api_keys SET last_used_at = last_used_at - 60000000")
        .execute(&mut raw(&home.path).await)
        .await
        .unwrap();
    let row = home.store.api_keys(&user("ada")).await.unwrap().remove(0);
    home.store.touch_api_key(&row).await.unwrap();
    assert!(used().await.unwrap() >= first);
}

#[tokio::test]
async fn names_are_checked_and_numbers_bounded() {
    let home = home().await;
    for name in ["", "  ", &"x".repeat(101)] {
        let bad = home.store.create_api_key(&user("ada"), key(name, 1)).await;
        assert!(matches!(bad, Err(StoreError::BadInput { field: "name", .. })), "{name:?}");
    }
    let long = NewApiKey { prefix: "p".repeat(33), ..key("k", 1) };
    assert!(home.store.create_api_key(&user("ada"), long).await.is_err());
    for n in 0..API_KEYS_PER_USER {
        home.store.create_api_key(&user("ada"), key("k", n as u8)).await.unwrap();
    }
    let many = home.store.create_api_key(&user("ada"), key("k", 200)).await;
    assert!(matches!(many, Err(StoreError::BadInput { field: "api keys", .. })), "{many:?}");
    home.store.create_api_key(&user("eve"), key("k", 200)).await.unwrap();
}
