//! Threads by what is in their state.
//!
//! States are not indexed: they are read and compared, of the threads that the rest of a query leaves, up to a limit.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::wire::State as ThreadState;
use deerflow_core::ports::{StepLog as _, ThreadQuery, ThreadRepo as _, ThreadRow};
use deerflow_core::{JsonMap, Lineage};

/// Threads whose states are read for one query.
const LOOKED_AT: u32 = 1000;
/// The same at a time.
const PAGE: u32 = 100;

/// All threads of a query whose state has these values; limit and offset of the query are the caller's to apply.
pub(super) async fn matching(
    app: &AppState,
    caller: &Caller,
    query: &ThreadQuery,
    wanted: &JsonMap,
) -> Result<Vec<ThreadRow>, ApiError> {
    let mut found = Vec::new();
    let mut offset = 0;
    while offset < LOOKED_AT {
        let page = ThreadQuery { limit: PAGE, offset, ..query.clone() };
        let rows = app.store.search_threads(&caller.user_id, page).await?;
        let is_last = rows.len() < PAGE as usize;
        for row in rows {
            let head = app.store.load(&Lineage::root(row.thread_id.clone()), None).await?;
            let values = ThreadState::new(&row.thread_id, "", head.as_ref()).values;
            if wanted.iter().all(|(channel, value)| values.get(channel) == Some(value)) {
                found.push(row);
            }
        }
        if is_last {
            break;
        }
        offset += PAGE;
    }
    Ok(found)
}
