//! The whole state of a thread.

use super::entries::{
    ArtifactEntry, DelegationEntry, GoalState, PromotedTools, SandboxState, SkillEntry, TaskNote, ThreadData, Todo,
    ViewedImage,
};
use super::reducers::{
    merge_artifacts, merge_delegations, merge_goal, merge_messages, merge_promoted, merge_sandbox, merge_skill_context,
    merge_task_notes, merge_todos, merge_tool_artifacts, merge_viewed_images,
};
use super::update::{Channel, StateUpdate};
use crate::{JsonMap, Message, StateError};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Everything a thread remembers. Serialises to the `values` object of the wire: unset optional channels are absent.
///
/// Cloning is cheap: messages are shared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadState {
    /// The conversation.
    pub messages: Vec<Arc<Message>>,
    /// Sandbox held by the thread; only ever one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxState>,
    /// Host folders of the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_data: Option<ThreadData>,
    /// Name of the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Delivered files, as virtual paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<String>>,
    /// The plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todos: Option<Vec<Todo>>,
    /// The goal being worked on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<GoalState>,
    /// How the last goal ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal_outcome: Option<Value>,
    /// Inputs that were applied during a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_run_inputs: Option<JsonMap>,
    /// Files uploaded with the current turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uploaded_files: Option<Vec<JsonMap>>,
    /// Images looked at, by path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub viewed_images: Option<IndexMap<String, ViewedImage>>,
    /// Deferred tools made callable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promoted: Option<PromotedTools>,
    /// Sub-agents sent out, newest last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegations: Option<Vec<DelegationEntry>>,
    /// Skills read, most recent last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_context: Option<Vec<SkillEntry>>,
    /// Results that later calls may name by handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_artifacts: Option<Vec<ArtifactEntry>>,
    /// Results already looked through for artifacts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_artifact_processed: Option<Vec<String>>,
    /// Notes the model keeps. Unset until the first write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_notes: Option<IndexMap<String, TaskNote>>,
    /// Index over archived history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_history: Option<Value>,
    /// Rolling summary of what was compacted away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_text: Option<String>,
    /// Detached long tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_tasks: Option<Vec<JsonMap>>,
    /// Answer in the caller's response format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_response: Option<Value>,
    /// Private state of middlewares, by the middleware's name.
    #[serde(rename = "__private", skip_serializing_if = "BTreeMap::is_empty")]
    pub private: BTreeMap<String, Value>,
}

impl ThreadState {
    /// Folds one update in.
    ///
    /// # Errors
    /// What a reducer refuses: a second sandbox, or the removal of a message that is not there. The state is unchanged then.
    pub fn apply(&mut self, update: &StateUpdate) -> Result<(), StateError> {
        // The two reducers that can refuse go first, into temporaries.
        let sandbox = merge_sandbox(self.sandbox.as_ref(), update.sandbox.as_ref())?;
        if !update.messages.is_empty() {
            merge_messages(&mut self.messages, &update.messages)?;
        }
        self.sandbox = sandbox;
        fn put<T: Clone>(slot: &mut Option<T>, new: &Option<T>) {
            if let Some(new) = new {
                *slot = Some(new.clone());
            }
        }
        put(&mut self.thread_data, &update.thread_data);
        put(&mut self.title, &update.title);
        put(&mut self.goal_outcome, &update.goal_outcome);
        put(&mut self.applied_run_inputs, &update.applied_run_inputs);
        put(&mut self.uploaded_files, &update.uploaded_files);
        put(&mut self.task_history, &update.task_history);
        put(&mut self.summary_text, &update.summary_text);
        put(&mut self.background_tasks, &update.background_tasks);
        put(&mut self.structured_response, &update.structured_response);
        merge_artifacts(&mut self.artifacts, update.artifacts.as_deref());
        merge_todos(&mut self.todos, update.todos.as_deref());
        merge_goal(&mut self.goal, update.goal.as_ref());
        merge_viewed_images(&mut self.viewed_images, update.viewed_images.as_ref());
        merge_promoted(&mut self.promoted, update.promoted.as_ref());
        merge_delegations(&mut self.delegations, update.delegations.as_deref());
        merge_skill_context(&mut self.skill_context, update.skill_context.as_deref());
        merge_tool_artifacts(&mut self.tool_artifacts, update.tool_artifacts.as_deref());
        merge_artifacts(&mut self.tool_artifact_processed, update.tool_artifact_processed.as_deref());
        merge_task_notes(&mut self.task_notes, update.task_notes.as_ref());
        for (name, value) in &update.private {
            if value.is_null() {
                self.private.remove(name);
            } else {
                self.private.insert(name.clone(), value.clone());
            }
        }
        for channel in &update.remove {
            self.clear(*channel);
        }
        Ok(())
    }

    /// Folds the updates of nodes that ran at the same time, in the order given.
    ///
    /// # Errors
    /// [`StateError::ConcurrentWrite`] when two of them write a channel without a reducer; otherwise as [`Self::apply`].
    /// The state is unchanged then.
    pub fn apply_concurrent<'a>(
        &mut self,
        updates: impl IntoIterator<Item = &'a StateUpdate>,
    ) -> Result<(), StateError> {
        let updates: Vec<&StateUpdate> = updates.into_iter().collect();
        let mut seen = HashSet::new();
        for channel in updates.iter().flat_map(|u| u.written()).filter(|c| !c.has_reducer()) {
            if !seen.insert(channel) {
                return Err(StateError::ConcurrentWrite { channel });
            }
        }
        let mut next = self.clone();
        for update in updates {
            next.apply(update)?;
        }
        *self = next;
        Ok(())
    }

    /// Empties a channel.
    pub fn clear(&mut self, channel: Channel) {
        use Channel as C;
        match channel {
            C::Messages => self.messages.clear(),
            C::Sandbox => self.sandbox = None,
            C::ThreadData => self.thread_data = None,
            C::Title => self.title = None,
            C::Artifacts => self.artifacts = None,
            C::Todos => self.todos = None,
            C::Goal => self.goal = None,
            C::GoalOutcome => self.goal_outcome = None,
            C::AppliedRunInputs => self.applied_run_inputs = None,
            C::UploadedFiles => self.uploaded_files = None,
            C::ViewedImages => self.viewed_images = None,
            C::Promoted => self.promoted = None,
            C::Delegations => self.delegations = None,
            C::SkillContext => self.skill_context = None,
            C::ToolArtifacts => self.tool_artifacts = None,
            C::ToolArtifactProcessed => self.tool_artifact_processed = None,
            C::TaskNotes => self.task_notes = None,
            C::TaskHistory => self.task_history = None,
            C::SummaryText => self.summary_text = None,
            C::BackgroundTasks => self.background_tasks = None,
            C::StructuredResponse => self.structured_response = None,
        }
    }

    /// The last assistant message, if any.
    #[must_use]
    pub fn last_ai(&self) -> Option<&Arc<Message>> {
        self.messages.iter().rev().find(|m| m.as_ai().is_some())
    }

    /// Tool results that come after the last assistant message, in order.
    #[must_use]
    pub fn answered_since_last_ai(&self) -> Vec<&Arc<Message>> {
        let mut results: Vec<_> =
            self.messages.iter().rev().take_while(|m| m.as_ai().is_none()).filter(|m| m.as_tool().is_some()).collect();
        results.reverse();
        results
    }
}
