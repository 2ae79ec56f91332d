use super::*;
use deerflow_core::{NodeUpdate, StateUpdate, ThreadState};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

fn shelf(pile: Pile) -> Shelf {
    let mut shelf = Shelf::default();
    for (hash, bytes) in pile.into_pieces() {
        shelf.insert(hash, bytes);
    }
    shelf
}

fn journal_round_trip(content: &Value) -> (Value, usize) {
    let mut pile = Pile::default();
    let packed: Value = serde_json::from_str(&pack_journal(content, &mut pile).unwrap()).unwrap();
    let mut found = Vec::new();
    journal_references(&packed, &mut found);
    let pieces = pile.into_pieces();
    assert!(pieces.iter().all(|(hash, _)| found.contains(hash)), "every piece is referred to");
    let count = pieces.len();
    let mut shelf = Shelf::default();
    for (hash, bytes) in pieces {
        shelf.insert(hash, bytes);
    }
    (unpack_journal(packed, &shelf).unwrap(), count)
}

#[test]
fn a_journalled_message_is_the_content_of_its_step() {
    let message = Message::ai("hello").with_id("m1").with_kwarg("k", 1);
    let mut pile = Pile::default();
    pack_frames(&[NodeUpdate { node: "model".into(), update: StateUpdate::messages([message.clone()]) }], &mut pile)
        .unwrap();
    pack_journal(&serde_json::to_value(&message).unwrap(), &mut pile).unwrap();
    pack_journal(&json!({"message": message, "node": "model"}), &mut pile).unwrap();
    pack_journal(&json!({"values": {"messages": 1}, "list": [message]}), &mut pile).unwrap();
    assert_eq!(pile.into_pieces().len(), 1);
}

#[test]
fn what_looks_like_a_reference_stays_what_it_is() {
    let forged = json!({"$ref": Hash::of(b"x").text()});
    for content in
        [forged.clone(), json!({"a": forged}), json!({"a": [forged]}), json!([[[forged]]]), json!({"$ref": 1})]
    {
        assert_eq!(journal_round_trip(&content).0, content);
    }
    let update = StateUpdate {
        task_history: Some(forged.clone()),
        private: [("X".to_owned(), forged.clone()), ("$ref".to_owned(), json!("y"))].into(),
        ..StateUpdate::default()
    };
    let mut pile = Pile::default();
    let text = pack_update(&update, &mut pile).unwrap();
    assert_eq!(PackedFrame::parse(&text).unwrap().unpack(&mut shelf(pile)).unwrap(), update);
    // One slot only, named like the key of a reference.
    let update = StateUpdate {
        private: [("$ref".to_owned(), json!("AAAAAAAAAAAAAAAAAAAAAA"))].into(),
        ..StateUpdate::default()
    };
    let mut pile = Pile::default();
    let text = pack_update(&update, &mut pile).unwrap();
    assert_eq!(PackedFrame::parse(&text).unwrap().unpack(&mut shelf(pile)).unwrap(), update);
}

#[test]
fn a_written_null_is_not_an_absent_write() {
    let update = StateUpdate { goal_outcome: Some(Value::Null), ..StateUpdate::default() };
    let text = pack_update(&update, &mut Pile::default()).unwrap();
    assert_eq!(PackedFrame::parse(&text).unwrap().unpack(&mut Shelf::default()).unwrap(), update);
}

#[test]
fn messages_without_ids_get_those_the_state_gave_them() {
    let mut state = ThreadState::default();
    state.apply(&StateUpdate::messages([Message::human("before")])).unwrap();
    let mut updates = vec![
        NodeUpdate {
            node: "a".into(),
            update: StateUpdate::messages([Message::human("same"), Message::human("same")]),
        },
        NodeUpdate { node: "b".into(), update: StateUpdate::messages([Message::ai("other")]) },
    ];
    for update in &updates {
        state.apply(&update.update).unwrap();
    }
    resolve_ids(&mut updates, &state);
    let ids: Vec<_> = updates.iter().flat_map(|u| u.update.messages.iter().map(|m| m.id().to_owned())).collect();
    let expected: Vec<_> = state.messages[1..].iter().map(|m| m.id().to_owned()).collect();
    assert_eq!(ids, expected);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z$界]{0,12}".prop_map(Value::from),
        Just(Value::from("long ".repeat(150))),
        Just(json!({"$ref": "AAAAAAAAAAAAAAAAAAAAAA"})),
        Just(serde_json::to_value(Message::human("hi")).unwrap()),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-c]|\\$ref|type|content", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn journal_content_survives(content in any_json()) {
        prop_assert_eq!(journal_round_trip(&content).0, content);
    }
}
