use super::*;
use pretty_assertions::assert_eq;

fn question() -> Value {
    json!({
        "action_requests": [
            {"name": "write_file", "args": {"path": "/mnt/user-data/outputs/a.md"}, "description": "Writes a file"},
            {"name": "bash", "args": {"command": "rm -r x"}},
        ],
        "review_configs": [
            {"action_name": "write_file", "allowed_decisions": ["approve", "edit", "reject", "respond"]},
            {"action_name": "bash", "allowed_decisions": ["reject", "made up"]},
        ],
    })
}

fn open(value: Value) -> Vec<Interrupt> {
    vec![Interrupt { id: "q1".to_owned(), value, node: "X".to_owned() }]
}

#[test]
fn the_calls_are_read_with_what_may_be_decided() {
    let got = requests(&question()).unwrap();
    assert_eq!(got[0].allowed, [Decision::Approve, Decision::Edit, Decision::Reject, Decision::Respond]);
    assert_eq!(got[1].allowed, [Decision::Reject]);
    assert_eq!(got[0].description.as_deref(), Some("Writes a file"));
    let bare = json!({"action_requests": [{"name": "ls"}]});
    assert_eq!(requests(&bare).unwrap()[0].allowed, [Decision::Approve, Decision::Reject]);
    for other in [json!("Which?"), json!({"action_requests": []}), json!({"action_requests": [{"args": {}}]}), json!(7)]
    {
        assert_eq!(requests(&other), None, "{other}");
    }
}

#[test]
fn a_line_decides_within_what_is_allowed() {
    let request = &requests(&question()).unwrap()[0];
    assert_eq!(decide(request, " y ").unwrap(), json!({"type": "approve"}));
    assert_eq!(decide(request, "N").unwrap(), json!({"type": "reject"}));
    assert_eq!(decide(request, "n not there").unwrap(), json!({"type": "reject", "message": "not there"}));
    assert_eq!(
        decide(request, r#"e {"path": "b"}"#).unwrap(),
        json!({"type": "edit", "edited_action": {"name": "write_file", "args": {"path": "b"}}})
    );
    assert_eq!(decide(request, "r it is done").unwrap(), json!({"type": "respond", "message": "it is done"}));
    for bad in ["yes but", "e", "e {", "e [1]", "r", "later", "ye s"] {
        assert!(decide(request, bad).is_err(), "{bad}");
    }
    let strict = &requests(&question()).unwrap()[1];
    assert!(decide(strict, "y").unwrap_err().contains("n [REASON]"));
}

#[test]
fn a_flag_answers_all_calls_or_says_what_is_wrong() {
    let one = json!({"action_requests": [{"name": "ls"}, {"name": "ls"}]});
    let approved = json!({"q1": {"decisions": [{"type": "approve"}, {"type": "approve"}]}});
    assert_eq!(from_flag(&open(one.clone()), "approve"), Ok(approved.clone()));
    let explicit = r#"{"decisions": [{"type": "approve"}, {"type": "approve"}]}"#;
    assert_eq!(from_flag(&open(one.clone()), explicit), Ok(approved.clone()));
    assert_eq!(from_flag(&open(one.clone()), &format!("{{\"q1\": {explicit}}}")), Ok(approved));
    assert!(from_flag(&open(question()), "approve").unwrap_err().contains("allowed: reject"));
    assert!(from_flag(&open(one.clone()), r#"{"decisions": [{"type": "reject"}]}"#).unwrap_err().contains("2 calls"));
    for bad in ["maybe", "{}", "edit", "7"] {
        assert!(from_flag(&open(one.clone()), bad).unwrap_err().contains("--answer"), "{bad}");
    }
}

#[test]
fn other_questions_take_text_or_json() {
    assert_eq!(from_flag(&open(json!("Which?")), "the blue one"), Ok(json!({"q1": "the blue one"})));
    assert_eq!(from_flag(&open(json!({"ask": 1})), "[1, 2]"), Ok(json!({"q1": [1, 2]})));
}

#[test]
fn what_is_asked_is_told_with_its_arguments() {
    let told = describe(&open(question()));
    for part in ["- write_file outputs/a.md", "Writes a file", "\"command\": \"rm -r x\"", "- bash rm -r x"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    assert!(describe(&open(json!("Which?"))).ends_with("Which?"));
}
