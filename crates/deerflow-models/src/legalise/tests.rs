use super::*;
use crate::testing::assert_legal;
use deerflow_core::message::kwargs;
use deerflow_core::{Content, ContentBlock, InvalidToolCall, JsonMap, ToolCall, ToolStatus};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

fn call(id: &str, name: &str) -> ToolCall {
    ToolCall::new(id, name, JsonMap::new())
}

fn arcs(messages: Vec<Message>) -> Vec<Arc<Message>> {
    messages.into_iter().map(Arc::new).collect()
}

/// `role:text` or `tool:id:text` of each message.
fn shape(messages: &[Arc<Message>]) -> Vec<String> {
    messages
        .iter()
        .map(|message| match message.as_tool() {
            Some(part) => format!("tool:{}:{}", part.tool_call_id, message.text()),
            None => format!("{}:{}", message.role(), message.text()),
        })
        .collect()
}

/// BR-001
#[test]
fn calls_left_open_by_a_stop_are_answered_in_order_before_the_next_user_turn() {
    let history = arcs(vec![
        Message::human("go"),
        Message::ai_calls("", vec![call("a", "bash"), call("b", "bash"), call("c", "bash")]),
        Message::tool("done b", "b", "bash"),
        Message::human("continue"),
    ]);
    let out = legalise(&Rules::openai(), None, &history);
    assert_eq!(
        shape(&out),
        [
            "human:go",
            "ai:",
            "tool:a:Error: the call was interrupted and returned no result.",
            "tool:b:done b",
            "tool:c:Error: the call was interrupted and returned no result.",
            "human:continue"
        ]
    );
    assert_eq!(out[2].as_tool().unwrap().status, ToolStatus::Error);
    assert!(Arc::ptr_eq(&out[1], &history[1]) && Arc::ptr_eq(&out[3], &history[2]));
}

/// BR-002
#[test]
fn results_of_no_call_and_results_without_id_are_left_out() {
    let history = arcs(vec![Message::human("a"), Message::tool("x", "c9", "bash"), Message::human("b")]);
    assert_eq!(shape(&legalise(&Rules::openai(), None, &history)), ["human:a", "human:b"]);
    let history = arcs(vec![Message::human("a"), Message::tool("x", "", "bash"), Message::human("b")]);
    assert_eq!(shape(&legalise(&Rules::openai(), None, &history)), ["human:a", "human:b"]);
}

/// BR-004
#[test]
fn glued_arguments_and_empty_names_are_replayed_in_a_form_every_provider_takes() {
    let mut ai = Message::ai("");
    ai.as_ai_mut().unwrap().invalid_tool_calls = vec![
        InvalidToolCall::new(Some("x".into()), Some(String::new()), "{\"a\":1}{\"b\":2}".into(), "trailing characters"),
        InvalidToolCall::new(None, Some("write_file".into()), "{\"path".into(), "EOF"),
    ];
    let out = legalise(&Rules::anthropic(), None, &arcs(vec![Message::human("go"), ai]));
    let calls = out[1].tool_calls();
    assert_eq!((calls[0].name.as_str(), calls[0].id(), &calls[0].args), ("unknown_tool", "x", &JsonMap::new()));
    assert_eq!(calls[1].name, "write_file");
    assert!(out[2].text().contains("named no tool"), "{}", out[2].text());
    assert!(out[3].text().contains("smaller"), "{}", out[3].text());
    assert_legal(&Rules::anthropic(), &out);
}

/// BR-007
#[test]
fn reminders_in_mid_history_join_the_one_system_message_in_front() {
    let history = arcs(vec![
        Message::system("old date").with_kwarg(kwargs::DYNAMIC_CONTEXT, true),
        Message::human("hi"),
        Message::system("be brief"),
        Message::ai("ok"),
        Message::system("new date").with_kwarg(kwargs::DYNAMIC_CONTEXT, true),
        Message::human("more"),
    ]);
    let out = legalise(&Rules::openai(), Some("You are DeerFlow."), &history);
    assert_eq!(shape(&out), ["system:You are DeerFlow.\n\nbe brief\n\nnew date", "human:hi", "ai:ok", "human:more"]);
}

/// BR-008, BR-009
#[test]
fn no_empty_text_is_ever_sent_and_a_tool_turn_stays_tool_only() {
    let history = arcs(vec![
        Message::human("hi"),
        Message::ai(""),
        Message::human(Content::Blocks(vec![ContentBlock::Text(" ".into()), ContentBlock::Text("go".into())])),
        Message::ai_calls(Content::Blocks(vec![ContentBlock::Text(String::new())]), vec![call("a", "bash")]),
        Message::tool("", "a", "bash"),
    ]);
    let out = legalise(&Rules::openai(), None, &history);
    assert_eq!(shape(&out), ["human:hi", "ai:(no text)", "human:go", "ai:", "tool:a:(no output)"]);
    assert_eq!(out[3].content, Content::Text(String::new()));
}

/// BR-024
#[test]
fn quick_user_messages_keep_their_boundaries_where_roles_must_alternate() {
    let history = arcs(vec![Message::human("one"), Message::human("two"), Message::human("three")]);
    let out = legalise(&Rules::anthropic(), None, &history);
    let texts = ["one", "two", "three"].map(|text| ContentBlock::Text(text.into()));
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].content, Content::Blocks(texts.to_vec()));
    assert_eq!(legalise(&Rules::openai(), None, &history).len(), 3);
}

#[test]
fn ids_that_come_again_in_each_turn_pair_with_their_own_results() {
    let history = arcs(vec![
        Message::human("go"),
        Message::ai_calls("", vec![call("call_0", "f")]),
        Message::human("stopped"),
        Message::ai_calls("", vec![call("call_0", "g")]),
        Message::tool("second", "call_0", "g"),
        Message::tool("twice", "call_0", "g"),
    ]);
    let out = legalise(&Rules::openai(), None, &history);
    let second = out[4].tool_calls()[0].id().to_owned();
    assert_ne!(second, "call_0");
    assert_eq!(
        shape(&out),
        [
            "human:go",
            "ai:",
            "tool:call_0:Error: the call was interrupted and returned no result.",
            "human:stopped",
            "ai:",
            &format!("tool:{second}:second")
        ]
    );
}

#[test]
fn calls_and_results_without_ids_pair_when_there_is_only_one_way() {
    let nameless = |name| ToolCall { id: None, ..call("", name) };
    let history = arcs(vec![
        Message::human("go"),
        Message::ai_calls("", vec![nameless("f"), nameless("g")]),
        Message::tool("of f", "", "f"),
        Message::tool("of g", "", "g"),
    ]);
    let out = legalise(&Rules::anthropic(), None, &history);
    assert_eq!((out[2].text(), out[3].text()), ("of f".into(), "of g".into()));
    assert_legal(&Rules::anthropic(), &out);
    let short = legalise(&Rules::anthropic(), None, &history[..3]);
    assert!(short[2].text().contains("interrupted"));
}

#[test]
fn ids_take_the_shape_the_provider_wants_and_stay_the_same_as_history_grows() {
    let mut history = arcs(vec![
        Message::human("go"),
        Message::ai_calls("", vec![call("functions.bash:0", "web.search"), call("ok-1", "f")]),
        Message::tool("r", "functions.bash:0", "web.search"),
    ]);
    let before = legalise(&Rules::anthropic(), None, &history);
    history.push(Arc::new(Message::human("more")));
    let after = legalise(&Rules::anthropic(), None, &history);
    assert_eq!(before[..], after[..4]);
    let calls = before[1].tool_calls();
    assert_eq!((calls[0].name.as_str(), calls[1].id()), ("web_search", "ok-1"));
    assert_eq!(before[2].as_tool().unwrap().tool_call_id, calls[0].id());
    assert_legal(&Rules::mistral(), &legalise(&Rules::mistral(), None, &history));
}

#[test]
fn images_go_where_the_provider_can_see_them_or_become_a_note() {
    let image = || ContentBlock::ImageUrl("data:image/png;base64,AA".into());
    let raw = ContentBlock::Raw(
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "BB"}}),
    );
    let history = arcs(vec![
        Message::human(Content::Blocks(vec![ContentBlock::Text("look".into()), raw])),
        Message::ai_calls("", vec![call("a", "shot")]),
        Message::tool(Content::Blocks(vec![image()]), "a", "shot"),
    ]);
    let openai = legalise(&Rules::openai(), None, &history);
    assert_eq!(openai[0].content.to_blocks()[1], ContentBlock::ImageUrl("data:image/jpeg;base64,BB".into()));
    assert_eq!(openai[2].text(), "[1 image(s): see the next message]");
    assert_eq!(openai[3].content.to_blocks()[1], image());
    assert_eq!(legalise(&Rules::anthropic(), None, &history)[2].content.to_blocks(), [image()]);
    let blind = legalise(&Rules::openai().without_vision(), None, &history);
    assert_eq!(blind[0].text(), "look\n[image left out: this model cannot see images]");
    assert_eq!(blind.len(), 3);
}

#[test]
fn thinking_goes_back_only_to_the_provider_that_signed_it() {
    let signed = ContentBlock::Raw(json!({"type": "thinking", "thinking": "hm", "signature": "s"}));
    let unsigned = ContentBlock::Raw(json!({"type": "thinking", "thinking": "hm"}));
    let text = ContentBlock::Text("hi".into());
    let history = arcs(vec![
        Message::human("go"),
        Message::ai(Content::Blocks(vec![signed.clone(), unsigned, text.clone()])),
        Message::human("more"),
    ]);
    assert_eq!(legalise(&Rules::anthropic(), None, &history)[1].content, Content::Blocks(vec![signed, text.clone()]));
    assert_eq!(legalise(&Rules::openai(), None, &history)[1].content, Content::Blocks(vec![text]));
}

#[test]
fn a_legal_history_is_not_touched() {
    let history = arcs(vec![
        Message::system("s"),
        Message::human("go"),
        Message::ai_calls("", vec![call("a", "bash")]),
        Message::tool("r", "a", "bash"),
        Message::ai("done"),
        Message::human("thanks"),
    ]);
    for rules in [Rules::openai(), Rules::strict(), Rules::anthropic()] {
        let out = legalise(&rules, None, &history);
        assert!(out.len() == history.len() && out.iter().zip(&history).all(|(a, b)| Arc::ptr_eq(a, b)), "{rules:?}");
    }
}

#[test]
fn roles_are_arranged_for_strict_templates() {
    let history = arcs(vec![
        Message::ai_calls("", vec![call("123456789", "bash")]),
        Message::tool("r", "123456789", "bash"),
        Message::human("more"),
        Message::ai("one"),
        Message::ai("two"),
    ]);
    let out = legalise(&Rules::mistral(), None, &history);
    let roles: Vec<_> = out.iter().map(|message| message.role()).collect();
    assert_eq!(roles, ["human", "ai", "tool", "ai", "human", "ai", "human"]);
    assert_eq!(out[5].text(), "one\ntwo");
    assert_eq!(shape(&legalise(&Rules::strict(), Some("s"), &[])), ["system:s", "human:(the conversation goes on)"]);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just("  \n".to_owned()), Just("hello".to_owned()), "[a-z你😀 ]{0,6}"]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec!["a", "b", "call_0", "call_1"]).prop_map(str::to_owned),
        1 => Just(String::new()),
        1 => Just("functions.x:0 ünicode".to_owned()),
        1 => Just("x".repeat(100)),
        1 => "[a-z0-9]{9}",
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["bash", "", "write_file", "web.search", " ", "名"]).prop_map(str::to_owned)
}

fn block() -> impl Strategy<Value = ContentBlock> {
    prop_oneof![
        text().prop_map(ContentBlock::Text),
        Just(ContentBlock::ImageUrl("https://x.example/a.png".into())),
        Just(ContentBlock::ImageUrl(String::new())),
        prop::sample::select(vec![
            json!("bare"),
            json!(7),
            json!({"type": "thinking", "thinking": "t", "signature": "s"}),
            json!({"type": "thinking", "thinking": "t"}),
            json!({"type": "redacted_thinking", "data": "d"}),
            json!({"type": "tool_use", "id": "a", "name": "bash", "input": {}}),
            json!({"type": "image", "source": {"type": "url", "url": "https://x.example/b.png"}}),
            json!({"type": "image"}),
            json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}),
            json!({"type": "document", "source": {}}),
            json!({"type": "input_audio"}),
        ])
        .prop_map(ContentBlock::Raw),
    ]
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![text().prop_map(Content::Text), prop::collection::vec(block(), 0..4).prop_map(Content::Blocks)]
}

/// Any message, the strangest included.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    let calls = prop::collection::vec((id(), name()), 0..4);
    let invalid = prop::collection::vec((id(), name()), 0..2);
    let ai = (content(), calls, invalid).prop_map(|(content, calls, invalid)| {
        let calls = calls.into_iter().map(|(id, name)| ToolCall::new(id, name, JsonMap::new())).collect();
        let mut message = Message::ai_calls(content, calls);
        message.as_ai_mut().unwrap().invalid_tool_calls = invalid
            .into_iter()
            .map(|(id, name)| {
                let some = |text: String| (!text.is_empty()).then_some(text);
                InvalidToolCall::new(some(id), some(name), "{\"a\":1}{".into(), "bad")
            })
            .collect();
        message
    });
    prop_oneof![
        3 => content().prop_map(Message::human),
        4 => ai,
        5 => (content(), id(), name()).prop_map(|(content, id, name)| Message::tool(content, id, name)),
        1 => (content(), any::<bool>()).prop_map(|(content, dynamic)| {
            Message::system(content).with_kwarg(kwargs::DYNAMIC_CONTEXT, dynamic)
        }),
        1 => Just(Message::remove("m1")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_history_becomes_legal_and_stays_as_it_is_then(
        history in prop::collection::vec(message().prop_map(Arc::new), 0..14),
        system in prop::option::of(text()),
    ) {
        for rules in Rules::all() {
            let once = legalise(&rules, system.as_deref(), &history);
            assert_legal(&rules, &once);
            let twice = legalise(&rules, None, &once);
            prop_assert_eq!(&twice, &once);
            prop_assert!(once.iter().zip(&twice).all(|(a, b)| Arc::ptr_eq(a, b)), "untouched means the same Arc");
        }
    }

    #[test]
    fn what_a_person_wrote_is_never_lost(history in prop::collection::vec(message().prop_map(Arc::new), 0..10)) {
        for rules in Rules::all() {
            let out = legalise(&rules, None, &history);
            let sent: String = out.iter().filter(|m| m.is_human()).map(|m| m.text().into_owned() + "\n").collect();
            for message in history.iter().filter(|m| m.is_human()) {
                for block in message.content.to_blocks() {
                    let Some(text) = block.text().map(str::trim).filter(|text| !text.is_empty()) else { continue };
                    prop_assert!(sent.contains(text), "{:?} is missing", text);
                }
            }
        }
    }
}
