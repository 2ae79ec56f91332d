//! Handles for what tools made.
//!
//! A path, an address or a task id in a tool's result gets a short handle, `art_1a2b3c4d`, that outlives the result: after a
//! compaction the model can still name the thing exactly. [`super::ArtifactCaptureMiddleware`] finds them,
//! [`super::ArtifactResolutionMiddleware`] puts the real thing in place of a handle in a call, and [`project_artifacts`]
//! tells the model which handles there are. A registry belongs to one agent: sub-agents neither inherit nor return it.

mod config;
mod extract;
mod handle;
mod projection;

pub use config::ToolArtifactsConfig;
pub(super) use extract::{Origin, extract};
pub(super) use handle::{handles_in, is_handle, substitute};
pub use projection::{ARTIFACT_CONTEXT_CHARS, project_artifacts};

/// Key of `state.private`, for the one call only, under which a `task_note` call finds the arguments of all `task_note`
/// calls of its message with handles resolved: an object from call id to arguments.
pub const RESOLVED_TOOL_CALL_ARGS: &str = "__resolved_tool_call_args";
