//! Types of the state's channels, in their wire shape.

use crate::JsonMap;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Which sandbox the thread holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxState {
    /// Its id; a missing one counts as none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
}

/// Host folders of the thread. Never shown to the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadData {
    /// Folder behind `/mnt/user-data/workspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_path: Option<String>,
    /// Folder behind `/mnt/user-data/uploads`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uploads_path: Option<String>,
    /// Folder behind `/mnt/user-data/outputs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs_path: Option<String>,
}

/// One item of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// How far it is.
    #[serde(default)]
    pub status: TodoStatus,
}

/// Progress of a [`Todo`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
}

/// A goal that is worked on across turns. There is one status, `active`; ending a goal removes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoalState {
    /// What is to be reached, 1 to 4000 characters.
    pub objective: String,
    /// Always `active`.
    pub status: String,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// RFC 3339, UTC.
    pub updated_at: String,
    /// Automatic turns so far.
    #[serde(default)]
    pub continuation_count: u32,
    /// Automatic turns allowed, 0 to 8.
    #[serde(default)]
    pub max_continuations: u32,
    /// Automatic turns in a row that brought nothing new.
    #[serde(default)]
    pub no_progress_count: u32,
    /// How many of those are allowed.
    #[serde(default)]
    pub max_no_progress_continuations: u32,
    /// What the evaluator said last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_evaluation: Option<GoalEvaluation>,
}

/// Verdict of the goal evaluator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoalEvaluation {
    /// Whether the goal is met.
    pub satisfied: bool,
    /// `none`, `missing_evidence`, `needs_user_input`, `run_failed`, `external_wait` or `goal_not_met_yet`.
    pub blocker: String,
    /// Why, at most 1000 characters.
    pub reason: String,
    /// Further keys (`evidence_summary`, `relied_on_assumption`, `stand_down_reason` …).
    #[serde(flatten)]
    pub extra: JsonMap,
}

/// An image that `view_image` looked at: facts only, never bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewedImage {
    /// MIME type by magic bytes.
    pub mime_type: String,
    /// Bytes.
    pub size: u64,
    /// Where it was read.
    pub actual_path: String,
    /// SHA-256 of the bytes, hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Sandbox it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_sandbox_id: Option<String>,
    /// Reference to a stored copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob_ref: Option<Value>,
}

/// Deferred tools that the model may call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromotedTools {
    /// Identity of the catalogue the names belong to.
    #[serde(default)]
    pub catalog_hash: String,
    /// Tool names. A malformed list reads as empty.
    #[serde(default, deserialize_with = "names_or_empty")]
    pub names: Vec<String>,
    /// Turn the promotion is good for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
}

fn names_or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// A sub-agent that was sent out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegationEntry {
    /// Provider's tool-call id.
    pub id: String,
    /// Run that sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Task in short, at most 200 characters.
    #[serde(default)]
    pub description: String,
    /// Which kind of sub-agent.
    #[serde(default)]
    pub subagent_type: String,
    /// `pending`, `in_progress`, or terminal: `completed`, `failed`, `cancelled`, `timed_out`, `polling_timed_out`.
    pub status: String,
    /// Start of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_brief: Option<String>,
    /// SHA-256 of the whole result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_sha256: Option<String>,
    /// Where the whole result is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_ref: Option<String>,
    /// Which limit ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Whether its citations hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_verdict: Option<Value>,
    /// Whether its acceptance checks passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceptance_verdict: Option<Value>,
    /// RFC 3339, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
}

impl DelegationEntry {
    /// Whether the sub-agent has ended.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "failed" | "cancelled" | "timed_out" | "polling_timed_out")
    }
}

/// A skill that the model has read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillEntry {
    /// Skill name.
    #[serde(default)]
    pub name: String,
    /// Path of its `SKILL.md`; identity of the entry.
    pub path: String,
    /// What it is for, at most 500 characters.
    #[serde(default)]
    pub description: String,
    /// Message index when it was read; observational. Anything but an integer reads as 0.
    #[serde(default, deserialize_with = "int_or_zero")]
    pub loaded_at: i64,
}

fn int_or_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Ok(Value::deserialize(deserializer)?.as_i64().unwrap_or(0))
}

/// Something a tool produced that later calls may name by handle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactEntry {
    /// `art_` and 8 hexadecimal digits; identity of the entry.
    pub handle: String,
    /// Tool that made it.
    #[serde(default)]
    pub tool_name: String,
    /// Call that made it.
    #[serde(default)]
    pub tool_call_id: String,
    /// Position among results of that call.
    #[serde(default)]
    pub call_index: u32,
    /// `file`, `image`, `task` or `data`.
    #[serde(default)]
    pub artifact_type: String,
    /// Label for people.
    #[serde(default)]
    pub display_name: String,
    /// Path, URL, id or payload that the handle stands for.
    #[serde(default)]
    pub real_ref: String,
    /// MIME type, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// RFC 3339, UTC.
    #[serde(default)]
    pub created_at: String,
    /// Calls that used it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumed_by: Vec<String>,
}

/// A write to `tool_artifacts`: an entry, or the directive to keep only the newest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "nearly every write is an entry")]
pub enum ArtifactWrite {
    /// `{"op":"trim_to","keep":N}`
    Trim {
        /// Always `trim_to`.
        op: TrimOp,
        /// How many of the newest to keep.
        keep: usize,
    },
    /// Adds or replaces an entry.
    Entry(ArtifactEntry),
}

/// The one directive of [`ArtifactWrite`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrimOp {
    /// Keep the newest.
    TrimTo,
}

/// A note the model keeps about a long task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskNote {
    /// 1 to 750 characters.
    pub content: String,
    /// At most four record ids, `r` and 32 hexadecimal digits each.
    #[serde(default)]
    pub source_ids: Vec<String>,
    /// Always `model_report`.
    #[serde(default)]
    pub authority: String,
}
