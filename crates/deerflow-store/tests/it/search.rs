use crate::support::{Driver, home, new_run, thread_id};
use deerflow_core::ports::{RunRepo as _, ThreadFilter, ThreadPatch, ThreadQuery, ThreadRepo as _, ThreadSort};
use deerflow_core::{JsonMap, RunStatus, StoreError, UserId};
use deerflow_store::SqliteStore;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn map(value: Value) -> JsonMap {
    value.as_object().unwrap().clone()
}

async fn found(store: &SqliteStore, query: ThreadQuery) -> Vec<String> {
    let rows = store.search_threads(&UserId::local(), query).await.unwrap();
    rows.into_iter().map(|row| row.thread_id.to_string()).collect()
}

#[tokio::test]
async fn a_thread_is_made_once_and_belongs_to_its_maker() {
    let home = home().await;
    let (user, eve) = (UserId::local(), UserId::parse("eve").unwrap());
    let id = thread_id("t");
    let (row, created) = home.store.create_thread(&user, &id, map(json!({"a": 1}))).await.unwrap();
    assert!(created);
    assert_eq!((row.status.as_str(), &row.title, row.metadata.clone()), ("idle", &None, map(json!({"a": 1}))));
    let again = home.store.create_thread(&user, &id, map(json!({"b": 2}))).await.unwrap();
    assert_eq!(again, (row, false), "as it is");
    let stolen = home.store.create_thread(&eve, &id, JsonMap::new()).await;
    assert!(matches!(stolen, Err(StoreError::NotFound { what: "thread", .. })));
    // A run takes it as it takes any other.
    let mut driver = Driver::admitted(&home.store, "t").await;
    driver.end(&home.store, RunStatus::Success).await;
    assert_eq!(home.store.thread(&user, &id).await.unwrap().unwrap().metadata, map(json!({"a": 1})));
}

#[tokio::test]
async fn a_patch_merges_keys_and_deletes_with_null() {
    let home = home().await;
    let (user, eve) = (UserId::local(), UserId::parse("eve").unwrap());
    let id = thread_id("t");
    let (before, _) = home.store.create_thread(&user, &id, map(json!({"a": 1, "b": {"x": 1}, "c": 3}))).await.unwrap();
    let patch = ThreadPatch { metadata: map(json!({"b": {"y": 2}, "c": null, "d": [1]})), ..ThreadPatch::default() };
    let row = home.store.patch_thread(&user, &id, patch.clone()).await.unwrap();
    assert_eq!(row.metadata, map(json!({"a": 1, "b": {"y": 2}, "d": [1]})));
    assert!(row.updated_at > before.updated_at);
    assert_eq!(row.title, None);
    let named = ThreadPatch { title: Some(Some("Name".into())), quiet: true, ..ThreadPatch::default() };
    let quiet = home.store.patch_thread(&user, &id, named).await.unwrap();
    assert_eq!((quiet.title.as_deref(), quiet.updated_at), (Some("Name"), row.updated_at));
    assert!(matches!(home.store.patch_thread(&eve, &id, patch).await, Err(StoreError::NotFound { .. })));
    assert_eq!(home.store.thread(&user, &id).await.unwrap().unwrap(), quiet);
}

#[tokio::test]
async fn threads_are_found_by_metadata_status_and_id() {
    let home = home().await;
    let user = UserId::local();
    for (id, metadata) in [
        ("a", json!({"kind": "report", "n": 1, "done": true, "deep": {"x": [1]}})),
        ("b", json!({"kind": "report", "n": 1.0, "done": false})),
        ("c", json!({"kind": "REPORT", "n": "1", "gone": null})),
        ("d", json!({})),
    ] {
        home.store.create_thread(&user, &thread_id(id), map(metadata)).await.unwrap();
    }
    home.store.create_thread(&UserId::parse("eve").unwrap(), &thread_id("e"), map(json!({"n": 1}))).await.unwrap();
    home.store.admit(new_run("d")).await.unwrap();

    for (metadata, expected) in [
        (json!({}), "d c b a"),
        (json!({"kind": "report"}), "b a"),
        (json!({"kind": "report", "done": true}), "a"),
        (json!({"done": 1}), ""),
        (json!({"n": 1}), "b a"),
        (json!({"n": "1"}), "c"),
        (json!({"deep": {"x": [1]}}), "a"),
        (json!({"gone": null}), "d c b a"),
        (json!({"done": null}), "d c"),
        (json!({"x'; DROP TABLE threads; --": "\""}), ""),
    ] {
        let filter = ThreadFilter { metadata: map(metadata.clone()), ..ThreadFilter::default() };
        let shown = found(&home.store, ThreadQuery { filter: filter.clone(), ..ThreadQuery::default() }).await;
        assert_eq!(shown.join(" "), expected, "{metadata}");
        assert_eq!(home.store.count_threads(&user, filter).await.unwrap(), shown.len() as u64);
    }
    let status = |list: &[&str]| ThreadFilter {
        status: list.iter().map(|s| (*s).to_owned()).collect(),
        ..ThreadFilter::default()
    };
    for (filter, expected) in [
        (status(&["busy"]), "d"),
        (status(&["busy", "idle"]), "d c b a"),
        (status(&["error"]), ""),
        (ThreadFilter { ids: Some(vec![thread_id("a"), thread_id("e"), thread_id("c")]), ..status(&[]) }, "c a"),
        (ThreadFilter { ids: Some(vec![]), ..status(&[]) }, ""),
    ] {
        assert_eq!(found(&home.store, ThreadQuery { filter, ..ThreadQuery::default() }).await.join(" "), expected);
    }
}

#[tokio::test]
async fn threads_are_sorted_paged_and_pinned() {
    let home = home().await;
    let user = UserId::local();
    for id in ["b", "c", "a"] {
        home.store.create_thread(&user, &thread_id(id), JsonMap::new()).await.unwrap();
    }
    home.store.patch_thread(&user, &thread_id("b"), ThreadPatch::default()).await.unwrap();
    let sorted = async |sort, ascending, limit, offset| -> String {
        let query = ThreadQuery { sort, ascending, limit, offset, ..ThreadQuery::default() };
        found(&home.store, query).await.join(" ")
    };
    assert_eq!(sorted(ThreadSort::UpdatedAt, false, 9, 0).await, "b a c");
    assert_eq!(sorted(ThreadSort::UpdatedAt, true, 9, 0).await, "c a b");
    assert_eq!(sorted(ThreadSort::CreatedAt, true, 9, 0).await, "b c a");
    assert_eq!(sorted(ThreadSort::ThreadId, true, 9, 0).await, "a b c");
    assert_eq!(sorted(ThreadSort::ThreadId, false, 2, 1).await, "b a");
    assert_eq!(sorted(ThreadSort::ThreadId, false, 0, 0).await, "");
    assert_eq!(sorted(ThreadSort::ThreadId, false, 5, 3).await, "");
    for (id, pinned) in [("c", json!(true)), ("b", json!("true"))] {
        let patch = ThreadPatch { metadata: map(json!({"pinned": pinned})), quiet: true, ..ThreadPatch::default() };
        home.store.patch_thread(&user, &thread_id(id), patch).await.unwrap();
    }
    let query = ThreadQuery { pinned_by: Some("pinned".into()), ..ThreadQuery::default() };
    assert_eq!(found(&home.store, query).await.join(" "), "c b a");
}
