//! Updates and channels.

use super::{Hash, Pile, Shelf, reference};
use crate::error::damaged;
use deerflow_core::{JsonMap, Message, NodeUpdate, StateUpdate, StoreError, ThreadState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;

/// Wire name of the private slots, which are packed one by one.
const PRIVATE: &str = "__private";
/// Channels that hold any JSON, `null` included, which an `Option` does not survive.
const ANY_JSON: [&str; 3] = ["goal_outcome", "task_history", "structured_response"];

/// One node's update with references.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct PackedFrame {
    #[serde(rename = "n", default, skip_serializing_if = "String::is_empty")]
    node: String,
    #[serde(rename = "m", default, skip_serializing_if = "Vec::is_empty")]
    messages: Vec<Hash>,
    #[serde(rename = "u", default, skip_serializing_if = "JsonMap::is_empty")]
    channels: JsonMap,
}

/// The updates of a step, as one text.
pub(crate) fn pack_frames(updates: &[NodeUpdate], pile: &mut Pile) -> Result<String, StoreError> {
    let frames =
        updates.iter().map(|update| pack_frame(&update.node, &update.update, pile)).collect::<Result<Vec<_>, _>>()?;
    serde_json::to_string(&frames).map_err(|error| damaged("updates cannot be written", error))
}

/// One update, as a text.
pub(crate) fn pack_update(update: &StateUpdate, pile: &mut Pile) -> Result<String, StoreError> {
    serde_json::to_string(&pack_frame("", update, pile)?).map_err(|error| damaged("an update cannot be written", error))
}

fn pack_frame(node: &str, update: &StateUpdate, pile: &mut Pile) -> Result<PackedFrame, StoreError> {
    let messages = update.messages.iter().map(|message| pile.put_message(message)).collect::<Result<_, _>>()?;
    // Messages are shared, so that this clone copies the other channels only: what changed.
    let rest = StateUpdate { messages: Vec::new(), ..update.clone() };
    let rest = serde_json::to_value(&rest).map_err(|error| damaged("an update cannot be written", error))?;
    Ok(PackedFrame { node: node.to_owned(), messages, channels: pack_map(rest, pile)? })
}

/// The messages of a state as hashes end to end, and its other channels as a text.
pub(crate) fn pack_channels(state: &ThreadState, pile: &mut Pile) -> Result<(Vec<u8>, String), StoreError> {
    let mut hashes = Vec::with_capacity(state.messages.len() * 16);
    for message in &state.messages {
        hashes.extend_from_slice(pile.put_message(message)?.bytes());
    }
    let rest = ThreadState { messages: Vec::new(), ..state.clone() };
    let rest = serde_json::to_value(&rest).map_err(|error| damaged("a state cannot be written", error))?;
    let mut channels = pack_map(rest, pile)?;
    channels.shift_remove("messages");
    let channels = serde_json::to_string(&channels).map_err(|error| damaged("a state cannot be written", error))?;
    Ok((hashes, channels))
}

fn pack_map(value: Value, pile: &mut Pile) -> Result<JsonMap, StoreError> {
    let Value::Object(map) = value else { return Ok(JsonMap::new()) };
    map.into_iter()
        .map(|(channel, value)| {
            let value = match value {
                Value::Object(slots) if channel == PRIVATE => Value::Object(
                    slots
                        .into_iter()
                        .map(|(name, slot)| Ok((name, pile.put_value(slot)?)))
                        .collect::<Result<_, StoreError>>()?,
                ),
                value => pile.put_value(value)?,
            };
            Ok((channel, value))
        })
        .collect()
}

fn map_references(map: &JsonMap, found: &mut Vec<Hash>) {
    for (channel, value) in map {
        match value {
            Value::Object(slots) if channel == PRIVATE => found.extend(slots.values().filter_map(reference)),
            value => found.extend(reference(value)),
        }
    }
}

fn unpack_map(map: JsonMap, shelf: &Shelf) -> Result<JsonMap, StoreError> {
    map.into_iter()
        .map(|(channel, value)| {
            let value = match value {
                Value::Object(slots) if channel == PRIVATE => Value::Object(
                    slots
                        .into_iter()
                        .map(|(name, slot)| Ok((name, shelf.value(slot)?)))
                        .collect::<Result<_, StoreError>>()?,
                ),
                value => shelf.value(value)?,
            };
            Ok((channel, value))
        })
        .collect()
}

impl PackedFrame {
    pub(crate) fn parse_list(text: &str) -> Result<Vec<Self>, StoreError> {
        serde_json::from_str(text).map_err(|error| damaged("stored updates", error))
    }

    pub(crate) fn parse(text: &str) -> Result<Self, StoreError> {
        serde_json::from_str(text).map_err(|error| damaged("a stored update", error))
    }

    /// The channels of a snapshot, as a frame without messages.
    pub(crate) fn parse_channels(text: &str) -> Result<Self, StoreError> {
        let channels = serde_json::from_str(text).map_err(|error| damaged("a stored snapshot", error))?;
        Ok(Self { channels, ..Self::default() })
    }

    /// Adds the content it refers to.
    pub(crate) fn references(&self, found: &mut Vec<Hash>) {
        found.extend_from_slice(&self.messages);
        map_references(&self.channels, found);
    }

    /// The update.
    pub(crate) fn unpack(self, shelf: &mut Shelf) -> Result<StateUpdate, StoreError> {
        let map = unpack_map(self.channels, shelf)?;
        let nulls = nulls(&map);
        let mut update: StateUpdate =
            serde_json::from_value(Value::Object(map)).map_err(|error| damaged("a stored update", error))?;
        update.messages = self.messages.iter().map(|hash| shelf.message(hash)).collect::<Result<_, _>>()?;
        for (slot, null) in
            [&mut update.goal_outcome, &mut update.task_history, &mut update.structured_response].into_iter().zip(nulls)
        {
            if null {
                *slot = Some(Value::Null);
            }
        }
        Ok(update)
    }

    /// The state of a snapshot whose messages are these.
    pub(crate) fn unpack_state(self, messages: &[Hash], shelf: &mut Shelf) -> Result<ThreadState, StoreError> {
        let map = unpack_map(self.channels, shelf)?;
        let nulls = nulls(&map);
        let mut state: ThreadState =
            serde_json::from_value(Value::Object(map)).map_err(|error| damaged("a stored snapshot", error))?;
        state.messages = messages.iter().map(|hash| shelf.message(hash)).collect::<Result<_, _>>()?;
        for (slot, null) in
            [&mut state.goal_outcome, &mut state.task_history, &mut state.structured_response].into_iter().zip(nulls)
        {
            if null {
                *slot = Some(Value::Null);
            }
        }
        Ok(state)
    }
}

/// Which of [`ANY_JSON`] hold a `null`.
fn nulls(map: &JsonMap) -> [bool; 3] {
    ANY_JSON.map(|channel| map.get(channel) == Some(&Value::Null))
}

/// Gives messages without an id the one that the reducer gave them, as the state shows it: a replay would roll others.
pub(crate) fn resolve_ids(updates: &mut [NodeUpdate], state: &ThreadState) {
    let anonymous = |message: &Arc<Message>| message.id.is_none();
    if !updates.iter().any(|update| update.update.messages.iter().any(anonymous)) {
        return;
    }
    // Ids that the updates name are not ones that the reducer gave.
    let mut taken: HashSet<String> = updates
        .iter()
        .flat_map(|update| update.update.messages.iter().filter_map(|message| message.id.clone()))
        .collect();
    for message in updates.iter_mut().rev().flat_map(|update| update.update.messages.iter_mut().rev()) {
        if !anonymous(message) {
            continue;
        }
        let same = |other: &Arc<Message>| {
            other.kind == message.kind
                && other.content == message.content
                && other.name == message.name
                && other.additional_kwargs == message.additional_kwargs
                && other.response_metadata == message.response_metadata
        };
        let found = state.messages.iter().rev().find(|other| !taken.contains(other.id()) && same(other)).cloned();
        *message = found.unwrap_or_else(|| {
            // It did not survive the step, so that any id will do.
            let mut owned = Message::clone(message);
            owned.ensure_id();
            Arc::new(owned)
        });
        taken.insert(message.id().to_owned());
    }
}
