//! The state as clients see it.

use deerflow_core::message::kwargs;
use deerflow_core::state::ViewedImage;
use deerflow_core::{Content, ContentBlock, Interrupt, Message, ThreadState};
use indexmap::IndexMap;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::sync::Arc;

/// The state as JSON for clients: `/state`, history, `wait` and `values` frames show the same.
///
/// - Private slots of middlewares are not shown, and no path of this machine is.
/// - `messages`, `artifacts`, `viewed_images`, `delegations` and `skill_context` are always there; other channels when they
///   were written.
#[must_use]
pub fn state_json(state: &ThreadState) -> Value {
    serde_json::to_value(ClientState { state, streamed: false }).unwrap_or_default()
}

/// The state as JSON, written without a copy.
pub(crate) struct ClientState<'a> {
    pub(crate) state: &'a ThreadState,
    /// In a stream: open questions are shown, and images inside hidden messages are not.
    pub(crate) streamed: bool,
}

impl Serialize for ClientState<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let state = self.state;
        let mut map = serializer.serialize_map(None)?;
        if self.streamed {
            map.serialize_entry("messages", &StreamedMessages(&state.messages))?;
        } else {
            map.serialize_entry("messages", &state.messages)?;
        }
        macro_rules! optional {
            ($($channel:ident),*) => { $(
                if let Some(value) = &state.$channel {
                    map.serialize_entry(stringify!($channel), value)?;
                }
            )* };
        }
        optional!(sandbox);
        if state.thread_data.is_some() {
            map.serialize_entry("thread_data", &thread_data())?;
        }
        optional!(title);
        map.serialize_entry("artifacts", state.artifacts.as_deref().unwrap_or_default())?;
        optional!(todos, goal, goal_outcome, applied_run_inputs, uploaded_files);
        match &state.viewed_images {
            Some(viewed) => map.serialize_entry("viewed_images", &images(viewed))?,
            None => map.serialize_entry("viewed_images", &json!({}))?,
        }
        optional!(promoted);
        map.serialize_entry("delegations", state.delegations.as_deref().unwrap_or_default())?;
        map.serialize_entry("skill_context", state.skill_context.as_deref().unwrap_or_default())?;
        optional!(
            tool_artifacts,
            tool_artifact_processed,
            task_notes,
            task_history,
            summary_text,
            background_tasks,
            structured_response
        );
        if self.streamed {
            let open = state.interrupts();
            if !open.is_empty() {
                map.serialize_entry("__interrupt__", &interrupts(&open))?;
            }
        }
        map.end()
    }
}

/// The thread's folders as the agent knows them.
pub(crate) fn thread_data() -> Value {
    json!({
        "workspace_path": "/mnt/user-data/workspace",
        "uploads_path": "/mnt/user-data/uploads",
        "outputs_path": "/mnt/user-data/outputs",
    })
}

/// Images by virtual path, with that path in place of the machine's.
pub(crate) fn images(images: &IndexMap<String, ViewedImage>) -> Value {
    let shown = images.iter().map(|(path, image)| {
        let mut shown = serde_json::to_value(image).unwrap_or_default();
        if let Some(map) = shown.as_object_mut() {
            map.insert("actual_path".to_owned(), Value::String(path.clone()));
        }
        (path.clone(), shown)
    });
    Value::Object(shown.collect())
}

/// Questions as clients see them.
pub(crate) fn interrupts(open: &[Interrupt]) -> Value {
    open.iter().map(|question| json!({"value": question.value, "id": question.id})).collect()
}

/// Messages as streams show them.
pub(crate) struct StreamedMessages<'a>(pub(crate) &'a [Arc<Message>]);

impl Serialize for StreamedMessages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|message| StreamedMessage(message)))
    }
}

/// A message as streams show it: an image inside a hidden one would be sent with every frame, for nobody to see.
pub(crate) struct StreamedMessage<'a>(pub(crate) &'a Message);

impl Serialize for StreamedMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0.content {
            Content::Blocks(blocks) if self.0.flag(kwargs::HIDE_FROM_UI) && blocks.iter().any(is_inline_image) => {
                let blocks = blocks.iter().filter(|block| !is_inline_image(block)).cloned().collect();
                Message { content: Content::Blocks(blocks), ..self.0.clone() }.serialize(serializer)
            }
            _ => self.0.serialize(serializer),
        }
    }
}

fn is_inline_image(block: &ContentBlock) -> bool {
    let url = match block {
        ContentBlock::ImageUrl(url) => Some(url.as_str()),
        ContentBlock::Raw(value) if block.kind() == "image_url" => {
            value.get("image_url").and_then(|image| image.as_str().or_else(|| image.get("url")?.as_str()))
        }
        _ => None,
    };
    url.is_some_and(|url| url.starts_with("data:"))
}
