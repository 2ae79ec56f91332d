//! Content of journal rows: any JSON, often a message or something that holds one.

use super::{Hash, Pile, Shelf, reference, reference_value};
use crate::error::damaged;
use deerflow_core::StoreError;
use serde_json::Value;

/// How deep messages and references are looked for: the content, its members, and theirs.
const DEPTH: u32 = 2;

/// The content with references, as a text.
pub(crate) fn pack_journal(content: &Value, pile: &mut Pile) -> Result<String, StoreError> {
    let packed = pack(content, 0, pile)?;
    serde_json::to_string(&packed).map_err(|error| damaged("a journal row cannot be written", error))
}

fn pack(value: &Value, depth: u32, pile: &mut Pile) -> Result<Value, StoreError> {
    if is_message(value) {
        // The keys stand in the order `Message` writes them, so that this is the content of the step's message.
        let bytes = serde_json::to_vec(value).map_err(|error| damaged("a message cannot be written", error))?;
        return Ok(reference_value(pile.put(bytes)));
    }
    match value {
        _ if depth == DEPTH || reference(value).is_some() => pile.put_value(value.clone()),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| Ok((key.clone(), pack(value, depth + 1, pile)?)))
            .collect::<Result<_, _>>()
            .map(Value::Object),
        Value::Array(items) => {
            items.iter().map(|item| pack(item, depth + 1, pile)).collect::<Result<_, _>>().map(Value::Array)
        }
        other => pile.put_value(other.clone()),
    }
}

fn is_message(value: &Value) -> bool {
    value.as_object().is_some_and(|map| {
        map.get("type").is_some_and(Value::is_string)
            && map.contains_key("content")
            && map.contains_key("additional_kwargs")
    })
}

/// What a packed content refers to.
pub(crate) fn journal_references(packed: &Value, found: &mut Vec<Hash>) {
    fn walk(value: &Value, depth: u32, found: &mut Vec<Hash>) {
        if let Some(hash) = reference(value) {
            found.push(hash);
        } else if depth < DEPTH {
            match value {
                Value::Object(map) => map.values().for_each(|value| walk(value, depth + 1, found)),
                Value::Array(items) => items.iter().for_each(|item| walk(item, depth + 1, found)),
                _ => {}
            }
        }
    }
    walk(packed, 0, found);
}

/// The content a packed one stands for.
pub(crate) fn unpack_journal(packed: Value, shelf: &Shelf) -> Result<Value, StoreError> {
    fn walk(value: Value, depth: u32, shelf: &Shelf) -> Result<Value, StoreError> {
        if reference(&value).is_some() || depth == DEPTH {
            return shelf.value(value);
        }
        match value {
            Value::Object(map) => map
                .into_iter()
                .map(|(key, value)| Ok((key, walk(value, depth + 1, shelf)?)))
                .collect::<Result<_, _>>()
                .map(Value::Object),
            Value::Array(items) => {
                items.into_iter().map(|item| walk(item, depth + 1, shelf)).collect::<Result<_, _>>().map(Value::Array)
            }
            other => Ok(other),
        }
    }
    walk(packed, 0, shelf)
}
