//! Any sequence of updates: what is loaded is what a plain replay in memory gave.

use crate::support::{Driver, frame, home_with};
use deerflow_core::ports::{StepKind, StepLog as _};
use deerflow_core::run::Next;
use deerflow_core::state::{SandboxState, Todo, TodoStatus};
use deerflow_core::{Channel, Message, StateUpdate};
use deerflow_store::{SqliteStore, StoreOptions};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn message() -> impl Strategy<Value = Message> {
    let text = prop_oneof!["[a-z谢\"\\\\ ]{0,20}", Just("long ".repeat(300))];
    (text, prop::option::weighted(0.9, 0u8..12), 0u8..4).prop_map(|(text, id, kind)| {
        let mut message = match kind {
            0 => Message::human(text),
            1 => Message::ai(text).with_kwarg("k", json!({"n": 1})),
            2 => Message::tool(text, "c", "bash"),
            _ => Message::system(text),
        };
        message.id = id.map(|id| format!("m{id}"));
        message
    })
}

fn small_json() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,8}".prop_map(Value::from),
        Just(json!({"$ref": "AAAAAAAAAAAAAAAAAAAAAA"})),
        Just(json!({"big": "b".repeat(700)})),
    ]
}

fn update() -> impl Strategy<Value = StateUpdate> {
    (
        prop::collection::vec(message(), 0..3),
        prop::option::of("[a-z]{1,5}"),
        prop::option::of(prop::collection::vec("[a-z]{1,3}", 0..4)),
        prop::option::of(small_json()),
        prop::option::of(prop::collection::vec("[a-z]{0,9}", 0..3)),
        prop::collection::btree_map("[a-c]|\\$ref", small_json(), 0..3),
        (0u8..12, any::<bool>()),
        prop::collection::btree_set(
            prop_oneof![Just(Channel::Title), Just(Channel::Todos), Just(Channel::Messages)],
            0..2,
        ),
    )
        .prop_map(|(messages, title, artifacts, history, todos, private, (clear, keep), remove)| {
            let mut messages = messages;
            if clear == 0 {
                messages.insert(0, Message::remove_all());
            }
            StateUpdate {
                title,
                artifacts,
                task_history: history,
                todos: todos.map(|items| {
                    items.into_iter().map(|content| Todo { content, status: TodoStatus::InProgress }).collect()
                }),
                sandbox: (clear == 1).then(|| SandboxState { sandbox_id: keep.then(|| "box".to_owned()) }),
                private: private.into_iter().collect::<BTreeMap<_, _>>(),
                remove: if keep { Default::default() } else { remove },
                ..StateUpdate::messages(messages)
            }
        })
}

fn steps() -> impl Strategy<Value = Vec<(bool, Vec<StateUpdate>)>> {
    prop::collection::vec((prop::bool::weighted(0.2), prop::collection::vec(update(), 0..3)), 1..60)
}

async fn check(steps: Vec<(bool, Vec<StateUpdate>)>) {
    let home = home_with(StoreOptions { snapshot_frequency: 2, ..StoreOptions::default() }).await;
    let cold = SqliteStore::open(&home.path, StoreOptions { cache_bytes: 0, ..StoreOptions::default() }).await.unwrap();
    let mut driver = Driver::bare("t");
    let mut states = Vec::new();
    for (tools, updates) in steps {
        let kind = if tools { StepKind::Tools } else { StepKind::Model };
        // What the reducers refuse never reaches a commit.
        let mut trial = driver.state.clone();
        let accepted = if tools {
            trial.apply_concurrent(&updates).is_ok()
        } else {
            updates.iter().all(|update| trial.apply(update).is_ok())
        };
        if !accepted {
            continue;
        }
        let updates = updates.into_iter().map(|update| frame("n", update)).collect();
        let commit = driver.commit(kind, Next::Model, updates);
        let id = driver.send(&home.store, commit).await.unwrap().checkpoint_id.unwrap();
        states.push((id, driver.state.clone()));
    }
    for store in [&home.store, &cold] {
        let head = store.load(&driver.lineage, None).await.unwrap().map(|checkpoint| checkpoint.state);
        assert_eq!(head, states.last().map(|(_, state)| state.clone()));
        for (id, state) in &states {
            assert_eq!(store.load(&driver.lineage, Some(id)).await.unwrap().unwrap().state, *state);
        }
    }
    cold.close().await;
    home.store.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_load_equals_a_replay_in_memory(steps in steps()) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(check(steps));
    }
}
