//! Lists threads.

use super::by_values::matching;
use super::filter::{checked, stored_status};
use crate::refusal::Refusal;
use crate::service::Service;
use crate::shapes::{ExtractPath, PINNED, Thread};
use deerflow_core::ports::{StepLog as _, ThreadFilter, ThreadQuery, ThreadRepo as _, ThreadRow, ThreadSort};
use deerflow_core::{JsonMap, Lineage, ThreadId, UserId};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

/// Most paths of one search.
const MOST_PATHS: usize = 10;

/// Which threads, and how many.
#[derive(Debug, Clone)]
pub struct ThreadSearch {
    /// Metadata a thread must have.
    pub metadata: Option<JsonMap>,
    /// Values the state must have; of the most recently used 1000 threads.
    pub values: Option<JsonMap>,
    /// One of these.
    pub ids: Option<Vec<ThreadId>>,
    /// `idle`, `busy`, `interrupted` or `error`.
    pub status: Option<String>,
    /// At most this many.
    pub limit: u32,
    /// After this many.
    pub offset: u32,
    /// Their order; the last use when absent.
    pub sort_by: Option<SortBy>,
    /// The first ones first.
    pub ascending: bool,
    /// Paths into the threads, by the alias under which `extracted` has what is there. At most 10.
    pub extract: IndexMap<String, ExtractPath>,
}

impl Default for ThreadSearch {
    fn default() -> Self {
        Self {
            metadata: None,
            values: None,
            ids: None,
            status: None,
            limit: 100,
            offset: 0,
            sort_by: None,
            ascending: false,
            extract: IndexMap::new(),
        }
    }
}

/// What threads are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ThreadSortBy)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SortBy {
    ThreadId,
    Status,
    CreatedAt,
    UpdatedAt,
    StateUpdatedAt,
}

impl Service {
    /// Threads of a user. Of the state, `values` has the title only: `extract` picks the rest.
    ///
    /// # Errors
    /// For a filter that cannot be used.
    pub async fn search_threads(&self, user: &UserId, search: ThreadSearch) -> Result<Vec<Thread>, Refusal> {
        let paths = search.extract;
        if paths.len() > MOST_PATHS {
            let message = format!("Dictionary should have at most {MOST_PATHS} items");
            return Err(Refusal::invalid("too_long", json!(["body", "extract"]), message, Value::Null));
        }
        let sort = match search.sort_by {
            Some(SortBy::ThreadId) => ThreadSort::ThreadId,
            Some(SortBy::CreatedAt) => ThreadSort::CreatedAt,
            // Among threads of one status, the last use decides.
            Some(SortBy::UpdatedAt | SortBy::StateUpdatedAt | SortBy::Status) | None => ThreadSort::UpdatedAt,
        };
        let query = ThreadQuery {
            filter: ThreadFilter {
                metadata: checked(search.metadata)?,
                status: stored_status(search.status),
                ids: search.ids,
            },
            pinned_by: Some(PINNED.to_owned()),
            sort,
            ascending: search.ascending,
            limit: search.limit,
            offset: search.offset,
        };
        let rows = match search.values.filter(|values| !values.is_empty()) {
            None => self.store.search_threads(user, query).await?,
            Some(values) => {
                let all = matching(self, user, &query, &values).await?;
                all.into_iter().skip(query.offset as usize).take(query.limit as usize).collect()
            }
        };
        let mut threads = Vec::with_capacity(rows.len());
        for row in rows {
            let extracted = if paths.is_empty() { None } else { Some(self.extract(&row, &paths).await?) };
            threads.push(Thread { extracted, ..Thread::listed(row) });
        }
        Ok(threads)
    }

    /// How many threads of a user a filter leaves.
    ///
    /// # Errors
    /// For a filter that cannot be used.
    pub async fn count_threads(
        &self,
        user: &UserId,
        metadata: Option<JsonMap>,
        status: Option<String>,
        values: Option<JsonMap>,
    ) -> Result<u64, Refusal> {
        let filter = ThreadFilter { metadata: checked(metadata)?, status: stored_status(status), ids: None };
        match values.filter(|values| !values.is_empty()) {
            None => Ok(self.store.count_threads(user, filter).await?),
            Some(values) => {
                let query = ThreadQuery { filter, ..ThreadQuery::default() };
                Ok(matching(self, user, &query, &values).await?.len() as u64)
            }
        }
    }

    async fn extract(&self, row: &ThreadRow, paths: &IndexMap<String, ExtractPath>) -> Result<JsonMap, Refusal> {
        let head = if paths.values().any(|path| path.is_in("values") || path.is_in("interrupts")) {
            self.store.load(&Lineage::root(row.thread_id.clone()), None).await?
        } else {
            None
        };
        let whole = json!(Thread::with_state(row.clone(), head.as_ref()));
        Ok(paths.iter().map(|(alias, path)| (alias.clone(), path.find(&whole))).collect())
    }
}
