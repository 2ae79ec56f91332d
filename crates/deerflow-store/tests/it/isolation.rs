//! A second user never sees anything of the first: every method that takes a user, asked by another for what is there.

use crate::support::{Driver, event, fence, home, new_run, outcome, thread_id};
use deerflow_core::ports::{
    ApiKeyHash, ApiKeyRepo as _, ArchiveLimits, ArchiveRecord, ArchiveRole, ConsoleStats, EventRepo as _,
    FeedbackRepo as _, FeedbackStats, HistoryArchive as _, InputQueue as _, ItemQuery, ItemRepo as _, JournalQuery,
    NamespaceQuery, NewApiKey, NewFeedback, NewInput, NewItem, NewJournalRow, Rating, RunFilter, RunRepo as _,
    ThreadFilter, ThreadFork, ThreadPatch, ThreadQuery, ThreadRepo as _, ThreadUsage, UsageRepo as _,
};
use deerflow_core::{JsonMap, Message, RunId, RunStatus, StoreError, UserId};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn refused<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::NotFound { .. })), "{result:?}");
}

#[tokio::test]
async fn another_user_is_told_that_there_is_nothing() {
    let home = home().await;
    let store = &home.store;
    let (ada, eve, thread) = (UserId::local(), UserId::parse("eve").unwrap(), thread_id("t"));
    let mut driver = Driver::admitted(store, "t").await;
    let run_id: RunId = driver.run_id.clone().unwrap();
    let input = |user: &UserId| NewInput {
        run_input_id: "i".into(),
        run_id: run_id.clone(),
        content: Message::human("more").with_id("i"),
        created_by: user.clone(),
    };
    store.enqueue(&ada, input(&ada)).await.unwrap();
    driver.end(store, RunStatus::Success).await;
    let usage = NewJournalRow::new("trace", "llm.usage", Value::Null).with("usage", json!({"total_tokens": 7}));
    let second = store.admit(new_run("t")).await.unwrap();
    store.finish(&fence(&second), outcome(RunStatus::Success), vec![event(json!(1)), usage]).await.unwrap();
    let record = ArchiveRecord { role: ArchiveRole::User, text: "secret words".into() };
    store.archive(&ada, &thread, vec![record.clone()], ArchiveLimits::default()).await.unwrap();
    let hit = store.search_archive(&ada, &thread, "secret", None, 8).await.unwrap().remove(0);
    let judged = || NewFeedback { message_id: None, rating: Rating::Good, comment: None };
    store.put_feedback(&ada, &thread, &run_id, judged()).await.unwrap();
    let item = NewItem { namespace: vec!["n".into()], key: "k".into(), value: JsonMap::new(), ttl_minutes: None };
    store.put_item(&ada, item).await.unwrap();
    let key = NewApiKey { name: "k".into(), hash: ApiKeyHash([1; 32]), prefix: "p".into(), expires_at: None };
    let key = store.create_api_key(&ada, key).await.unwrap();

    // Threads.
    assert_eq!(store.thread(&eve, &thread).await.unwrap(), None);
    assert_eq!(store.threads(&eve, 99, 0).await.unwrap(), []);
    assert_eq!(store.search_threads(&eve, ThreadQuery::default()).await.unwrap(), []);
    let by_id = ThreadFilter { ids: Some(vec![thread.clone()]), ..ThreadFilter::default() };
    assert_eq!(store.count_threads(&eve, by_id).await.unwrap(), 0);
    refused(store.create_thread(&eve, &thread, JsonMap::new()).await);
    refused(store.patch_thread(&eve, &thread, ThreadPatch::default()).await);
    refused(store.delete_thread(&eve, &thread).await);
    let fork = ThreadFork { from: thread.clone(), at: None, new_thread_id: thread_id("f"), metadata: JsonMap::new() };
    refused(store.fork_thread(&eve, fork).await);
    // Runs.
    let mut run = new_run("t");
    run.user_id = eve.clone();
    refused(store.admit(run).await);
    for thread_id in [None, Some(thread.clone())] {
        let filter = RunFilter { thread_id, ..RunFilter::default() };
        assert_eq!(store.runs(&eve, filter.clone()).await.unwrap(), []);
        assert_eq!(store.count_runs(&eve, filter).await.unwrap(), 0);
    }
    refused(store.delete_run(&eve, &run_id).await);
    for run_id in [None, Some(run_id.clone())] {
        let query = JournalQuery { run_id, limit: 99, ..JournalQuery::default() };
        assert_eq!(store.journal_page(&eve, &thread, query).await.unwrap(), []);
    }
    assert_eq!(store.run_usage(&eve, std::slice::from_ref(&second.run_id)).await.unwrap().len(), 0);
    assert_eq!(store.thread_usage(&eve, &thread, true).await.unwrap(), ThreadUsage::default());
    assert_eq!(store.console_stats(&eve).await.unwrap(), ConsoleStats::default());
    assert_eq!(store.usage_by_day(&eve, 0, 0).await.unwrap(), []);
    // Inputs, archive, feedback, values, keys.
    refused(store.enqueue(&eve, input(&eve)).await);
    assert_eq!(store.returned(&eve, &thread).await.unwrap(), []);
    refused(store.archive(&eve, &thread, vec![record], ArchiveLimits::default()).await);
    assert_eq!(store.search_archive(&eve, &thread, "secret", None, 8).await.unwrap(), []);
    assert_eq!(store.read_archive(&eve, &thread, &hit.source_id, 0).await.unwrap(), None);
    refused(store.put_feedback(&eve, &thread, &run_id, judged()).await);
    assert_eq!(store.feedback(&eve, &thread, None).await.unwrap(), []);
    refused(store.delete_feedback(&eve, &thread, &run_id, None).await);
    assert_eq!(store.feedback_stats(&eve, &thread, &run_id).await.unwrap(), FeedbackStats::default());
    assert_eq!(store.item(&eve, &["n".to_owned()], "k", true).await.unwrap(), None);
    store.delete_item(&eve, &["n".to_owned()], "k").await.unwrap();
    assert_eq!(store.search_items(&eve, ItemQuery::default()).await.unwrap(), []);
    assert_eq!(store.item_namespaces(&eve, NamespaceQuery::default()).await.unwrap(), Vec::<Vec<String>>::new());
    assert_eq!(store.api_keys(&eve).await.unwrap(), []);
    refused(store.revoke_api_key(&eve, &key.key_id).await);

    // All of it is there for its owner.
    assert_eq!(store.runs(&ada, RunFilter::default()).await.unwrap().len(), 2);
    assert_eq!(store.returned(&ada, &thread).await.unwrap().len(), 1);
    assert_eq!(store.console_stats(&ada).await.unwrap().total_runs, 2);
    assert_eq!(store.run_usage(&ada, &[second.run_id]).await.unwrap().len(), 1);
    assert_eq!(store.feedback_stats(&ada, &thread, &run_id).await.unwrap().positive, 1);
    assert_eq!(store.search_items(&ada, ItemQuery::default()).await.unwrap().len(), 1);
    assert_eq!(store.api_keys(&ada).await.unwrap().len(), 1);
}
