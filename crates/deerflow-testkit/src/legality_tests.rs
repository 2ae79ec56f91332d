use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn check(messages: Value) -> Vec<String> {
    violations(&json!({ "messages": messages })).iter().map(ToString::to_string).collect()
}

fn calls(ids: &[&str]) -> Value {
    let calls: Vec<_> = ids
        .iter()
        .map(|id| json!({"id": id, "type": "function", "function": {"name": "ls", "arguments": "{}"}}))
        .collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": ""})
}

fn user() -> Value {
    json!({"role": "user", "content": "go"})
}

#[test]
fn a_whole_round_is_legal() {
    let system = json!({"role": "system", "content": "be"});
    assert_eq!(check(json!([system, user(), calls(&["a", "b"]), result("b"), result("a")])), [""; 0]);
}

#[test]
fn a_call_without_a_result_is_found_at_the_end_and_before_a_user() {
    let expected = ["message 1: tool call b has no result right after it"];
    assert_eq!(check(json!([user(), calls(&["a", "b"]), result("a")])), expected);
    assert_eq!(
        check(json!([user(), calls(&["a", "b"]), result("a"), user(), result("b")])),
        [expected[0], "message 4: result for b, which the assistant message before it did not call",]
    );
}

#[test]
fn a_second_result_and_a_stray_one_are_found() {
    assert_eq!(
        check(json!([user(), calls(&["a"]), result("a"), result("a"), result("z")])),
        [
            "message 3: second result for tool call a",
            "message 4: result for z, which the assistant message before it did not call",
        ]
    );
}

#[test]
fn an_id_used_again_in_a_later_round_is_legal_but_not_within_one_message() {
    assert_eq!(check(json!([user(), calls(&["a"]), result("a"), calls(&["a"]), result("a")])), [""; 0]);
    assert_eq!(
        check(json!([user(), calls(&["a", "a"]), result("a")])),
        ["message 1: tool call id a twice in one message"]
    );
}

#[test]
fn broken_arguments_and_names_are_found() {
    let call = |name: &str, arguments: &str| {
        json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "a", "function": {"name": name, "arguments": arguments}}]})
    };
    assert_eq!(check(json!([user(), call("", "{}"), result("a")])), ["message 1: tool call a has the name \"\""]);
    for arguments in ["", "{\"a\":", "[]", "null"] {
        assert_eq!(
            check(json!([user(), call("ls", arguments), result("a")])),
            [format!("message 1: arguments of tool call a are no JSON object: {arguments}")]
        );
    }
}

#[test]
fn empty_and_misplaced_messages_are_found() {
    let late = json!({"role": "system", "content": "x"});
    let empty = json!({"role": "assistant", "content": ""});
    let no_calls = json!({"role": "assistant", "content": "x", "tool_calls": []});
    assert_eq!(
        check(json!([user(), late, empty, user(), no_calls, {"role": "user", "content": []}])),
        [
            "message 1: a system message that is not the first message",
            "message 2: assistant message without content",
            "message 4: `tool_calls` is there but empty",
            "message 5: user message without content",
        ]
    );
    assert_eq!(check(json!([])), ["there are no messages"]);
    assert_eq!(
        check(json!([user(), {"role": "assistant", "content": "x"}])),
        ["message 1: the last message is the assistant's own, there is nothing to answer"]
    );
}

#[test]
fn tools_offered_twice_or_ill_named_are_found() {
    let tool = |name: &str, parameters: Value| json!({"type": "function", "function": {"name": name, "parameters": parameters}});
    let object = json!({"type": "object"});
    let body = json!({"messages": [user()], "tools": [
        tool("ls", object.clone()), tool("ls", object.clone()), tool("a b", object), tool("x", json!({}))]});
    let found: Vec<_> = violations(&body).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "the tool ls is offered twice",
            "the tool \"a b\" has a name that providers refuse",
            "the tool x has parameters that are not of type object",
        ]
    );
}
