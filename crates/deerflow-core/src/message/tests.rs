use super::*;
use pretty_assertions::assert_eq;
use serde_json::json;

/// The four shapes as LangChain dumps them, byte for byte.
#[test]
fn wire_shape_and_key_order() {
    let human = r#"{"content":"hi","additional_kwargs":{},"response_metadata":{},"type":"human","name":null,"id":"1"}"#;
    let ai = concat!(
        r#"{"content":"yo","additional_kwargs":{},"response_metadata":{},"type":"ai","name":null,"id":"2","#,
        r#""tool_calls":[{"name":"t","args":{"a":1},"id":"c1","type":"tool_call"}],"invalid_tool_calls":[],"#,
        r#""usage_metadata":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}"#
    );
    let tool = concat!(
        r#"{"content":"r","additional_kwargs":{},"response_metadata":{},"type":"tool","name":"t","id":"3","#,
        r#""tool_call_id":"c1","artifact":null,"status":"success"}"#
    );
    let system =
        r#"{"content":"s","additional_kwargs":{},"response_metadata":{},"type":"system","name":null,"id":"4"}"#;
    let remove = r#"{"content":"","additional_kwargs":{},"response_metadata":{},"type":"remove","name":null,"id":"__remove_all__"}"#;
    for wire in [human, ai, tool, system, remove] {
        let message: Message = serde_json::from_str(wire).unwrap();
        assert_eq!(serde_json::to_string(&message).unwrap(), wire);
    }
    assert_eq!(serde_json::to_string(&Message::remove_all()).unwrap(), remove);
}

#[test]
fn loose_client_messages_are_accepted() {
    for (role, want) in [("user", "human"), ("assistant", "ai"), ("developer", "system"), ("function", "tool")] {
        let message: Message = serde_json::from_value(json!({"role": role, "content": "x"})).unwrap();
        assert_eq!(message.role(), want);
    }
    let null_bits: Message = serde_json::from_value(
        json!({"type": "tool", "content": [], "additional_kwargs": null, "tool_call_id": null, "artifact": null}),
    )
    .unwrap();
    assert_eq!(null_bits.as_tool().unwrap().tool_call_id, "");
    let error = serde_json::from_value::<Message>(json!({"type": "robot", "content": ""})).unwrap_err();
    assert!(error.to_string().contains("unknown message type \"robot\""), "{error}");
}

#[test]
fn a_hidden_clarification_reply_is_genuine_but_not_shown() {
    let reply = Message::human("blue").hidden().with_kwarg(kwargs::HUMAN_INPUT_RESPONSE, json!({"version": 1}));
    assert!(!reply.is_real_user());
    assert!(reply.is_genuine_user());
    assert!(!Message::human("x").with_name("summary").is_genuine_user());
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    fn json_map() -> impl Strategy<Value = JsonMap> {
        proptest::collection::vec(("[a-z_]{1,8}", any::<i32>()), 0..4)
            .prop_map(|pairs| pairs.into_iter().map(|(k, v)| (k, json!(v))).collect())
    }

    fn message() -> impl Strategy<Value = Message> {
        let content = prop_oneof![
            any::<String>().prop_map(Content::Text),
            proptest::collection::vec(any::<String>().prop_map(crate::ContentBlock::Text), 0..3)
                .prop_map(Content::Blocks),
        ];
        let call = (proptest::option::of("[a-z0-9]{0,6}"), "[a-z_]{0,8}", json_map())
            .prop_map(|(id, name, args)| ToolCall { name, args, id, kind: "tool_call".into() });
        let kind = prop_oneof![
            Just(MessageKind::Human),
            Just(MessageKind::System),
            Just(MessageKind::Remove),
            ("[a-z0-9]{0,6}", any::<bool>()).prop_map(|(id, ok)| MessageKind::Tool(ToolPart {
                tool_call_id: id,
                artifact: ok.then(|| json!({"k": 1})),
                status: if ok { ToolStatus::Success } else { ToolStatus::Error },
            })),
            (proptest::collection::vec(call, 0..3), proptest::option::of(any::<u16>())).prop_map(|(tool_calls, n)| {
                MessageKind::Ai(AiPart {
                    tool_calls,
                    invalid_tool_calls: vec![],
                    usage_metadata: n.map(|n| Usage::new(n.into(), 1)),
                })
            }),
        ];
        (
            content,
            json_map(),
            json_map(),
            proptest::option::of(any::<String>()),
            proptest::option::of("[a-z0-9-]{1,8}"),
            kind,
        )
            .prop_map(|(content, additional_kwargs, response_metadata, name, id, kind)| Message {
                content,
                additional_kwargs,
                response_metadata,
                name,
                id,
                kind,
            })
    }

    proptest! {
        #[test]
        fn any_message_round_trips(message in message()) {
            let text = serde_json::to_string(&message).unwrap();
            prop_assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), message);
        }
    }
}
