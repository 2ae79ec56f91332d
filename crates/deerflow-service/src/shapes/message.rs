//! Messages from outside, in any of LangChain's spellings.

use deerflow_core::Message;
use serde_json::{Map, Value, json};

/// Keys of `additional_kwargs` that only the server writes.
const RESERVED: [&str; 5] = [
    "original_user_content",
    "dynamic_context_reminder",
    "reminder_date",
    "deerflow_view_image_context",
    "deerflow_goal_continuation",
];

/// A message from outside: roles in any spelling, a text that may stand for a whole human message.
pub(super) fn parse(message: Value) -> Result<Message, String> {
    let mut fields = match message {
        Value::String(text) => return Ok(Message::human(text)),
        // LangChain's pairs: `["user", "hi"]`.
        Value::Array(pair) => match <[Value; 2]>::try_from(pair) {
            Ok([role, content]) => Map::from_iter([("type".to_owned(), role), ("content".to_owned(), content)]),
            Err(_) => return Err("a pair is a role and a content".to_owned()),
        },
        Value::Object(fields) => fields,
        other => return Err(format!("expected an object, got {other}")),
    };
    let role = fields.remove("role").or_else(|| fields.get("type").cloned());
    let Some(role) = role.as_ref().and_then(Value::as_str) else { return Err("it has no `type` or `role`".to_owned()) };
    let role = match role {
        "user" | "human" => "human",
        "assistant" | "ai" | "AIMessageChunk" => "ai",
        "system" | "developer" => "system",
        "tool" | "function" => "tool",
        "remove" => "remove",
        other => return Err(format!("unknown role {other:?}")),
    };
    if role == "tool" && !fields.get("tool_call_id").is_some_and(Value::is_string) {
        return Err("it has no `tool_call_id`".to_owned());
    }
    fields.insert("type".to_owned(), json!(role));
    fields.retain(|_, value| !value.is_null());
    if role == "remove" {
        fields.entry("content").or_insert_with(|| json!(""));
    }
    if let Some(Value::Object(kwargs)) = fields.get_mut("additional_kwargs") {
        kwargs.retain(|key, _| !RESERVED.contains(&key.as_str()));
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn read(message: Value) -> Result<String, String> {
        parse(message).map(|message| format!("{}:{}", message.role(), message.text()))
    }

    #[test]
    fn messages_come_in_every_spelling() {
        for (message, wanted) in [
            (json!({"role": "user", "content": "a"}), "human:a"),
            (json!({"type": "human", "content": [{"type": "text", "text": "b"}]}), "human:b"),
            (json!({"role": "assistant", "content": "c", "id": null}), "ai:c"),
            (json!(["user", "d"]), "human:d"),
            (json!("e"), "human:e"),
            (json!({"role": "developer", "content": "f"}), "system:f"),
            (json!({"type": "tool", "content": "g", "tool_call_id": "1"}), "tool:g"),
        ] {
            assert_eq!(read(message).as_deref(), Ok(wanted));
        }
    }

    #[test]
    fn what_is_no_message_is_said() {
        assert_eq!(read(json!({"role": "wizard", "content": "x"})), Err("unknown role \"wizard\"".into()));
        for bad in [json!(1), json!({"content": "x"}), json!(["user"]), json!({"type": "tool", "content": "x"})] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn clients_cannot_pose_as_the_server() {
        let kwargs = json!({"original_user_content": "y", "files": []});
        let message = parse(json!({"type": "human", "content": "x", "additional_kwargs": kwargs})).unwrap();
        assert_eq!(Value::Object(message.additional_kwargs), json!({"files": []}));
    }
}
