//! Each rule of each reducer, then properties that all of them share.

use super::*;
use crate::state::*;
use crate::{Message, StateError, StateUpdate, ThreadState};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;

fn msgs(list: Vec<Message>) -> Vec<Arc<Message>> {
    list.into_iter().map(Arc::new).collect()
}

fn ids(list: &[Arc<Message>]) -> Vec<String> {
    list.iter().map(|m| format!("{}:{}", m.id(), m.text())).collect()
}

#[test]
fn messages_replace_in_place_and_append() {
    let mut state = msgs(vec![Message::human("a").with_id("1"), Message::ai("b").with_id("2")]);
    merge_messages(&mut state, &msgs(vec![Message::ai("B").with_id("2"), Message::human("c").with_id("3")])).unwrap();
    assert_eq!(ids(&state), ["1:a", "2:B", "3:c"]);
}

#[test]
fn removal_acts_at_the_end_and_a_replacement_cancels_it() {
    let mut state = msgs(vec![Message::human("a").with_id("1"), Message::ai("b").with_id("2")]);
    let write = vec![
        Message::remove("1"),
        Message::remove("2"),
        Message::ai("B").with_id("2"),
        Message::human("c").with_id("3"),
    ];
    merge_messages(&mut state, &msgs(write)).unwrap();
    assert_eq!(ids(&state), ["2:B", "3:c"]);
}

#[test]
fn removing_what_is_not_there_changes_nothing() {
    let mut state = msgs(vec![Message::human("a").with_id("1")]);
    let error =
        merge_messages(&mut state, &msgs(vec![Message::human("x").with_id("9"), Message::remove("7")])).unwrap_err();
    assert_eq!(error, StateError::NoSuchMessage { id: "7".into() });
    assert_eq!(ids(&state), ["1:a"]);
}

#[test]
fn the_last_remove_all_marker_counts_and_the_rest_stays_uncollapsed() {
    let mut state = msgs(vec![Message::human("a").with_id("1")]);
    let write = vec![
        Message::human("x").with_id("5"),
        Message::remove_all(),
        Message::human("y").with_id("6"),
        Message::remove_all(),
        Message::human("p").with_id("7"),
        Message::human("q").with_id("7"),
    ];
    merge_messages(&mut state, &msgs(write)).unwrap();
    assert_eq!(ids(&state), ["7:p", "7:q"]);
    // Duplicates that exist: a replacement hits the latest, a removal hits all.
    merge_messages(&mut state, &msgs(vec![Message::human("z").with_id("7")])).unwrap();
    assert_eq!(ids(&state), ["7:p", "7:z"]);
    merge_messages(&mut state, &msgs(vec![Message::remove("7")])).unwrap();
    assert_eq!(ids(&state), Vec::<String>::new());
}

#[test]
fn a_message_without_an_id_gets_one() {
    let mut state = vec![];
    merge_messages(&mut state, &msgs(vec![Message::human("a"), Message::human("a")])).unwrap();
    assert_eq!(state.len(), 2);
    assert_eq!(state[0].id().len(), 36);
    assert_ne!(state[0].id(), state[1].id());
}

#[test]
fn a_second_sandbox_is_refused_and_the_state_is_untouched() {
    let of = |id: Option<&str>| SandboxState { sandbox_id: id.map(str::to_owned) };
    let held = of(Some("a"));
    assert_eq!(merge_sandbox(Some(&held), None).unwrap(), Some(held.clone()));
    assert_eq!(merge_sandbox(Some(&held), Some(&held)).unwrap(), Some(held.clone()));
    assert!(merge_sandbox(Some(&held), Some(&of(Some("b")))).is_err());
    assert!(merge_sandbox(Some(&of(None)), Some(&held)).is_err());

    let mut state = ThreadState { sandbox: Some(held), ..Default::default() };
    let before = state.clone();
    let update = StateUpdate {
        sandbox: Some(of(Some("b"))),
        title: Some("t".into()),
        ..StateUpdate::messages([Message::human("x")])
    };
    assert!(state.apply(&update).is_err());
    assert_eq!(state, before);
}

#[test]
fn artifacts_keep_first_seen_order() {
    let mut state = Some(vec!["a".to_owned(), "b".into()]);
    merge_artifacts(&mut state, Some(&["b".into(), "c".into(), "a".into(), "c".into()]));
    assert_eq!(state.unwrap(), ["a", "b", "c"]);
    let mut none = None;
    merge_artifacts(&mut none, Some(&[]));
    assert_eq!(none, Some(vec![]));
}

#[test]
fn an_empty_map_clears_viewed_images() {
    let image = |n| ViewedImage {
        mime_type: "image/png".into(),
        size: n,
        actual_path: "p".into(),
        sha256: None,
        source_sandbox_id: None,
        blob_ref: None,
    };
    let mut state = None;
    merge_viewed_images(
        &mut state,
        Some(&[("a".to_owned(), image(1)), ("b".to_owned(), image(1))].into_iter().collect()),
    );
    merge_viewed_images(&mut state, Some(&[("a".to_owned(), image(2))].into_iter().collect()));
    assert_eq!(state.as_ref().unwrap().len(), 2);
    assert_eq!(state.as_ref().unwrap()["a"].size, 2);
    merge_viewed_images(&mut state, Some(&Default::default()));
    assert_eq!(state.unwrap().len(), 0);
}

#[test]
fn promotions_unite_within_a_catalogue_and_turn() {
    let p = |hash: &str, names: &[&str], turn: Option<&str>| PromotedTools {
        catalog_hash: hash.into(),
        names: names.iter().map(|n| (*n).to_owned()).collect(),
        turn_id: turn.map(str::to_owned),
    };
    let mut state = None;
    merge_promoted(&mut state, Some(&p("h", &["a", "a"], Some("t1"))));
    assert_eq!(state, Some(p("h", &["a"], Some("t1"))));
    merge_promoted(&mut state, Some(&p("h", &["b", "a"], None)));
    assert_eq!(state, Some(p("h", &["a", "b"], Some("t1"))));
    merge_promoted(&mut state, Some(&p("h", &["c"], Some("t2"))));
    assert_eq!(state, Some(p("h", &["c"], Some("t2"))));
    merge_promoted(&mut state, Some(&p("g", &["d"], None)));
    assert_eq!(state, Some(p("g", &["d"], None)));
    let odd: PromotedTools = serde_json::from_value(json!({"catalog_hash": "h", "names": [1, "a"]})).unwrap();
    assert_eq!(odd.names, Vec::<String>::new());
}

fn delegation(id: &str, run: Option<&str>, status: &str, at: &str) -> DelegationEntry {
    DelegationEntry {
        id: id.into(),
        run_id: run.map(str::to_owned),
        status: status.into(),
        created_at: Some(at.into()),
        ..Default::default()
    }
}

#[test]
fn delegations_keep_terminal_states_and_first_dates() {
    let mut state = None;
    merge_delegations(&mut state, Some(&[delegation("c", Some("r1"), "in_progress", "1")]));
    merge_delegations(&mut state, Some(&[delegation("c", None, "completed", "2")]));
    merge_delegations(&mut state, Some(&[delegation("c", Some("r1"), "in_progress", "3")]));
    assert_eq!(state, Some(vec![delegation("c", Some("r1"), "completed", "1")]));
    merge_delegations(&mut state, Some(&[delegation("c", Some("r2"), "in_progress", "4")]));
    assert_eq!(state.as_ref().unwrap().len(), 2, "the same call id in another run is another entry");
    let many: Vec<_> = (0..60).map(|n| delegation(&format!("m{n}"), Some("r"), "completed", "5")).collect();
    merge_delegations(&mut state, Some(&many));
    assert_eq!(state.as_ref().unwrap().len(), DELEGATION_LIMIT);
    assert_eq!(state.unwrap()[0].id, "m10");
}

#[test]
fn a_skill_read_again_moves_to_the_end() {
    let skill = |path: &str, text: &str| SkillEntry {
        name: path.into(),
        path: path.into(),
        description: text.into(),
        loaded_at: 0,
    };
    let mut state = None;
    for n in 0..9 {
        merge_skill_context(&mut state, Some(&[skill(&n.to_string(), "a \n b")]));
    }
    merge_skill_context(&mut state, Some(&[skill("3", &"x".repeat(900))]));
    let list = state.unwrap();
    assert_eq!(list.iter().map(|s| s.path.as_str()).collect::<Vec<_>>(), ["1", "2", "4", "5", "6", "7", "8", "3"]);
    assert_eq!(list[0].description, "a b");
    assert_eq!(list[7].description.len(), SKILL_DESCRIPTION_CHARS);
    let odd: SkillEntry = serde_json::from_value(json!({"path": "p", "loaded_at": "x"})).unwrap();
    assert_eq!(odd.loaded_at, 0);
}

#[test]
fn tool_artifacts_trim_only_when_told_and_never_pass_the_ceiling() {
    let entry = |n: usize| ArtifactWrite::Entry(ArtifactEntry { handle: format!("art_{n:08x}"), ..Default::default() });
    let mut state = None;
    merge_tool_artifacts(&mut state, Some(&(0..990).map(entry).collect::<Vec<_>>()));
    assert_eq!(state.as_ref().unwrap().len(), 990);
    merge_tool_artifacts(&mut state, Some(&(985..1010).map(entry).collect::<Vec<_>>()));
    assert_eq!(state.as_ref().unwrap().len(), TOOL_ARTIFACT_CEILING);
    assert_eq!(state.as_ref().unwrap()[0].handle, format!("art_{:08x}", 10));
    let trim: ArtifactWrite = serde_json::from_value(json!({"op": "trim_to", "keep": 3})).unwrap();
    merge_tool_artifacts(&mut state, Some(&[trim, entry(2000)]));
    assert_eq!(state.unwrap().len(), 3);
}

#[test]
fn task_notes_are_normalised_limited_and_deletable() {
    let note = |text: &str| {
        Some(TaskNote {
            content: text.into(),
            source_ids: vec!["bad".into(), format!("r{}", "0".repeat(32))],
            authority: "x".into(),
        })
    };
    let mut state = None;
    let many = (0..10)
        .map(|n| (format!("k{n}"), note("text")))
        .chain([("bad key".to_owned(), note("t")), ("long".to_owned(), note(&"y".repeat(751)))]);
    merge_task_notes(&mut state, Some(&many.collect()));
    let notes = state.as_ref().unwrap();
    assert_eq!(notes.keys().map(String::as_str).collect::<Vec<_>>(), ["k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"]);
    assert_eq!(
        notes["k2"],
        TaskNote {
            content: "text".into(),
            source_ids: vec![format!("r{}", "0".repeat(32))],
            authority: "model_report".into()
        }
    );
    merge_task_notes(&mut state, Some(&[("k2".to_owned(), None)].into_iter().collect()));
    assert!(!state.unwrap().contains_key("k2"));
}

#[test]
fn a_channel_without_a_reducer_rejects_the_second_write_of_a_step() {
    let mut state = ThreadState::default();
    let titled = |t: &str| StateUpdate { title: Some(t.into()), ..Default::default() };
    assert_eq!(
        state.apply_concurrent([&titled("a"), &titled("b")]).unwrap_err(),
        StateError::ConcurrentWrite { channel: Channel::Title }
    );
    assert_eq!(state.title, None);
    let listed = |t: &str| StateUpdate { artifacts: Some(vec![t.into()]), ..Default::default() };
    state.apply_concurrent([&listed("a"), &listed("b")]).unwrap();
    assert_eq!(state.artifacts.unwrap(), ["a", "b"]);
}

#[test]
fn a_goal_ends_only_by_removal() {
    let goal = GoalState {
        objective: "o".into(),
        status: "active".into(),
        created_at: "1".into(),
        updated_at: "1".into(),
        continuation_count: 0,
        max_continuations: 8,
        no_progress_count: 0,
        max_no_progress_continuations: 2,
        last_evaluation: None,
    };
    let mut state = ThreadState::default();
    state.apply(&StateUpdate { goal: Some(goal.clone()), ..Default::default() }).unwrap();
    state.apply(&StateUpdate::none()).unwrap();
    assert_eq!(state.goal, Some(goal));
    state
        .apply(&StateUpdate {
            remove: [Channel::Goal].into(),
            goal_outcome: Some(json!({"satisfied": true})),
            ..Default::default()
        })
        .unwrap();
    assert_eq!(state.goal, None);
    assert_eq!(state.goal_outcome, Some(json!({"satisfied": true})));
}

/// Writes to every channel with a reducer.
fn any_update() -> impl Strategy<Value = StateUpdate> {
    let messages = proptest::collection::vec(("[a-f]", "[a-z]{0,3}"), 0..4).prop_map(|list| {
        list.into_iter().map(|(id, text)| Arc::new(Message::human(text).with_id(id))).collect::<Vec<_>>()
    });
    let names = || proptest::option::of(proptest::collection::vec("[a-e]", 0..4));
    let skills = proptest::option::of(proptest::collection::vec(("[a-l]", any::<String>()), 0..4));
    let status = prop_oneof![Just("in_progress"), Just("completed")];
    let tasks = proptest::option::of(proptest::collection::vec(("[a-e]", proptest::option::of("[xy]"), status), 0..4));
    let lists = (messages, names(), names(), skills, tasks, proptest::option::of("[a-z]{1,3}"));
    let promoted =
        proptest::option::of(("[gh]", proptest::collection::vec("[a-d]", 0..3), proptest::option::of("[12]")));
    let images = proptest::option::of(proptest::collection::vec(("[a-c]", 0..9u64), 0..3));
    let artifacts =
        proptest::option::of(proptest::collection::vec((0..30usize, proptest::option::of(0..12usize)), 0..12));
    let notes = proptest::option::of(proptest::collection::vec(("[a-m ]", proptest::option::of("[a-z]{0,3}")), 0..12));
    let todos = proptest::option::of(proptest::collection::vec("[a-c]", 0..3));
    let maps = (promoted, images, artifacts, notes, todos, any::<bool>());
    (lists, maps).prop_map(
        |(
            (messages, artifacts, processed, skills, tasks, title),
            (promoted, images, handles, notes, todos, sandbox),
        )| {
            StateUpdate {
                messages,
                artifacts,
                tool_artifact_processed: processed,
                skill_context: skills.map(|s| {
                    s.into_iter()
                        .map(|(path, description)| SkillEntry { path, description, ..Default::default() })
                        .collect()
                }),
                delegations: tasks.map(|t| {
                    t.into_iter().map(|(id, run, status)| delegation(&id, run.as_deref(), status, "1")).collect()
                }),
                title,
                promoted: promoted.map(|(catalog_hash, names, turn_id)| PromotedTools { catalog_hash, names, turn_id }),
                viewed_images: images.map(|list| {
                    let image = |size| ViewedImage {
                        mime_type: "image/png".into(),
                        size,
                        actual_path: "p".into(),
                        sha256: None,
                        source_sandbox_id: None,
                        blob_ref: None,
                    };
                    list.into_iter().map(|(path, size)| (path, image(size))).collect()
                }),
                tool_artifacts: handles.map(|list| {
                    let write = |(n, trim): (usize, Option<usize>)| match trim {
                        Some(keep) => {
                            ArtifactWrite::Trim { op: serde_json::from_value(json!("trim_to")).unwrap(), keep }
                        }
                        None => {
                            ArtifactWrite::Entry(ArtifactEntry { handle: format!("art_{n:08x}"), ..Default::default() })
                        }
                    };
                    list.into_iter().map(write).collect()
                }),
                task_notes: notes.map(|list| {
                    let note = |content| TaskNote { content, source_ids: vec![], authority: String::new() };
                    list.into_iter().map(|(key, text)| (key, text.map(note))).collect()
                }),
                todos: todos.map(|list| {
                    list.into_iter().map(|content| Todo { content, status: TodoStatus::Pending }).collect()
                }),
                // One sandbox only: a second one is refused, which has its own test.
                sandbox: sandbox.then(|| SandboxState { sandbox_id: Some("s".into()) }),
                ..Default::default()
            }
        },
    )
}

proptest! {
    /// An empty update changes nothing; the same update twice is the same as once; limits always hold; and a state
    /// survives its own JSON, so that a replayed log gives the state that was streamed.
    #[test]
    fn updates_are_idempotent_bounded_and_survive_json(updates in proptest::collection::vec(any_update(), 0..12)) {
        let mut state = ThreadState::default();
        for update in &updates {
            state.apply(update).unwrap();
            let once = state.clone();
            state.apply(&StateUpdate::none()).unwrap();
            prop_assert_eq!(&state, &once);
            state.apply(update).unwrap();
            prop_assert_eq!(&state.messages, &once.messages);
            prop_assert_eq!(&state.artifacts, &once.artifacts);
            prop_assert_eq!(&state.skill_context, &once.skill_context);
            prop_assert_eq!(&state.title, &once.title);
            prop_assert_eq!(&state.promoted, &once.promoted);
            prop_assert_eq!(&state.viewed_images, &once.viewed_images);
            prop_assert_eq!(&state.todos, &once.todos);
            prop_assert_eq!(&state.sandbox, &once.sandbox);
            prop_assert_eq!(&state.tool_artifact_processed, &once.tool_artifact_processed);
            let kept = update.tool_artifacts.iter().flatten().filter_map(|w| if let ArtifactWrite::Trim { keep, .. } = w { Some(*keep) } else { None }).min();
            prop_assert!(state.tool_artifacts.as_ref().map_or(0, Vec::len) <= kept.unwrap_or(TOOL_ARTIFACT_CEILING));
            let notes = state.task_notes.clone().unwrap_or_default();
            prop_assert!(notes.len() <= TASK_NOTE_LIMIT);
            prop_assert!(notes.iter().all(|(key, note)| key != " " && !note.content.is_empty() && note.authority == "model_report"));
            prop_assert!(state.skill_context.as_ref().is_none_or(|s| s.len() <= SKILL_LIMIT));
            prop_assert!(state.delegations.as_ref().is_none_or(|d| d.len() <= DELEGATION_LIMIT));
            let wire = serde_json::to_value(update).unwrap();
            prop_assert_eq!(&serde_json::from_value::<StateUpdate>(wire).unwrap(), update);
        }
        let wire = serde_json::to_string(&state).unwrap();
        prop_assert_eq!(serde_json::from_str::<ThreadState>(&wire).unwrap(), state);
    }

    /// The messages reducer against a plain, quadratic model of its rules.
    #[test]
    fn messages_reducer_equals_the_plain_model(
        writes in proptest::collection::vec(proptest::collection::vec(("[a-d]", "[a-z]{0,2}", 0..8u8), 0..5), 0..6)
    ) {
        let mut fast: Vec<Arc<Message>> = vec![];
        let mut plain: Vec<(String, String)> = vec![];
        for write in writes {
            let write = msgs(write.into_iter().map(|(id, text, kind)| match kind {
                0 => Message::remove(id),
                1 => Message::remove_all(),
                _ => Message::human(text).with_id(id),
            }).collect());
            let expected = plain_model(&plain, &write);
            match merge_messages(&mut fast, &write) {
                Ok(()) => plain = expected.expect("the model accepts it too"),
                Err(_) => prop_assert!(expected.is_none()),
            }
            let got: Vec<(String, String)> = fast.iter().map(|m| (m.id().to_owned(), m.text().into_owned())).collect();
            prop_assert_eq!(&got, &plain);
        }
    }
}

fn plain_model(old: &[(String, String)], write: &[Arc<Message>]) -> Option<Vec<(String, String)>> {
    let pair = |m: &Arc<Message>| (m.id().to_owned(), m.text().into_owned());
    if let Some(at) = write.iter().rposition(|m| m.id() == crate::message::REMOVE_ALL) {
        return Some(write[at + 1..].iter().map(pair).collect());
    }
    let mut list = old.to_vec();
    let mut gone: Vec<String> = vec![];
    for m in write {
        let at = list.iter().rposition(|(id, _)| id == m.id());
        match (m.role(), at) {
            ("remove", None) => return None,
            ("remove", Some(_)) => gone.push(m.id().to_owned()),
            (_, Some(at)) => {
                gone.retain(|id| id != m.id());
                list[at] = pair(m);
            }
            (_, None) => list.push(pair(m)),
        }
    }
    list.retain(|(id, _)| !gone.contains(id));
    Some(list)
}
