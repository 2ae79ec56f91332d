//! The state of a thread: one typed struct, a typed partial update, and the reducers that fold one into the other.

mod entries;
mod reducers;
mod slot;
mod thread_state;
mod update;

pub use entries::{
    ArtifactEntry, ArtifactWrite, DelegationEntry, GoalEvaluation, GoalState, PromotedTools, SandboxState, SkillEntry,
    TaskNote, ThreadData, Todo, TodoStatus, ViewedImage,
};
pub use reducers::{
    DELEGATION_LIMIT, MESSAGE_BOTH_SIDES, SKILL_DESCRIPTION_CHARS, SKILL_LIMIT, TASK_NOTE_LIMIT, TOOL_ARTIFACT_CEILING,
    merge_artifacts, merge_delegations, merge_goal, merge_messages, merge_promoted, merge_sandbox, merge_skill_context,
    merge_task_notes, merge_todos, merge_tool_artifacts, merge_viewed_images,
};
pub use slot::StateSlot;
pub use thread_state::ThreadState;
pub use update::{Channel, StateUpdate};
