//! The reducers, one file each. `None` as the incoming value never changes anything.

mod artifacts;
mod delegations;
mod last_value;
mod messages;
mod promoted;
mod sandbox;
mod skill_context;
mod task_notes;
mod tool_artifacts;
mod viewed_images;

pub use artifacts::merge_artifacts;
pub use delegations::{DELEGATION_LIMIT, merge_delegations};
pub use last_value::{merge_goal, merge_todos};
pub use messages::{MESSAGE_BOTH_SIDES, merge_messages};
pub use promoted::merge_promoted;
pub use sandbox::merge_sandbox;
pub use skill_context::{SKILL_DESCRIPTION_CHARS, SKILL_LIMIT, merge_skill_context};
pub use task_notes::{TASK_NOTE_LIMIT, merge_task_notes};
pub use tool_artifacts::{TOOL_ARTIFACT_CEILING, merge_tool_artifacts};
pub use viewed_images::merge_viewed_images;

#[cfg(test)]
mod tests;
