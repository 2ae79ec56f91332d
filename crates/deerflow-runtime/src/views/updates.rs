//! What each node wrote.

use super::line::line;
use super::values::{StreamedMessage, StreamedMessages, thread_data};
use deerflow_core::{INTERRUPT_SLOT, Message, NodeUpdate};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// Whether a write is the kernel's own: the input, or its notes about open questions.
pub(super) fn is_internal(node: &str) -> bool {
    node == "__input__" || node == INTERRUPT_SLOT
}

/// `{node: {channel: value …}}`, `{node: null}` when the node wrote nothing that clients see.
pub(super) struct Write<'a>(pub(super) &'a NodeUpdate);

impl Serialize for Write<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        if self.0.update.written().is_empty() {
            map.serialize_entry(&self.0.node, &())?;
        } else {
            map.serialize_entry(&self.0.node, &Channels(self.0))?;
        }
        map.end()
    }
}

/// The channels of a write.
pub(super) struct Channels<'a>(pub(super) &'a NodeUpdate);

impl Serialize for Channels<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let update = &self.0.update;
        let mut map = serializer.serialize_map(None)?;
        if !update.messages.is_empty() {
            map.serialize_entry("messages", &StreamedMessages(&update.messages))?;
        }
        if update.thread_data.is_some() {
            map.serialize_entry("thread_data", &thread_data())?;
        }
        if let Some(images) = &update.viewed_images {
            map.serialize_entry("viewed_images", &super::values::images(images))?;
        }
        macro_rules! optional {
            ($($channel:ident),*) => { $(
                if let Some(value) = &update.$channel {
                    map.serialize_entry(stringify!($channel), value)?;
                }
            )* };
        }
        optional!(
            sandbox,
            title,
            artifacts,
            todos,
            goal,
            goal_outcome,
            applied_run_inputs,
            uploaded_files,
            promoted,
            delegations,
            skill_context,
            tool_artifacts,
            tool_artifact_processed,
            task_notes,
            task_history,
            summary_text,
            background_tasks,
            structured_response
        );
        map.end()
    }
}

/// The same for a message of the journal.
pub(super) fn stored(node: &str, message: &Message) -> Arc<str> {
    #[derive(Serialize)]
    struct Messages<'a> {
        messages: [StreamedMessage<'a>; 1],
    }
    struct Stored<'a>(&'a str, &'a Message);
    impl Serialize for Stored<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(Some(1))?;
            map.serialize_entry(self.0, &Messages { messages: [StreamedMessage(self.1)] })?;
            map.end()
        }
    }
    line(&Stored(node, message))
}
