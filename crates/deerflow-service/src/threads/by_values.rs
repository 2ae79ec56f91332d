//! Threads by what is in their state.
//!
//! States are not indexed: they are read and compared, of the threads that the rest of a query leaves, up to a limit.

use crate::refusal::Refusal;
use crate::service::Service;
use crate::shapes::State as ThreadState;
use deerflow_core::ports::{StepLog as _, ThreadQuery, ThreadRepo as _, ThreadRow};
use deerflow_core::{JsonMap, Lineage, UserId};

/// Threads whose states are read for one query.
const LOOKED_AT: u32 = 1000;
/// The same at a time.
const PAGE: u32 = 100;

/// All threads of a query whose state has these values; limit and offset of the query are the caller's to apply.
pub(super) async fn matching(
    service: &Service,
    user: &UserId,
    query: &ThreadQuery,
    wanted: &JsonMap,
) -> Result<Vec<ThreadRow>, Refusal> {
    let mut found = Vec::new();
    let mut offset = 0;
    while offset < LOOKED_AT {
        let page = ThreadQuery { limit: PAGE, offset, ..query.clone() };
        let rows = service.store.search_threads(user, page).await?;
        let is_last = rows.len() < PAGE as usize;
        for row in rows {
            let head = service.store.load(&Lineage::root(row.thread_id.clone()), None).await?;
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
