//! Reading earlier conversations: only with consent, only one's own.

use crate::support::{World, story};
use deerflow_core::ports::{ThreadPatch, ThreadRepo};
use deerflow_core::{JsonMap, ThreadId, UserId};
use deerflow_store::{SqliteStore, StoreOptions};
use deerflow_testkit::{Turn, call};
use pretty_assertions::assert_eq;
use serde_json::json;

const TOOL: &str = "read_conversation";

#[tokio::test]
async fn it_is_offered_with_consent_only() {
    let offered = |world: &World, at: usize| world.model().agent_requests()[at].tool_names().contains(&TOOL);
    let world = World::scripted().await;
    world.model().always(|_| Turn::text("ok"));
    world.run(&["run", "go"]).await.expect_code(0);
    world.run(&["run", "go", "--recall"]).await.expect_code(0);
    assert_eq!((offered(&world, 0), offered(&world, 1)), (false, true));
    let world = World::scripted_with("read_conversation:\n  enabled: true\n").await;
    world.model().always(|_| Turn::text("ok"));
    world.run(&["run", "go"]).await.expect_code(0);
    assert!(offered(&world, 0));
}

#[tokio::test]
async fn it_lists_reads_pages_and_finds_ones_own_conversations() {
    let world = World::scripted().await;
    world.model().push(Turn::text("hay ".repeat(1500)));
    world.run(&["run", "Budget of the fair", "--thread", "old"]).await.expect_code(0);
    world.model().push(Turn::text("the needle is 5"));
    world.run(&["run", "and then?", "--thread", "old"]).await.expect_code(0);
    world.model().push(Turn::text("rain"));
    world.run(&["run", "Weather report", "--thread", "other"]).await.expect_code(0);
    let store = SqliteStore::open(&world.path("data/deerflow.db"), StoreOptions::default()).await.unwrap();
    let (stranger, theirs) = (UserId::parse("stranger").unwrap(), ThreadId::parse("theirs").unwrap());
    store.create_thread(&stranger, &theirs, JsonMap::new()).await.unwrap();
    let title = ThreadPatch { title: Some(Some("Budget of a stranger".into())), ..ThreadPatch::default() };
    store.patch_thread(&stranger, &theirs, title).await.unwrap();
    store.close().await;
    let asks = [
        json!({}),
        json!({"query": "budget"}),
        json!({"thread_id": "old"}),
        json!({"thread_id": "old", "offset": 4000}),
        json!({"thread_id": "old", "query": "NEEDLE"}),
        json!({"thread_id": "theirs"}),
        json!({"thread_id": "nobody"}),
    ];
    for args in asks {
        world.model().push(Turn::calls([call(TOOL, args)]));
    }
    world.model().push(Turn::text("end"));
    world.run(&["run", "What was the budget?", "--thread", "now", "--recall"]).await.expect_code(0);
    let story = story(&world.state("now").await);
    let got: Vec<&str> = story.iter().filter_map(|s| s.strip_prefix("tool: ")).collect();
    assert!(got[0].contains("- old: Budget of the fair") && got[0].contains("- other: "), "{}", got[0]);
    assert!(!got[0].contains("now") && !got[0].contains("theirs"), "{}", got[0]);
    assert!(got[1].contains("- old: ") && !got[1].contains("other") && !got[1].contains("stranger"), "{}", got[1]);
    assert!(got[2].contains("User: Budget of the fair") && got[2].contains("go on with offset 4000"), "{}", got[2]);
    assert!(got[3].starts_with("[characters 4000 to "), "{}", got[3]);
    assert!(got[4].contains("the needle") && !got[4].contains("User: Budget"), "{}", got[4]);
    for hidden in &got[5..] {
        assert!(hidden.contains("there is no conversation"), "{hidden}");
    }
}
