use pretty_assertions::assert_eq;

use super::*;
use crate::turn::Kind;

fn request(messages: &[Value], tools: bool) -> Request {
    let tools = if tools { json!([{"type": "function", "function": {"name": "ls"}}]) } else { json!([]) };
    Request::of(json!({"model": "m", "messages": messages, "tools": tools}))
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// The names called, or the number of words answered.
fn outcome(turn: &Turn) -> Result<Vec<String>, usize> {
    match &turn.kind {
        Kind::Reply { text, calls } if calls.is_empty() => Err(text.split_whitespace().count()),
        Kind::Reply { calls, .. } => Ok(calls.iter().map(|call| call.name.clone()).collect()),
        other => panic!("not a reply: {other:?}"),
    }
}

fn played(id: &str) -> [Value; 2] {
    let calls = json!([{"id": id, "function": {"name": "ls", "arguments": "{}"}}]);
    [
        json!({"role": "assistant", "content": null, "tool_calls": calls}),
        json!({"role": "tool", "tool_call_id": id, "content": "ok"}),
    ]
}

#[test]
fn the_last_marker_counts_and_is_parsed() {
    let marker = Marker::find("x [[script:plain]] y [[script:tools n=20 delay_ms=7 dir=a]] z").unwrap();
    assert_eq!((marker.name.as_str(), marker.number("n", 3), marker.text("dir", "b")), ("tools", 20, "a"));
    assert_eq!(marker.duration("delay_ms"), Duration::from_millis(7));
    assert_eq!(marker.number("tokens", 50), 50);
    for broken in ["none", "[[script:", "[[script:x", "[[script:]]"] {
        assert_eq!(Marker::find(broken), None);
    }
}

#[test]
fn tools_play_their_rounds_past_reminders_then_answer() {
    let mut messages = vec![user("[[script:tools n=3 tokens=4]]")];
    for name in ["write_file", "read_file", "ls"] {
        let turn = marked_turn(&request(&messages, true)).unwrap();
        assert_eq!(outcome(&turn), Ok(vec![name.to_owned()]));
        messages.extend(played(&format!("call_1_r{}_0", turn.round.unwrap())));
        messages.push(user("<reminder>injected</reminder>"));
    }
    assert_eq!(outcome(&marked_turn(&request(&messages, true)).unwrap()), Err(4));
}

#[test]
fn a_history_that_lost_its_middle_goes_on_where_it_was() {
    let mut messages = vec![user("[[script:tools n=9]]")];
    messages.extend(played("call_1_r7_0"));
    assert_eq!(marked_turn(&request(&messages, true)).unwrap().round, Some(8));
}

#[test]
fn a_finished_script_does_not_leak_into_the_next_turn() {
    let mut messages = vec![user("[[script:subagents n=2]]")];
    messages.extend(played("c"));
    messages.extend([json!({"role": "assistant", "content": "done"}), user("and now?")]);
    assert!(marked_turn(&request(&messages, true)).is_none());
}

#[test]
fn without_tools_a_quoted_marker_does_not_count() {
    assert!(marked_turn(&request(&[user("Give a title for: [[script:tools n=3]]")], false)).is_none());
    let direct = request(&[user("[[script:plain tokens=4]]")], false);
    assert_eq!(outcome(&marked_turn(&direct).unwrap()), Err(4));
}

#[test]
fn subagents_fan_out_in_one_message_and_carry_their_own_script() {
    let turn = marked_turn(&request(&[user("[[script:subagents n=3 rounds=2]]")], true)).unwrap();
    let Kind::Reply { calls, .. } = turn.kind else { panic!("no reply") };
    assert_eq!(calls.len(), 3);
    let arguments: Value = serde_json::from_str(&calls[2].arguments).unwrap();
    assert_eq!(Marker::find(arguments["prompt"].as_str().unwrap()).unwrap().text("dir", ""), "part3");
}

#[test]
fn a_loop_ends_where_tools_end() {
    let mut messages = vec![user("[[script:loop tokens=2]]")];
    messages.extend((0..40).flat_map(|round| played(&format!("call_1_r{round}_0"))));
    assert_eq!(outcome(&marked_turn(&request(&messages, true)).unwrap()), Ok(vec!["ls".to_owned()]));
    assert_eq!(outcome(&marked_turn(&request(&messages[..1], false)).unwrap()), Err(2));
}
