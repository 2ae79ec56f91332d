//! What a client gives a run, as writes to the state.

use crate::error::ApiError;
use deerflow_core::{Channel, Message, StateUpdate};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Keys of `additional_kwargs` that only the server writes.
const RESERVED: [&str; 5] = [
    "original_user_content",
    "dynamic_context_reminder",
    "reminder_date",
    "deerflow_view_image_context",
    "deerflow_goal_continuation",
];

/// An input object: messages in any of LangChain's spellings, and channels of the state.
///
/// # Errors
/// 400 that names the message; 422 for an unknown channel, or a value that does not fit it.
pub(crate) fn state_update(input: Value, at: &str) -> Result<StateUpdate, ApiError> {
    let Value::Object(mut input) = input else {
        let message = "Input should be a valid dictionary";
        return Err(ApiError::invalid("dict_type", json!(["body", at]), message, input));
    };
    let messages = match input.remove("messages") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(messages)) => messages,
        Some(one) => vec![one],
    };
    let mut update = channels(input, at)?;
    for (index, message) in messages.into_iter().enumerate() {
        let message = parse(message)
            .map_err(|reason| ApiError::bad_request(format!("Invalid message at {at}.messages[{index}]: {reason}")))?;
        update.messages.push(Arc::new(message));
    }
    Ok(update)
}

fn channels(input: Map<String, Value>, at: &str) -> Result<StateUpdate, ApiError> {
    let known = |key: &String| serde_json::from_value::<Channel>(json!(key)).is_ok();
    let unknown: Vec<&str> = input.keys().filter(|key| !known(key)).map(String::as_str).collect();
    if !unknown.is_empty() {
        let detail = format!("Unknown thread-state field(s): {}", unknown.join(", "));
        return Err(ApiError::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, detail));
    }
    let whole = Value::Object(input);
    serde_path_to_error::deserialize(&whole).map_err(|error| {
        let path = std::iter::once("body".to_owned()).chain([at.to_owned(), error.path().to_string()]);
        ApiError::invalid("value_error", json!(path.collect::<Vec<_>>()), error.into_inner().to_string(), Value::Null)
    })
}

/// A message from outside: roles in any spelling, a text that may stand for a whole human message.
fn parse(message: Value) -> Result<Message, String> {
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

    fn roles(messages: Value) -> Result<Vec<String>, ApiError> {
        let update = state_update(json!({"messages": messages}), "input")?;
        Ok(update.messages.iter().map(|message| format!("{}:{}", message.role(), message.text())).collect())
    }

    #[test]
    fn messages_come_in_every_spelling() {
        let all = json!([
            {"role": "user", "content": "a"}, {"type": "human", "content": [{"type": "text", "text": "b"}]},
            {"role": "assistant", "content": "c"}, ["user", "d"], "e", {"role": "developer", "content": "f"},
            {"type": "tool", "content": "g", "tool_call_id": "1"}
        ]);
        assert_eq!(roles(all).unwrap(), ["human:a", "human:b", "ai:c", "human:d", "human:e", "system:f", "tool:g"]);
        assert_eq!(roles(json!("just a text")).unwrap(), ["human:just a text"]);
        assert_eq!(roles(Value::Null).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_bad_message_is_named() {
        let error = roles(json!([{"role": "user", "content": "ok"}, {"role": "wizard", "content": "x"}])).unwrap_err();
        assert_eq!(error.detail, json!("Invalid message at input.messages[1]: unknown role \"wizard\""));
        for bad in [json!([1]), json!([{"content": "x"}]), json!([["user"]]), json!([{"type": "tool", "content": "x"}])] {
            assert_eq!(roles(bad.clone()).unwrap_err().status, 400, "{bad}");
        }
    }

    #[test]
    fn clients_cannot_pose_as_the_server() {
        let message = json!({"type": "human", "content": "x", "additional_kwargs": {"original_user_content": "y", "files": []}});
        let update = state_update(json!({"messages": [message]}), "input").unwrap();
        let kwargs = serde_json::to_value(&*update.messages[0]).unwrap()["additional_kwargs"].clone();
        assert_eq!(kwargs, json!({"files": []}));
    }

    #[test]
    fn channels_go_into_the_state_and_unknown_ones_are_named() {
        assert_eq!(state_update(json!({"title": "T"}), "input").unwrap().title, Some(Some("T".into())).flatten());
        let error = state_update(json!({"titel": "T", "x": 1}), "values").unwrap_err();
        assert_eq!(error.detail, json!("Unknown thread-state field(s): titel, x"));
        assert_eq!(state_update(json!({"title": 5}), "input").unwrap_err().status, 422);
    }
}
