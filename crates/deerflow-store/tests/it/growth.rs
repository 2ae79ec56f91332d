use crate::support::{Driver, event, home_with};
use deerflow_core::ports::{EffectRecord, StepKind, StepLog as _};
use deerflow_core::run::Next;
use deerflow_core::{CheckpointId, Message, RunStatus, StateUpdate, ThreadState, ToolCall, Usage};
use deerflow_store::{SqliteStore, StoreOptions};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::path::Path;

/// Database and log, in bytes.
fn size(path: &Path) -> u64 {
    ["", "-wal"]
        .iter()
        .filter_map(|suffix| std::fs::metadata(format!("{}{suffix}", path.display())).ok())
        .map(|file| file.len())
        .sum()
}

fn text(turn: usize) -> String {
    format!("turn {turn}: {}", "a sentence of the conversation that goes on for a while. ".repeat(4))
        .chars()
        .take(200)
        .collect()
}

fn model_message(id: String, turn: usize, calls: Vec<ToolCall>) -> Message {
    let mut message = Message::ai_calls(text(turn), calls).with_id(id);
    message.as_ai_mut().unwrap().usage_metadata = Some(Usage::new(1234, 56));
    message.response_metadata.insert("finish_reason".into(), json!("stop"));
    message.response_metadata.insert("model_name".into(), json!("some-model-2026"));
    message
}

fn journalled(message: &Message) -> deerflow_core::ports::NewJournalRow {
    event(serde_json::to_value(message).unwrap())
}

/// One turn: input, model, tools, model, end, as a run of its own.
async fn turn(store: &SqliteStore, n: usize, driver: &mut Driver, states: &mut Vec<(CheckpointId, ThreadState)>) {
    use deerflow_core::ports::RunRepo as _;
    let mut run = crate::support::new_run("t");
    let id = |part: &str| deerflow_core::ids::message_id()[..30].to_owned() + part;
    let human = Message::human(text(n)).with_id(id("h"));
    run.input = StateUpdate::messages([human.clone()]);
    driver.under(&store.admit(run).await.unwrap());
    driver.step = 0;
    let call = ToolCall::new(id("c"), "web_search", json!({"query": "weather"}).as_object().unwrap().clone());
    let asking = model_message(id("m"), n, vec![call.clone()]);
    let result = Message::tool(text(n), call.id.clone().unwrap(), "web_search").with_id(id("r"));
    let answer = model_message(id("a"), n, vec![]);
    let seen = StateUpdate {
        private: [("LoopDetection".to_owned(), json!({"turn": n, "seen": [n]}))].into(),
        ..StateUpdate::none()
    };
    let steps = [
        (StepKind::Input, Next::Model, human, StateUpdate { title: Some("Weather".into()), ..StateUpdate::none() }),
        (StepKind::Model, Next::Tools, asking, seen.clone()),
        (StepKind::Tools, Next::Model, result, StateUpdate::none()),
        (StepKind::Model, Next::End, answer, seen),
    ];
    for (kind, next, message, extra) in steps {
        if kind == StepKind::Tools {
            let mut effects = driver.commit(StepKind::Effects, Next::Tools, vec![]);
            effects.effects = vec![EffectRecord::Started {
                step: 1,
                index: 0,
                call_id: "c".into(),
                tool: "web_search".into(),
                fingerprint: None,
            }];
            driver.send(store, effects).await.unwrap();
        }
        let row = journalled(&message);
        let node = if kind == StepKind::Tools { "tools" } else { "model" };
        let updates = vec![
            crate::support::frame(node, StateUpdate::messages([message])),
            crate::support::frame("LoopDetectionMiddleware.after_model", extra),
        ];
        let mut commit = driver.commit(kind, next, updates);
        commit.events = vec![row, event(json!({"type": "step", "elapsed_ms": 12}))];
        let id = driver.send(store, commit).await.unwrap().checkpoint_id.unwrap();
        states.push((id, driver.state.clone()));
    }
    let id = driver.end(store, RunStatus::Success).await;
    states.push((id, driver.state.clone()));
}

#[tokio::test]
async fn four_hundred_turns_grow_linearly_and_stay_readable() {
    // The original needs 1,724 MiB for this in full mode, 174 MiB in delta mode.
    let home = home_with(StoreOptions { cache_bytes: 64 << 20, ..StoreOptions::default() }).await;
    let mut driver = Driver::bare("t");
    let mut states = Vec::new();
    let mut sizes = Vec::new();
    for n in 0..400 {
        turn(&home.store, n, &mut driver, &mut states).await;
        if n == 199 || n == 399 {
            sizes.push(crate::support::count(&home.path, "SELECT page_count * 4096 FROM pragma_page_count").await);
        }
    }
    let with_log = size(&home.path);
    let [half, whole] = sizes[..] else { panic!("two sizes") };
    println!("{half} bytes after 200 turns, {whole} after 400, {with_log} with the log");
    assert!(with_log < 6 << 20, "{with_log} bytes with the log as it stands");
    assert!(whole * 10 < half * 23, "{half} bytes after 200 turns, {whole} after 400");
    // Snapshots are taken beside the steps: a machine that is busy otherwise gets the time for one.
    let behind = "SELECT head_ordinal - snapshot_ordinal FROM lineages";
    for n in 400..440 {
        if crate::support::count(&home.path, behind).await < 120 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        turn(&home.store, n, &mut driver, &mut states).await;
    }
    home.store.close().await;
    assert!(size(&home.path) < 4 << 20, "{} bytes when closed", size(&home.path));

    // Another store, which remembers nothing.
    let store =
        SqliteStore::open(&home.path, StoreOptions { cache_bytes: 0, ..StoreOptions::default() }).await.unwrap();
    let mut before = None;
    let mut listed = Vec::new();
    loop {
        let page = store.history(&driver.lineage, before.as_ref(), 300).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.id.clone());
        listed.extend(page.into_iter().map(|entry| entry.id));
    }
    listed.reverse();
    assert_eq!(listed, states.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>());
    for (n, (id, state)) in states.iter().enumerate() {
        // All of the first and the last, some between.
        if !(60..=1970).contains(&n) || n % 23 == 0 {
            let loaded = store.load(&driver.lineage, Some(id)).await.unwrap().unwrap();
            assert_eq!(loaded.state, *state, "checkpoint {n}");
        }
    }
    let steps_to_replay: i64 = crate::support::count(&home.path, behind).await;
    assert!(steps_to_replay < 120, "{steps_to_replay} steps since the last snapshot");
    store.close().await;
}

#[tokio::test]
async fn snapshots_never_outweigh_the_log() {
    let home = home_with(StoreOptions::default()).await;
    let mut driver = Driver::bare("t");
    for n in 0..600 {
        let update = StateUpdate::messages([Message::ai("x").with_id(n.to_string())]);
        driver.step(&home.store, StepKind::Model, Next::Model, update).await;
    }
    home.store.close().await;
    let count = async |sql| crate::support::count(&home.path, sql).await;
    let log = count("SELECT sum(length(updates) + 200) FROM steps").await;
    let snapshots = count("SELECT sum(length(messages) + length(channels)) FROM snapshots").await;
    let number = count("SELECT count(*) FROM snapshots").await;
    assert!(number > 5 && snapshots <= log, "{number} snapshots of {snapshots} bytes, log of {log}");
}

#[tokio::test]
async fn a_large_value_that_does_not_change_is_stored_once() {
    let home = home_with(StoreOptions::default()).await;
    let mut driver = Driver::bare("t");
    let large: Value = json!({"index": "i".repeat(100_000)});
    for n in 0..50 {
        let update = StateUpdate {
            task_history: Some(large.clone()),
            private: [("M".to_owned(), large.clone())].into(),
            ..StateUpdate::messages([Message::ai("x").with_id(n.to_string())])
        };
        driver.step(&home.store, StepKind::Model, Next::Model, update).await;
    }
    home.store.close().await;
    assert!(size(&home.path) < 400_000, "{} bytes", size(&home.path));
}
