//! A thread.

use super::iso;
use super::state::interrupts;
use deerflow_core::ports::{Checkpoint, ThreadRow};
use deerflow_core::run::Next;
use deerflow_core::{JsonMap, ThreadState};
use deerflow_runtime::views::values::state_json;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// Metadata key under which `true` pins a thread to the top of lists.
pub const PINNED: &str = "deerflow_pinned";

/// A thread.
#[derive(Debug, Serialize, ToSchema)]
pub struct Thread {
    /// Its id.
    #[schema(example = "0b1b0b8e-52a1-4f1c-8a0e-0d8a2f6d7e11")]
    pub thread_id: String,
    /// `idle`, `busy`, `interrupted` or `error`.
    #[schema(example = "idle")]
    pub status: String,
    /// ISO 8601.
    #[schema(example = "2026-04-27T03:19:46.511479+00:00")]
    pub created_at: String,
    /// ISO 8601.
    #[schema(example = "2026-04-27T03:19:46.511479+00:00")]
    pub updated_at: String,
    /// What clients keep with it.
    #[schema(value_type = Object)]
    pub metadata: JsonMap,
    /// Its state, or a part of it.
    #[schema(value_type = Object)]
    pub values: Value,
    /// Questions that wait for a person, by task.
    #[schema(value_type = Object)]
    pub interrupts: Value,
    /// What was asked for with `extract`, by its alias.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub extracted: Option<JsonMap>,
}

impl Thread {
    /// A thread as lists show it: of its state, the title only.
    pub fn listed(row: ThreadRow) -> Self {
        let values = row.title.as_ref().map_or_else(|| json!({}), |title| json!({"title": title}));
        Self::with_values(row, values)
    }

    /// A thread with these values.
    pub fn with_values(row: ThreadRow, values: Value) -> Self {
        Self {
            thread_id: row.thread_id.to_string(),
            status: row.status,
            created_at: iso(row.created_at),
            updated_at: iso(row.updated_at),
            metadata: row.metadata,
            values,
            interrupts: json!({}),
            extracted: None,
        }
    }

    /// A thread with its whole state, `head`.
    pub fn with_state(row: ThreadRow, head: Option<&Checkpoint>) -> Self {
        let values = head.map_or_else(|| state_json(&ThreadState::default()), |head| state_json(&head.state));
        let mut thread = Self::with_values(row, values);
        if let Some(head) = head {
            thread.interrupts = Value::Object(interrupts(head));
            // An edit can leave something to run although no run has ended so.
            if thread.status == "idle" && head.next != Next::Done {
                thread.status = "interrupted".to_owned();
            }
        }
        thread
    }
}
