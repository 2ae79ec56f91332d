use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn ask(args: Value) -> Clarification {
    let Value::Object(map) = args else { panic!("an object") };
    clarification("call_1", &map)
}

fn mode(asked: &Clarification) -> &str {
    asked.payload["input_mode"].as_str().unwrap()
}

#[test]
fn a_plain_question_is_free_text() {
    let asked = ask(json!({"question": " Which year? ", "clarification_type": "missing_info"}));
    assert_eq!(asked.message_id, "clarification:call_1");
    assert_eq!(asked.text, "❓ Which year?");
    assert_eq!(
        asked.payload,
        json!({"version": 1, "kind": "human_input_request", "source": "ask_clarification",
            "request_id": "clarification:call_1", "clarification_type": "missing_info", "question": "Which year?",
            "input_mode": "free_text", "tool_call_id": "call_1"})
    );
}

#[test]
fn options_come_with_ids_and_context_goes_first() {
    let asked = ask(json!({"question": "Which?", "clarification_type": "approach_choice", "context": "Two ways.",
        "options": ["Fast", "Safe"]}));
    assert_eq!(asked.text, "🔀 Two ways.\n\nWhich?\n\n  1. Fast\n  2. Safe");
    assert_eq!(mode(&asked), "choice_with_other");
    assert_eq!(asked.payload["version"], 1);
    assert_eq!(asked.payload["context"], "Two ways.");
    assert_eq!(
        asked.payload["options"],
        json!([{"id": "option-1", "label": "Fast", "value": "Fast"}, {"id": "option-2", "label": "Safe", "value": "Safe"}])
    );
}

#[test]
fn every_type_has_its_icon_and_an_unknown_one_counts_as_missing_info() {
    for (kind, icon) in [
        ("missing_info", "❓"),
        ("ambiguous_requirement", "🤔"),
        ("approach_choice", "🔀"),
        ("risk_confirmation", "⚠️"),
        ("suggestion", "💡"),
        ("whatever", "❓"),
    ] {
        let asked = ask(json!({"question": "q", "clarification_type": kind}));
        assert_eq!(asked.text, format!("{icon} q"));
        let wanted = if kind == "whatever" { "missing_info" } else { kind };
        assert_eq!(asked.payload["clarification_type"], wanted);
    }
}

#[test]
fn options_in_every_shape_are_understood() {
    for (given, wanted) in [
        (json!("[\"a\", \"b\"]"), vec!["a", "b"]),
        (json!("{\"x\": \"a\", \"y\": {\"z\": 2}}"), vec!["a", "2"]),
        (json!({"x": "a", "y": ["b", null, true]}), vec!["a", "b", "true"]),
        (json!("just one"), vec!["just one"]),
        (json!("5"), vec!["5"]),
        (json!(5), vec!["5"]),
        (json!(["<b>a</b>", " a ", "", "<br/>", "b < c"]), vec!["a", "b < c"]),
        (json!(null), vec![]),
        (json!([]), vec![]),
    ] {
        assert_eq!(options::normalise(&given), wanted, "{given}");
    }
}

#[test]
fn a_form_wins_over_options_and_is_version_2() {
    let asked = ask(json!({"question": "Tell me.", "clarification_type": "missing_info", "options": ["x"], "fields": [
        {"name": "city", "label": "City", "required": "true", "placeholder": "Paris"},
        {"name": "pace", "type": "select", "options": ["slow", "fast"], "required": 1},
        {"name": "days", "label": "Days", "type": "multi_select", "options": "[\"Mon\", \"Tue\"]"},
        {"name": "when", "type": "DATE", "required": 0},
        {"name": "odd", "type": "hologram", "options": ["ignored"]},
        {"name": "none", "type": "select"},
    ]}));
    assert_eq!(asked.payload["version"], 2);
    assert_eq!(mode(&asked), "form");
    assert_eq!(asked.payload.get("options"), None);
    assert_eq!(
        asked.payload["fields"],
        json!([
            {"name": "city", "label": "City", "type": "text", "required": true, "placeholder": "Paris"},
            {"name": "pace", "label": "pace", "type": "select", "required": true, "options": [
                {"id": "pace-option-1", "label": "slow", "value": "slow"},
                {"id": "pace-option-2", "label": "fast", "value": "fast"}]},
            {"name": "days", "label": "Days", "type": "multi_select", "required": false, "options": [
                {"id": "days-option-1", "label": "Mon", "value": "Mon"},
                {"id": "days-option-2", "label": "Tue", "value": "Tue"}]},
            {"name": "when", "label": "when", "type": "date", "required": false},
            {"name": "odd", "label": "odd", "type": "text", "required": false},
            {"name": "none", "label": "none", "type": "text", "required": false},
        ])
    );
    assert_eq!(
        asked.text,
        "❓ Tell me.\n\n  1. City (required)\n  2. pace (required) — options: slow / fast\n  \
         3. Days — options: Mon / Tue (multiple allowed)\n  4. when\n  5. odd\n  6. none\n\nPlease answer each field."
    );
}

#[test]
fn any_breach_drops_the_whole_form() {
    let good = json!({"name": "a"});
    let long = "x".repeat(201);
    let many: Vec<Value> = (0..17).map(|n| json!({"name": n.to_string()})).collect();
    let heavy: Vec<Value> = (0..16)
        .map(|n| {
            let options: Vec<String> = (0..24).map(|o| format!("{o}{}", "y".repeat(60))).collect();
            json!({"name": n.to_string(), "type": "select", "options": options})
        })
        .collect();
    let options: Vec<String> = (0..25).map(|o| o.to_string()).collect();
    for bad in [
        json!(many),
        json!(heavy),
        json!([good, "text"]),
        json!([good, {"name": "  "}]),
        json!([good, {"label": "no name"}]),
        json!([good, {"name": "a"}]),
        json!([good, {"name": "constructor"}]),
        json!([good, {"name": "__proto__"}]),
        json!([good, {"name": long}]),
        json!([good, {"name": "b", "label": long}]),
        json!([good, {"name": "b", "placeholder": long}]),
        json!([good, {"name": "b", "type": "select", "options": [long]}]),
        json!([good, {"name": "b", "type": "select", "options": options}]),
        json!("[{\"name\": \"a\""),
        json!("name"),
        json!(3),
        json!([]),
    ] {
        let asked = ask(json!({"question": "q", "fields": bad, "options": ["x"]}));
        assert_eq!(mode(&asked), "choice_with_other", "{bad}");
        assert_eq!(mode(&ask(json!({"question": "q", "fields": bad}))), "free_text", "{bad}");
    }
    let at_the_limits = json!([{"name": "n".repeat(200), "type": "select", "options": options[..24]}]);
    assert_eq!(mode(&ask(json!({"question": "q", "fields": at_the_limits}))), "form");
    assert_eq!(mode(&ask(json!({"question": "q", "fields": "[{\"name\": \"a\"}]"}))), "form");
}

#[test]
fn without_a_call_id_the_message_is_named_by_its_text() {
    let args = json!({"question": "q"});
    let asked = clarification("", args.as_object().unwrap());
    let digits = asked.message_id.strip_prefix("clarification:").unwrap();
    assert!(digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digits}");
    assert_eq!(asked.payload["request_id"], asked.message_id.as_str());
    assert_eq!(asked.payload.get("tool_call_id"), None);
    assert_eq!(clarification("", args.as_object().unwrap()), asked);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z<>/ ]{0,12}".prop_map(Value::from),
        Just(json!("[{\"name\":\"a\",\"type\":\"select\",\"options\":[1]}]")),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("name|label|type|required|options|[a-z]{1,3}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_arguments_give_a_payload_that_keeps_the_limits(fields in any_json(), options in any_json(), question in any_json()) {
        let args = json!({"question": question, "fields": fields, "options": options});
        let asked = clarification("c", args.as_object().unwrap());
        prop_assert!(!asked.text.is_empty());
        let payload = &asked.payload;
        match payload["input_mode"].as_str().unwrap() {
            "form" => {
                let form = payload["fields"].as_array().unwrap();
                prop_assert!((1..=16).contains(&form.len()));
                let names: std::collections::BTreeSet<_> = form.iter().map(|field| field["name"].as_str().unwrap()).collect();
                prop_assert_eq!(names.len(), form.len());
                prop_assert_eq!(&payload["version"], 2);
            }
            "choice_with_other" => prop_assert!(!payload["options"].as_array().unwrap().is_empty()),
            other => prop_assert_eq!(other, "free_text"),
        }
    }
}
