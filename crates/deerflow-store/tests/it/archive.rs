//! Archived history.

use crate::support::{Driver, count, home, thread_id};
use deerflow_core::ports::{
    ArchiveHit, ArchiveLimits, ArchiveRecord, ArchiveRole, ArchivedBatch, HistoryArchive as _, ThreadRepo as _,
};
use deerflow_core::{JsonMap, RunStatus, StoreError, UserId};
use deerflow_store::SqliteStore;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn record(role: ArchiveRole, text: impl Into<String>) -> ArchiveRecord {
    ArchiveRecord { role, text: text.into() }
}

async fn thread(store: &SqliteStore, name: &str) {
    store.create_thread(&UserId::local(), &thread_id(name), JsonMap::new()).await.unwrap();
}

async fn archive(store: &SqliteStore, thread: &str, records: Vec<ArchiveRecord>) -> ArchivedBatch {
    let (user, id) = (UserId::local(), thread_id(thread));
    store.archive(&user, &id, records, ArchiveLimits::default()).await.unwrap()
}

async fn search(store: &SqliteStore, thread: &str, query: &str) -> Vec<ArchiveHit> {
    store.search_archive(&UserId::local(), &thread_id(thread), query, None, 8).await.unwrap()
}

async fn texts(store: &SqliteStore, thread: &str, query: &str) -> Vec<String> {
    search(store, thread, query).await.into_iter().map(|hit| hit.excerpt).collect()
}

#[tokio::test]
async fn words_of_any_language_are_found() {
    let home = home().await;
    thread(&home.store, "t").await;
    let records = [
        "The quarterly report is due on Friday",
        "我们需要分析大语言模型的性能",
        "東京タワーの高さは三百三十三メートルです",
        "서울의 날씨는 맑습니다",
        "Le café était fermé; naïve approach",
        "error E0425 in src/main.rs:12",
    ];
    archive(&home.store, "t", records.map(|text| record(ArchiveRole::User, text)).to_vec()).await;
    for (query, expected) in [
        ("REPORT friday", Some(0)),
        ("模型", Some(1)),
        ("语言", Some(1)),
        ("性能 分析", Some(1)),
        ("模语", None),
        ("タワー", Some(2)),
        ("날씨", Some(3)),
        ("cafe ferme", Some(4)),
        ("E0425", Some(5)),
        ("main.rs:12", Some(5)),
        ("absent", None),
        ("repor", None),
    ] {
        let expected: Vec<String> = expected.map(|n: usize| records[n].to_owned()).into_iter().collect();
        assert_eq!(texts(&home.store, "t", query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn records_with_all_words_come_alone_and_those_with_some_only_without_them() {
    let home = home().await;
    thread(&home.store, "t").await;
    let records = ["red fox", "red wolf", "grey wolf"].map(|text| record(ArchiveRole::Assistant, text)).to_vec();
    archive(&home.store, "t", records).await;
    assert_eq!(texts(&home.store, "t", "red wolf").await, ["red wolf"]);
    let mut some = texts(&home.store, "t", "red badger").await;
    some.sort();
    assert_eq!(some, ["red fox", "red wolf"]);
}

#[tokio::test]
async fn roles_and_limits_narrow_a_search() {
    let home = home().await;
    thread(&home.store, "t").await;
    let roles = [ArchiveRole::User, ArchiveRole::Assistant, ArchiveRole::Tool];
    let records = (0..30).map(|n| record(roles[n % 3], format!("otter {n}"))).collect();
    archive(&home.store, "t", records).await;
    let find = async |role, limit| {
        home.store.search_archive(&UserId::local(), &thread_id("t"), "otter", role, limit).await.unwrap()
    };
    assert_eq!(find(None, 100).await.len(), 8);
    assert_eq!(find(None, 3).await.len(), 3);
    let tools = find(Some(ArchiveRole::Tool), 8).await;
    assert!(tools.len() == 8 && tools.iter().all(|hit| hit.role == ArchiveRole::Tool), "{tools:?}");
    // The words of the scope are not words of the text.
    assert_eq!(search(&home.store, "t", "rtool").await, vec![]);
}

#[tokio::test]
async fn a_record_is_read_in_pages() {
    let home = home().await;
    thread(&home.store, "t").await;
    let long: String = (0..9000).map(|n| char::from_u32(0x4e00 + n % 500).unwrap()).collect();
    archive(&home.store, "t", vec![record(ArchiveRole::Tool, format!("needle {long}"))]).await;
    let hit = search(&home.store, "t", "needle").await.pop().unwrap();
    assert_eq!((hit.source_id.len(), &hit.source_id[..1], hit.excerpt.chars().count()), (33, "r", 600));
    assert!(hit.source_id[1..].bytes().all(|b| b.is_ascii_hexdigit()) && hit.created_at > 1_700_000_000_000_000);
    let (user, id) = (UserId::local(), thread_id("t"));
    let mut offset = Some(0);
    let mut whole = String::new();
    while let Some(at) = offset {
        let page = home.store.read_archive(&user, &id, &hit.source_id, at).await.unwrap().unwrap();
        assert!(page.text.chars().count() <= 4000 && page.total_chars == 9007);
        whole.push_str(&page.text);
        offset = page.next_offset;
    }
    assert_eq!(whole, format!("needle {long}"));
    let beyond = home.store.read_archive(&user, &id, &hit.source_id, u64::MAX).await.unwrap().unwrap();
    assert_eq!((beyond.text.as_str(), beyond.next_offset), ("", None));
    assert_eq!(home.store.read_archive(&user, &id, "r0", 0).await.unwrap(), None);
}

#[tokio::test]
async fn the_same_records_are_one_batch() {
    let home = home().await;
    thread(&home.store, "t").await;
    let records =
        || vec![record(ArchiveRole::User, "otter"), record(ArchiveRole::User, " \n"), record(ArchiveRole::Tool, "x")];
    let batch = archive(&home.store, "t", records()).await;
    assert_eq!((batch.records, batch.omitted_records, batch.digest.len(), batch.batch_id.len()), (2, 0, 64, 33));
    assert_eq!(archive(&home.store, "t", records()).await, batch);
    assert_eq!(search(&home.store, "t", "otter").await.len(), 1);
    let other =
        archive(&home.store, "t", vec![record(ArchiveRole::Tool, "otter"), record(ArchiveRole::Tool, "x")]).await;
    assert_ne!(other.digest, batch.digest, "who said it counts");
}

#[tokio::test]
async fn limits_are_kept_and_told() {
    let home = home().await;
    thread(&home.store, "t").await;
    let (user, id) = (UserId::local(), thread_id("t"));
    let limits = ArchiveLimits { max_batches: 2, max_records_per_batch: 3, max_record_chars: 5 };
    for round in ["one", "two", "three"] {
        let records = (0..5).map(|n| record(ArchiveRole::User, format!("{n}界 {round} is cut off"))).collect();
        let batch = home.store.archive(&user, &id, records, limits).await.unwrap();
        assert_eq!((batch.records, batch.omitted_records), (3, 2));
    }
    assert_eq!(search(&home.store, "t", "one").await, vec![], "the oldest batch is gone");
    assert_eq!(texts(&home.store, "t", "tw").await, ["4界 tw", "3界 tw", "2界 tw"]);
    let rows = "SELECT (SELECT count(*) FROM archive_batches) * 100 + (SELECT count(*) FROM archive_records)";
    assert_eq!(count(&home.path, rows).await, 206);
}

#[tokio::test]
async fn an_archive_is_its_threads_and_its_users() {
    let home = home().await;
    let (user, eve) = (UserId::local(), UserId::parse("eve").unwrap());
    for name in ["t", "u"] {
        let mut driver = Driver::admitted(&home.store, name).await;
        driver.end(&home.store, RunStatus::Success).await;
    }
    archive(&home.store, "t", vec![record(ArchiveRole::User, "otter one")]).await;
    archive(&home.store, "u", vec![record(ArchiveRole::User, "otter two")]).await;
    assert_eq!(texts(&home.store, "t", "otter").await, ["otter one"]);
    let hit = search(&home.store, "t", "otter").await.pop().unwrap();
    let id = thread_id("t");
    assert_eq!(home.store.search_archive(&eve, &id, "otter", None, 8).await.unwrap(), vec![]);
    assert_eq!(home.store.read_archive(&eve, &id, &hit.source_id, 0).await.unwrap(), None);
    assert_eq!(home.store.read_archive(&user, &thread_id("u"), &hit.source_id, 0).await.unwrap(), None);
    let refused = home.store.archive(&eve, &id, vec![], ArchiveLimits::default()).await;
    assert!(matches!(refused, Err(StoreError::NotFound { what: "thread", .. })));
    home.store.delete_thread(&user, &id).await.unwrap();
    assert_eq!(texts(&home.store, "u", "otter").await, ["otter two"]);
    let left = "SELECT (SELECT count(*) FROM archive_records) + (SELECT count(*) FROM archive_index)";
    assert_eq!(count(&home.path, left).await, 2);
}

async fn any_query(queries: Vec<String>) {
    let home = home().await;
    thread(&home.store, "t").await;
    archive(&home.store, "t", vec![record(ArchiveRole::User, "body scope t1 NEAR 中文")]).await;
    for query in queries {
        // Whatever it is, it is answered, and never with a record that has none of its words.
        let hits = search(&home.store, "t", &query).await;
        if !query.chars().any(|c| "bodyscopetnear1中文".contains(c.to_ascii_lowercase())) {
            assert_eq!(hits, vec![], "{query:?}");
        }
    }
    home.store.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]
    #[test]
    fn any_text_is_a_query(queries in prop::collection::vec(prop_oneof![
        any::<String>(),
        "[\"'*^:(){}+\\-,.\\x00 ]{0,20}",
        "(AND|OR|NOT|NEAR|body|scope|t1|\"|\\(|\\)|:|\\*|\\^|-|中| ){0,12}",
    ], 40)) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(any_query(queries));
    }
}
