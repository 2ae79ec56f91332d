//! Partial updates of a thread's state.

use super::entries::{
    ArtifactWrite, DelegationEntry, GoalState, PromotedTools, SandboxState, SkillEntry, TaskNote, ThreadData, Todo,
    ViewedImage,
};
use crate::{JsonMap, Message};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The channels of the state, by wire name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the field of the same name in `ThreadState`")]
pub enum Channel {
    Messages,
    Sandbox,
    ThreadData,
    Title,
    Artifacts,
    Todos,
    Goal,
    GoalOutcome,
    AppliedRunInputs,
    UploadedFiles,
    ViewedImages,
    Promoted,
    Delegations,
    SkillContext,
    ToolArtifacts,
    ToolArtifactProcessed,
    TaskNotes,
    TaskHistory,
    SummaryText,
    BackgroundTasks,
    StructuredResponse,
}

impl Channel {
    /// Whether several writes of one step are folded. A channel without a reducer rejects the second.
    #[must_use]
    pub fn has_reducer(self) -> bool {
        use Channel as C;
        matches!(
            self,
            C::Messages
                | C::Sandbox
                | C::Artifacts
                | C::Todos
                | C::Goal
                | C::ViewedImages
                | C::Promoted
                | C::Delegations
                | C::SkillContext
                | C::ToolArtifacts
                | C::ToolArtifactProcessed
                | C::TaskNotes
        )
    }
}

/// What one node (a hook, the model, a tool) writes. An absent field is not written.
///
/// Serialises to the JSON object that `updates` streams show: channel name to written value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "each is the field of the same name in `ThreadState`")]
pub struct StateUpdate {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Arc<Message>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_data: Option<ThreadData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todos: Option<Vec<Todo>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<GoalState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal_outcome: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_run_inputs: Option<JsonMap>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uploaded_files: Option<Vec<JsonMap>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub viewed_images: Option<IndexMap<String, ViewedImage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promoted: Option<PromotedTools>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegations: Option<Vec<DelegationEntry>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_context: Option<Vec<SkillEntry>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_artifacts: Option<Vec<ArtifactWrite>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_artifact_processed: Option<Vec<String>>,
    /// A `null` note deletes the one of that key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_notes: Option<IndexMap<String, Option<TaskNote>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_history: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_tasks: Option<Vec<JsonMap>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_response: Option<Value>,
    /// Private state of middlewares, by the middleware's name; last write wins, `null` removes.
    #[serde(rename = "__private", skip_serializing_if = "BTreeMap::is_empty")]
    pub private: BTreeMap<String, Value>,
    /// Channels to empty after the writes; the only way to end a goal.
    #[serde(rename = "__remove", skip_serializing_if = "BTreeSet::is_empty")]
    pub remove: BTreeSet<Channel>,
}

impl StateUpdate {
    /// An update that writes nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }
    /// An update that adds these messages.
    #[must_use]
    pub fn messages(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().map(Arc::new).collect(), ..Self::default() }
    }
    /// Whether nothing is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.written().is_empty() && self.private.is_empty() && self.remove.is_empty()
    }
    /// The channels written, in state order.
    #[must_use]
    pub fn written(&self) -> Vec<Channel> {
        use Channel as C;
        [
            (!self.messages.is_empty(), C::Messages),
            (self.sandbox.is_some(), C::Sandbox),
            (self.thread_data.is_some(), C::ThreadData),
            (self.title.is_some(), C::Title),
            (self.artifacts.is_some(), C::Artifacts),
            (self.todos.is_some(), C::Todos),
            (self.goal.is_some(), C::Goal),
            (self.goal_outcome.is_some(), C::GoalOutcome),
            (self.applied_run_inputs.is_some(), C::AppliedRunInputs),
            (self.uploaded_files.is_some(), C::UploadedFiles),
            (self.viewed_images.is_some(), C::ViewedImages),
            (self.promoted.is_some(), C::Promoted),
            (self.delegations.is_some(), C::Delegations),
            (self.skill_context.is_some(), C::SkillContext),
            (self.tool_artifacts.is_some(), C::ToolArtifacts),
            (self.tool_artifact_processed.is_some(), C::ToolArtifactProcessed),
            (self.task_notes.is_some(), C::TaskNotes),
            (self.task_history.is_some(), C::TaskHistory),
            (self.summary_text.is_some(), C::SummaryText),
            (self.background_tasks.is_some(), C::BackgroundTasks),
            (self.structured_response.is_some(), C::StructuredResponse),
        ]
        .into_iter()
        .filter_map(|(written, channel)| written.then_some(channel))
        .collect()
    }
}
