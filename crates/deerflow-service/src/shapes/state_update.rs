//! What a client writes to a thread's state.

use crate::refusal::{Refusal, RefusalKind};
use deerflow_core::{Channel, JsonMap, Message, StateUpdate};
use serde_json::{Value, json};
use std::sync::Arc;

/// Channels that the server owns. A client that writes back what it has read sends them too: they are let pass, unread.
const OF_THE_SERVER: [Channel; 2] = [Channel::Sandbox, Channel::ThreadData];

/// The write that `values` stands for. `null` empties a channel without a reducer, and is no write to one with.
///
/// `place` is where the values stand in the body.
///
/// # Errors
/// 422 for an unknown channel (a text that clients know) or a value that does not fit (the usual list); 400 for a message that
/// is none.
pub fn state_update(values: JsonMap, place: &[&str]) -> Result<StateUpdate, Refusal> {
    let channel = |name: &String| serde_json::from_value::<Channel>(json!(name)).ok();
    let mut unknown: Vec<&str> = values.keys().filter(|name| channel(name).is_none()).map(String::as_str).collect();
    if !unknown.is_empty() {
        unknown.sort_unstable();
        let detail = format!("Unknown thread-state field(s): {}", unknown.join(", "));
        return Err(Refusal::new(RefusalKind::Invalid, detail));
    }
    let (mut rest, mut messages) = (JsonMap::new(), Vec::new());
    let mut update = StateUpdate::none();
    for (name, value) in values {
        match channel(&name) {
            None => {}
            Some(channel) if OF_THE_SERVER.contains(&channel) => {}
            Some(channel) if value.is_null() && channel.has_reducer() => {}
            Some(channel) if value.is_null() => {
                update.remove.insert(channel);
            }
            Some(Channel::Messages) => messages = read_messages(value, place)?,
            Some(_) => {
                rest.insert(name, value);
            }
        }
    }
    let remove = update.remove;
    let shown = Value::Object(rest);
    update = serde_path_to_error::deserialize(&shown).map_err(|error| {
        let at = error.path().iter().filter_map(|segment| match segment {
            serde_path_to_error::Segment::Map { key } => Some(json!(key)),
            serde_path_to_error::Segment::Seq { index } => Some(json!(index)),
            _ => None,
        });
        let path: Vec<Value> = location(place).chain(at).collect();
        let input = path.get(place.len() + 1).and_then(Value::as_str).and_then(|name| shown.get(name));
        let input = input.cloned().unwrap_or_default();
        Refusal::invalid("value_error", Value::Array(path), error.into_inner().to_string(), input)
    })?;
    update.messages = messages;
    update.remove = remove;
    Ok(update)
}

fn location(place: &[&str]) -> impl Iterator<Item = Value> {
    let place: Vec<Value> = std::iter::once("body").chain(place.iter().copied()).map(|part| json!(part)).collect();
    place.into_iter()
}

/// One message or a list of them; a text is what a person says.
fn read_messages(value: Value, place: &[&str]) -> Result<Vec<Arc<Message>>, Refusal> {
    let list = match value {
        Value::Array(list) => list,
        one => vec![one],
    };
    let read = |(index, value)| {
        super::message::parse(value).map(Arc::new).map_err(|reason| {
            Refusal::bad_request(format!("Invalid message at {}.messages[{index}]: {reason}", place.join(".")))
        })
    };
    list.into_iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn read(values: Value) -> Result<StateUpdate, Refusal> {
        state_update(values.as_object().cloned().unwrap(), &["values"])
    }

    #[test]
    fn values_become_a_write() {
        let update = read(json!({
            "messages": {"role": "user", "content": "hi"}, "title": "t", "summary_text": null, "todos": null,
            "sandbox": {"sandbox_id": "x"}, "thread_data": {"workspace_path": "/etc"},
        }))
        .unwrap();
        assert!(update.messages[0].is_human());
        assert_eq!((update.title.as_deref(), &update.sandbox, &update.thread_data), (Some("t"), &None, &None));
        assert_eq!(update.remove, [Channel::SummaryText].into());
    }

    #[test]
    fn what_does_not_fit_is_named() {
        assert_eq!(
            read(json!({"zeta": 1, "title": "t", "__private": {}})).unwrap_err().detail,
            "Unknown thread-state field(s): __private, zeta"
        );
        let place = |values| read(values).unwrap_err().detail[0]["loc"].clone();
        assert_eq!(place(json!({"title": 1})), json!(["body", "values", "title"]));
        assert_eq!(
            place(json!({"todos": [{"content": "a"}, {"content": 2}]})),
            json!(["body", "values", "todos", 1, "content"])
        );
        let error = read(json!({"messages": ["a", {"type": "alien"}]})).unwrap_err();
        assert_eq!(error.detail, "Invalid message at values.messages[1]: unknown role \"alien\"");
    }
}
