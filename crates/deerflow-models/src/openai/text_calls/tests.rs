use super::*;
use deerflow_config::ToolCallFormat::{self, FencedJson, ToolCallTags, Xml};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

fn tools() -> Vec<Arc<ToolSpec>> {
    let spec = |name: &str, properties: Value| {
        let parameters = json!({"type": "object", "properties": properties});
        Arc::new(ToolSpec { name: name.into(), description: String::new(), parameters })
    };
    vec![
        spec("bash", json!({"command": {"type": "string"}, "timeout": {"type": "integer"}})),
        spec(
            "write_file",
            json!({"path": {"type": "string"}, "content": {"type": "string"}, "lines": {"type": "array"}}),
        ),
    ]
}

/// What is shown, and the calls found, of a text that comes in pieces of so many characters.
fn run(how: ToolCalls, text: &str, size: usize) -> (String, Vec<String>) {
    let chars: Vec<char> = text.chars().collect();
    read(how, chars.chunks(size.max(1)).map(|piece| piece.iter().collect()))
}

fn read(how: ToolCalls, pieces: impl Iterator<Item = String>) -> (String, Vec<String>) {
    let mut calls = TextCalls::new(how, tools());
    let mut shown = String::new();
    for piece in pieces {
        shown += &calls.push(piece);
    }
    shown += &calls.finish(false);
    let args = |args: Option<String>| match serde_json::from_str::<Value>(&args.clone().unwrap_or_default()) {
        Ok(value) => value.to_string(),
        Err(_) => format!("?{}", args.unwrap_or_default()),
    };
    (
        shown,
        calls
            .calls(0)
            .into_iter()
            .map(|call| format!("{}{}", call.name.unwrap_or_default(), args(call.args)))
            .collect(),
    )
}

const GUESS: ToolCalls = ToolCalls::NativeOrText;
const ALL: [ToolCallFormat; 3] = [FencedJson, ToolCallTags, Xml];
const ONE: &str = r#"{"name": "bash", "arguments": {"command": "ls"}}"#;
const BASH: &str = r#"bash{"command":"ls"}"#;
const QWEN: &str = "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>";

#[test]
fn a_whole_text_of_calls_in_every_usual_spelling_is_read_and_never_shown() {
    let texts = [
        ONE.to_owned(),
        format!("\n```json\n{ONE}\n```"),
        format!("```\n{ONE}\n```\n"),
        format!("<tool_call>\n{ONE}\n</tool_call>"),
        format!("<tool_call>{ONE}"),
        format!("[TOOL_CALLS][{ONE}]"),
        r#"{"type": "function", "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}"#.to_owned(),
        r#"[{"name": "bash", "parameters": {"command": "ls"}}]"#.to_owned(),
        r#"{"tool": "bash", "args": {"command": "ls"}}"#.to_owned(),
        QWEN.to_owned(),
        "<function=bash><parameter=command>ls</parameter></function>".to_owned(),
        "<minimax:tool_call>\n<invoke name=\"bash\">\n<parameter name=\"command\">ls</parameter>\n</invoke>\n</minimax:tool_call>"
            .to_owned(),
        "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>".to_owned(),
    ];
    for text in texts {
        for size in [1, 4, 1000] {
            assert_eq!(run(GUESS, &text, size), (String::new(), vec![BASH.to_owned()]), "{text}");
        }
    }
    // Arguments that are no object: a call all the same, which the model is told is invalid.
    assert_eq!(run(GUESS, r#"{"name": "bash", "arguments": ["ls"]}"#, 5).1, [r#"bash["ls"]"#]);
    let two = format!("<tool_call>{ONE}</tool_call>\n<tool_call>{ONE}</tool_call>");
    assert_eq!(run(GUESS, &two, 3).1.len(), 2);
}

#[test]
fn without_a_format_everything_else_is_shown_as_it_is() {
    for text in [
        "Hello.",
        r#"{"title": "Report", "name": "bash"}"#,
        r#"{"name": "rm", "arguments": {}}"#,
        r#"{"name": "bash"}"#,
        "```python\nprint(1)\n```",
        "```json\n{\"name\": \"bash\", \"arguments\": {}}\n```\nThat is how one would call it.",
        "{\"name\": \"bash\", \"arguments\": {}} is a call",
        "{",
        "",
        "<tool_call>nonsense</tool_call>",
        "[1, 2]",
        "I look.\n<tool_call>{\"name\": \"bash\", \"arguments\": {}}</tool_call>",
    ] {
        for size in [1, 5, 1000] {
            assert_eq!(run(GUESS, text, size), (text.to_owned(), Vec::new()));
        }
        assert_eq!(run(ToolCalls::Native, text, 3), (text.to_owned(), Vec::new()));
    }
}

#[test]
fn plain_text_is_not_held_back() {
    for how in [GUESS, ToolCalls::Text(ToolCallTags), ToolCalls::Text(FencedJson), ToolCalls::Text(Xml)] {
        let mut calls = TextCalls::new(how, tools());
        assert_eq!(calls.push("Hel".into()), "Hel", "{how:?}");
        let mut calls = TextCalls::new(how, tools());
        assert_eq!(calls.push("{\"ti".into()), "{\"ti", "{how:?}");
    }
    let mut calls = TextCalls::new(ToolCalls::Text(ToolCallTags), tools());
    assert_eq!(calls.push("if a < b and".into()), "if a < b and");
    assert_eq!(calls.push(" c <tool".into()), " c");
    assert_eq!(calls.push("box>".into()), " <toolbox>");
}

#[test]
fn with_a_format_calls_are_found_among_other_text() {
    let written = [
        (FencedJson, format!("```tool_call\n{ONE}\n```")),
        (FencedJson, format!("```json\n{ONE}\n```")),
        (ToolCallTags, format!("<tool_call>\n{ONE}\n</tool_call>")),
        (ToolCallTags, format!("```xml\n<tool_call>{ONE}</tool_call>\n```")),
        (ToolCallTags, format!("<tool_call><tool_call>{ONE}</tool_call></tool_call>")),
        (Xml, QWEN.to_owned()),
        (Xml, format!("```\n{QWEN}\n```")),
        (Xml, "<function_calls><invoke name=\"bash\"><parameter name=\"command\">ls</parameter></invoke></function_calls>".to_owned()),
    ];
    for (format, call) in written {
        let how = ToolCalls::Text(format);
        for size in [1, 3, 1000] {
            assert_eq!(run(how, &call, size), (String::new(), vec![BASH.to_owned()]), "{call}");
            let text = format!("I look.\n\n{call}\n\n{call}\nNow wait.\n");
            let (shown, calls) = run(how, &text, size);
            assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), ["I", "look.", "Now", "wait."], "{text}");
            assert_eq!(calls, [BASH, BASH]);
            // Cut off by a stop word, or by a limit in the middle.
            let open = call.trim_end_matches("\n```").trim_end_matches("</tool_call>").trim_end();
            assert_eq!(run(how, open, size), (String::new(), vec![BASH.to_owned()]), "{open}");
        }
    }
}

#[test]
fn text_that_talks_about_calls_is_text() {
    for (format, text) in [
        (ToolCallTags, "Write `<tool_call>{\"name\": \"bash\"}</tool_call>` to call."),
        (ToolCallTags, "```markdown\nLike this:\n<tool_call>{\"name\": \"bash\"}</tool_call>\n```\nand so on"),
        (ToolCallTags, "The marks are <tool_call> and </tool_call>, in a pair."),
        (ToolCallTags, "The mark is <tool_call>"),
        (ToolCallTags, "```json\n{\"name\": \"bash\", \"arguments\": {}}\n```"),
        (FencedJson, "<tool_call>{\"name\": \"bash\", \"arguments\": {}}</tool_call>"),
        (FencedJson, "```json\n{\"name\": \"Ann\", \"arguments\": {}}\n```\nis no tool"),
        (FencedJson, "```python\nprint(1)\n```"),
        (FencedJson, "see ```json {} ``` there"),
        (Xml, "a <functional> <invoke> b"),
    ] {
        for size in [1, 4, 1000] {
            assert_eq!(run(ToolCalls::Text(format), text, size), (text.to_owned(), Vec::new()), "{format:?}");
        }
    }
}

#[test]
fn what_should_be_a_call_and_cannot_be_read_is_told_and_not_shown() {
    let of = |format, text: &str| run(ToolCalls::Text(format), text, 2);
    let hidden = |call: &str| (String::new(), vec![call.to_owned()]);
    assert_eq!(
        of(ToolCallTags, "<tool_call>{\"name\": \"bash\", \"arguments\": {\"command\": </tool_call>"),
        hidden("bash?{\"name\": \"bash\", \"arguments\": {\"command\":")
    );
    assert_eq!(of(ToolCallTags, "<tool_call>{\"command\": \"ls\"}</tool_call>"), hidden("{\"command\":\"ls\"}"));
    assert_eq!(of(FencedJson, "```tool_call\nls\n```"), hidden("?ls"));
    assert_eq!(of(Xml, "<tool_call><function=bash"), hidden("bash?<function=bash"));
    // A tool that is not there is a call: its model is told so by who runs tools.
    assert_eq!(of(ToolCallTags, "<tool_call>{\"name\": \"rm\"}</tool_call>"), hidden("rm{}"));
}

#[test]
fn arguments_may_hold_what_looks_like_an_end() {
    let json = r#"<tool_call>{"name": "write_file", "arguments": {"content": "a </tool_call> \"b"}}</tool_call>"#;
    let expected = r#"write_file{"content":"a </tool_call> \"b"}"#;
    assert_eq!(run(ToolCalls::Text(ToolCallTags), json, 1), (String::new(), vec![expected.to_owned()]));
    let xml = "<tool_call><function=write_file><parameter=content>a </function></tool_call> <function=x> b</parameter></function></tool_call>";
    let expected = r#"write_file{"content":"a </function></tool_call> <function=x> b"}"#;
    assert_eq!(run(ToolCalls::Text(Xml), xml, 1), (String::new(), vec![expected.to_owned()]));
}

#[test]
fn the_tools_schema_says_how_a_value_of_xml_is_read() {
    let call = |parameter: &str, value: &str| {
        let text = format!(
            "<tool_call><function=write_file><parameter={parameter}>{value}</parameter></function></tool_call>"
        );
        let (_, calls) = run(ToolCalls::Text(Xml), &text, 7);
        let args: Value = serde_json::from_str(calls[0].strip_prefix("write_file").unwrap()).unwrap();
        args[parameter].clone()
    };
    assert_eq!(call("content", "{\"a\": 1}"), json!("{\"a\": 1}"));
    assert_eq!(call("content", "\n  indented\n\n"), json!("  indented\n"));
    assert_eq!(call("content", "007"), json!("007"));
    assert_eq!(call("lines", "[1, 2]"), json!([1, 2]));
    assert_eq!(call("other", "true"), json!(true));
    assert_eq!(call("other", "None"), json!(null));
    assert_eq!(call("other", "12"), json!(12));
    assert_eq!(call("other", "plain words"), json!("plain words"));
}

#[test]
fn a_native_call_beside_text_counts_too() {
    let mut calls = TextCalls::new(GUESS, tools());
    assert_eq!(calls.push("{\"name".into()), "");
    assert_eq!(calls.native(), "{\"name");
    let mut calls = TextCalls::new(ToolCalls::Text(ToolCallTags), tools());
    assert_eq!(calls.push(format!("<tool_call>{ONE}</tool")), "");
    assert_eq!(calls.native(), "");
    assert_eq!(calls.push("_call>".into()), "");
    assert_eq!(calls.finish(false), "");
    let found = calls.calls(3);
    assert_eq!((found.len(), found[0].index, found[0].name.as_deref()), (1, Some(3), Some("bash")));
}

#[test]
fn half_a_call_never_runs() {
    let half =
        "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</parameter>\n<parameter=content>\nthe first of";
    let whole_arguments = half.split_once("\n<parameter=content>").unwrap().0;
    let found = |how: ToolCalls, text: &str, cut: bool| {
        let mut calls = TextCalls::new(how, tools());
        let shown = calls.push(text.to_owned()) + &calls.finish(cut);
        let valid = |call: &ToolCallChunk| serde_json::from_str::<Value>(call.args.as_deref().unwrap()).is_ok();
        (shown, calls.calls(0).iter().map(valid).collect::<Vec<_>>())
    };
    let hidden = |valid: bool| (String::new(), vec![valid]);
    assert_eq!(found(ToolCalls::Text(Xml), half, false), hidden(false));
    assert_eq!(found(ToolCalls::Text(Xml), half, true), hidden(false));
    assert_eq!(found(ToolCalls::Text(Xml), whole_arguments, true), hidden(false));
    assert_eq!(found(ToolCalls::Text(Xml), whole_arguments, false), hidden(true));
    assert_eq!(found(GUESS, whole_arguments, true), (whole_arguments.to_owned(), vec![]));
    assert_eq!(found(GUESS, whole_arguments, false), hidden(true));
    assert_eq!(found(GUESS, half, false), (half.to_owned(), vec![]));
}

#[test]
fn other_code_is_not_held_back_until_its_end() {
    let mut calls = TextCalls::new(ToolCalls::Text(FencedJson), tools());
    assert_eq!(calls.push("```\nlet a".into()), "```\nlet a");
    assert_eq!(calls.push(" = 1;\n```\n```json\n{".into()), " = 1;\n```");
    assert_eq!(calls.push("}\n```\nyes".into()), "\n```json\n{}\n```\nyes");
}

/// Prose, marks, halves of marks, calls and code, in any order.
fn mixture() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z <>`\n{}\"/=]{0,8}",
        "[你好é😀 ]{0,4}",
        Just(format!("<tool_call>{ONE}</tool_call>")),
        Just(QWEN.to_owned()),
        Just(format!("\n```json\n{ONE}\n```\n")),
        Just(format!("\n```tool_call\n{ONE}\n```\n")),
        Just("```xml\n".to_owned()),
        Just("<tool_call>".to_owned()),
        Just("</tool_call>".to_owned()),
        Just("<function=bash>".to_owned()),
        Just("<parameter=command>".to_owned()),
        Just("\n```\n".to_owned()),
        Just("<tool".to_owned()),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn without_calls_text_is_never_lost(text in "[`<{\\[\"a-z_>}\\] \n]{0,40}", size in 1usize..5) {
        for how in [GUESS, ToolCalls::Text(FencedJson), ToolCalls::Text(ToolCallTags), ToolCalls::Text(Xml)] {
            let (shown, calls) = run(how, &text, size);
            if calls.is_empty() {
                prop_assert_eq!(&shown, &text);
            } else {
                // The only calls such a text can hold are ones that cannot be read.
                prop_assert!(calls.iter().all(|call| !call.starts_with("bash{")), "{:?}", calls);
            }
        }
    }

    #[test]
    fn it_does_not_matter_where_a_text_is_cut(text in mixture()) {
        for how in [GUESS].into_iter().chain(ALL.map(ToolCalls::Text)) {
            let whole = read(how, [text.clone()].into_iter());
            for (at, _) in text.char_indices() {
                let (first, second) = text.split_at(at);
                prop_assert_eq!(&read(how, [first.to_owned(), second.to_owned()].into_iter()), &whole, "{:?} at {}", how, at);
            }
            prop_assert_eq!(&run(how, &text, 1), &whole);
        }
    }

    #[test]
    fn a_call_among_any_words_is_found_and_no_part_of_it_is_shown(
        before in "[a-zé ,.]{0,20}", after in "[a-zé ,.]{0,20}", command in "[a-z0-9<>/|' é]{1,20}", size in 1usize..9
    ) {
        let call = deerflow_core::ToolCall::new("1", "bash", [("command".to_owned(), json!(command))].into_iter().collect());
        for format in ALL {
            let text = format!("{before}\n{}\n{after}", write::write_call(format, &call));
            let (shown, calls) = run(ToolCalls::Text(format), &text, size);
            let command = json!({"command": command}).to_string();
            prop_assert_eq!(calls, vec![format!("bash{command}")], "{}", text);
            prop_assert_eq!(shown.split_whitespace().collect::<String>(), format!("{before}{after}").split_whitespace().collect::<String>());
        }
    }
}
