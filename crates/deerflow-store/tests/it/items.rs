//! Values beside threads, against a plain model.

use crate::support::{count, home, raw};
use deerflow_core::ports::{Item, ItemQuery, ItemRepo as _, NamespaceQuery, NewItem};
use deerflow_core::{JsonMap, StoreError, UserId};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn map(value: Value) -> JsonMap {
    serde_json::from_value(value).unwrap()
}

fn labels(text: &str) -> Vec<String> {
    text.split('/').filter(|label| !label.is_empty()).map(str::to_owned).collect()
}

fn new(namespace: &str, key: &str, value: Value) -> NewItem {
    NewItem { namespace: labels(namespace), key: key.into(), value: map(value), ttl_minutes: None }
}

fn under(prefix: &str) -> ItemQuery {
    ItemQuery { namespace_prefix: labels(prefix), limit: 1000, ..ItemQuery::default() }
}

#[tokio::test]
async fn a_value_is_replaced_and_keeps_its_first_date() {
    let home = home().await;
    let (user, eve) = (UserId::local(), UserId::parse("eve").unwrap());
    home.store.put_item(&user, new("a/b", "k", json!({"n": 1}))).await.unwrap();
    let first = home.store.item(&user, &labels("a/b"), "k", false).await.unwrap().unwrap();
    assert_eq!(first.created_at, first.updated_at);
    home.store.put_item(&user, new("a/b", "k", json!({"n": "谢", "deep": {"x": [null]}}))).await.unwrap();
    let second = home.store.item(&user, &labels("a/b"), "k", false).await.unwrap().unwrap();
    assert_eq!(second.value, map(json!({"n": "谢", "deep": {"x": [null]}})));
    assert_eq!((second.created_at, second.namespace), (first.created_at, labels("a/b")));
    assert!(second.updated_at >= first.updated_at);

    // Another user has values of the same name, and none of these.
    assert_eq!(home.store.item(&eve, &labels("a/b"), "k", true).await.unwrap(), None);
    assert_eq!(home.store.search_items(&eve, under("")).await.unwrap(), vec![]);
    assert_eq!(home.store.item_namespaces(&eve, NamespaceQuery::default()).await.unwrap(), Vec::<Vec<String>>::new());
    home.store.put_item(&eve, new("a/b", "k", json!({}))).await.unwrap();
    home.store.delete_item(&eve, &labels("a/b"), "k").await.unwrap();
    assert!(home.store.item(&user, &labels("a/b"), "k", false).await.unwrap().is_some());
    home.store.delete_item(&user, &labels("a/b"), "k").await.unwrap();
    home.store.delete_item(&user, &labels("a/b"), "k").await.unwrap();
    assert_eq!(home.store.item(&user, &labels("a/b"), "k", false).await.unwrap(), None);
}

#[tokio::test]
async fn what_cannot_be_stored_is_refused_by_name() {
    let home = home().await;
    let user = UserId::local();
    let ttl = |minutes| NewItem { ttl_minutes: Some(minutes), ..new("a", "k", json!({})) };
    let spaced = |namespace: &[&str]| NewItem {
        namespace: namespace.iter().map(|label| (*label).to_owned()).collect(),
        ..new("a", "k", json!({}))
    };
    for (item, field) in [
        (spaced(&[]), "namespace"),
        (spaced(&[""]), "namespace"),
        (spaced(&["a.b"]), "namespace"),
        (spaced(&["a\n"]), "namespace"),
        (spaced(&["a"; 17]), "namespace"),
        (new("a", "", json!({})), "key"),
        (new("a", &"k".repeat(257), json!({})), "key"),
        (new("a", "k", json!({"x": "y".repeat(1 << 20)})), "value"),
        (ttl(0.0), "ttl"),
        (ttl(f64::NAN), "ttl"),
        (ttl(f64::INFINITY), "ttl"),
    ] {
        match home.store.put_item(&user, item).await {
            Err(StoreError::BadInput { field: found, .. }) => assert_eq!(found, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    let query = ItemQuery { filter: map(json!({"a": {"$like": "x"}})), ..under("") };
    assert!(matches!(home.store.search_items(&user, query).await, Err(StoreError::BadInput { field: "filter", .. })));
}

#[tokio::test]
async fn an_expired_value_is_gone_and_a_read_may_keep_it() {
    let home = home().await;
    let user = UserId::local();
    for key in ["read", "searched", "left", "late"] {
        home.store.put_item(&user, NewItem { ttl_minutes: Some(1.0), ..new("a", key, json!({})) }).await.unwrap();
    }
    home.store.put_item(&user, new("b", "stays", json!({}))).await.unwrap();
    let age = async |micros: i64, keys: &str| {
        let sql = "UPDATE items SET expires_at = expires_at - $1 WHERE instr($2, item_key) > 0";
        sqlx::query(sql).bind(micros).bind(keys.to_owned()).execute(&mut raw(&home.path).await).await.unwrap();
    };
    age(50_000_000, "read searched left").await;
    age(61_000_000, "late").await;
    home.store.item(&user, &labels("a"), "read", true).await.unwrap().unwrap();
    home.store.item(&user, &labels("a"), "left", false).await.unwrap().unwrap();
    // The page holds one, and only that one is kept.
    let page = ItemQuery { limit: 1, filter: map(json!({})), ..under("a") };
    let kept = home.store.search_items(&user, page).await.unwrap();
    age(50_000_000, "read searched left").await;
    let mut keys: Vec<String> = home
        .store
        .search_items(&user, ItemQuery { refresh_ttl: false, ..under("") })
        .await
        .unwrap()
        .into_iter()
        .map(|item| item.key)
        .collect();
    keys.sort();
    let mut expected = vec!["read".to_owned(), "stays".into(), kept[0].key.clone()];
    expected.sort();
    expected.dedup();
    assert_eq!(keys, expected);
    assert_eq!(home.store.item(&user, &labels("a"), "late", true).await.unwrap(), None);
    // Whoever writes next sweeps.
    home.store.put_item(&user, new("b", "stays", json!({}))).await.unwrap();
    assert_eq!(count(&home.path, "SELECT count(*) FROM items").await, expected.len() as i64);
}

type Model = BTreeMap<(Vec<String>, String), (u64, i64)>;

#[derive(Debug, Clone)]
enum Act {
    Put(Vec<String>, String, i64),
    Delete(Vec<String>, String),
}

fn label() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "a-b", "a b", "Ä", "a!", "a/"]).prop_map(str::to_owned)
}

fn act() -> impl Strategy<Value = Act> {
    let place = (prop::collection::vec(label(), 1..4), prop::sample::select(vec!["k", "l", "m"]));
    (place, any::<bool>(), 0..4i64).prop_map(|((namespace, key), put, n)| {
        if put || n > 0 { Act::Put(namespace, key.into(), n) } else { Act::Delete(namespace, key.into()) }
    })
}

fn search(model: &Model, prefix: &[String], n: Option<i64>, limit: u32, offset: u32) -> Vec<(Vec<String>, String)> {
    let mut found: Vec<_> = model
        .iter()
        .filter(|((namespace, _), (_, value))| namespace.starts_with(prefix) && n.is_none_or(|n| *value >= n))
        .collect();
    found.sort_by_key(|(_, (at, _))| std::cmp::Reverse(*at));
    found.into_iter().map(|(place, _)| place.clone()).skip(offset as usize).take(limit as usize).collect()
}

fn namespaces(model: &Model, query: &NamespaceQuery) -> Vec<Vec<String>> {
    let same = |label: &String, pattern: &String| pattern == "*" || label == pattern;
    let cut: BTreeSet<Vec<String>> = model
        .keys()
        .filter(|(labels, _)| {
            let (n, p, s) = (labels.len(), query.prefix.len(), query.suffix.len());
            n >= p
                && n >= s
                && (0..p).all(|i| same(&labels[i], &query.prefix[i]))
                && (0..s).all(|i| same(&labels[n - s + i], &query.suffix[i]))
        })
        .map(|(labels, _)| labels.iter().take(query.max_depth.unwrap_or(99) as usize).cloned().collect())
        .collect();
    cut.into_iter().skip(query.offset as usize).take(query.limit as usize).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn searches_and_listings_agree_with_a_map(
        acts in prop::collection::vec(act(), 1..30),
        prefix in prop::collection::vec(label(), 0..3),
        suffix in prop::collection::vec(prop_oneof![label(), Just("*".to_owned())], 0..3),
        n in prop::option::of(0..4i64),
        (limit, offset) in (0..6u32, 0..4u32),
        max_depth in prop::option::of(1..4u32),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let home = home().await;
            let user = UserId::local();
            let mut model = Model::new();
            for (at, act) in acts.iter().enumerate() {
                match act.clone() {
                    Act::Put(namespace, key, n) => {
                        let value = map(json!({"n": n}));
                        model.insert((namespace.clone(), key.clone()), (at as u64, n));
                        home.store.put_item(&user, NewItem { namespace, key, value, ttl_minutes: None }).await.unwrap();
                    }
                    Act::Delete(namespace, key) => {
                        home.store.delete_item(&user, &namespace, &key).await.unwrap();
                        model.remove(&(namespace, key));
                    }
                }
            }
            let filter = n.map_or_else(JsonMap::new, |n| map(json!({"n": {"$gte": n}})));
            let query = ItemQuery { namespace_prefix: prefix.clone(), filter, limit, offset, refresh_ttl: true };
            let found: Vec<Item> = home.store.search_items(&user, query).await.unwrap();
            let found: Vec<_> = found.into_iter().map(|item| (item.namespace, item.key)).collect();
            assert_eq!(found, search(&model, &prefix, n, limit, offset));
            for prefix in [prefix, suffix.clone()] {
                let query = NamespaceQuery { prefix, suffix: suffix.clone(), max_depth, limit, offset };
                assert_eq!(home.store.item_namespaces(&user, query.clone()).await.unwrap(), namespaces(&model, &query));
            }
            home.store.close().await;
        });
    }
}
