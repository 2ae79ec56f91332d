//! Deleting what nobody has used for long.

use crate::support::{Driver, home, new_run, thread_id};
use deerflow_core::ports::{RunRepo as _, StepKind, StepLog as _, ThreadRepo as _};
use deerflow_core::run::Next;
use deerflow_core::{JsonMap, Message, RunStatus, StateUpdate, UserId};
use pretty_assertions::assert_eq;

fn ids(pruned: &deerflow_store::Pruned) -> Vec<String> {
    pruned.threads.iter().map(|row| row.thread_id.to_string()).collect()
}

#[tokio::test]
async fn what_is_unused_goes_and_its_space_with_it() {
    let home = home().await;
    let (user, eve) = (UserId::local(), UserId::parse("eve").unwrap());
    let mut old = Driver::admitted(&home.store, "old").await;
    for n in 0..200 {
        let update = StateUpdate::messages([Message::ai(format!("{n}{}", "x".repeat(5000))).with_id(n.to_string())]);
        old.step(&home.store, StepKind::Model, Next::Model, update).await;
    }
    old.end(&home.store, RunStatus::Success).await;
    home.store.create_thread(&eve, &thread_id("theirs"), JsonMap::new()).await.unwrap();
    let live = home.store.admit(new_run("live")).await.unwrap();
    let since = live.created_at + 1;
    home.store.create_thread(&user, &thread_id("new"), JsonMap::new()).await.unwrap();

    let dry = home.store.prune(None, since, true).await.unwrap();
    assert_eq!((ids(&dry), dry.freed_bytes), (vec!["old".to_owned(), "theirs".to_owned()], 0));
    assert!(home.store.load(&old.lineage, None).await.unwrap().is_some());

    let pruned = home.store.prune(Some(&user), since, false).await.unwrap();
    assert_eq!(ids(&pruned), ["old"]);
    assert!(pruned.freed_bytes > 500_000, "{} bytes", pruned.freed_bytes);
    assert!(home.store.load(&old.lineage, None).await.unwrap().is_none());
    assert!(home.store.thread(&eve, &thread_id("theirs")).await.unwrap().is_some());
    assert!(home.store.thread(&user, &thread_id("live")).await.unwrap().is_some());
    assert!(home.store.thread(&user, &thread_id("new")).await.unwrap().is_some());
    assert_eq!(ids(&home.store.prune(None, since, false).await.unwrap()), ["theirs"]);
    assert_eq!(ids(&home.store.prune(None, 0, false).await.unwrap()), Vec::<String>::new());
}
