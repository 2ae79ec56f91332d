//! Threads: conversations and their state.

mod by_values;
mod create;
mod delete;
mod edit;
mod filter;
mod goal;
mod history;
mod search;
mod state;

pub use delete::Deleted;
pub use edit::StateWrite;
pub use goal::Goal;
pub use history::HistoryQuery;
pub use search::{SortBy, ThreadSearch};

use deerflow_core::JsonMap;

/// Metadata that clients cannot set.
const RESERVED: [&str; 2] = ["owner_id", "user_id"];

/// Metadata without what clients cannot set.
#[must_use]
pub fn settable(metadata: Option<JsonMap>) -> JsonMap {
    let mut metadata = metadata.unwrap_or_default();
    metadata.retain(|key, _| !RESERVED.contains(&key.as_str()));
    metadata
}
