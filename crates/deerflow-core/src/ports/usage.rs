//! What runs used, counted where the model calls are journalled: a run that lives, or died, is counted up to its last step.

use crate::{RunId, StoreError, ThreadId, UserId};
use async_trait::async_trait;
use std::collections::BTreeMap;

/// Tokens of one model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelUsage {
    /// Prompt tokens, cached ones included.
    pub input_tokens: u64,
    /// Completion tokens.
    pub output_tokens: u64,
    /// Both.
    pub total_tokens: u64,
    /// Prompt tokens that the provider had in its cache.
    pub cache_read_tokens: u64,
    /// Calls of the model; 0 for runs from before calls were counted.
    pub calls: u64,
    /// Runs that asked it.
    pub runs: u64,
}

/// Tokens by who asked the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallerUsage {
    /// The agent itself.
    pub lead_agent: u64,
    /// Its sub-agents.
    pub subagent: u64,
    /// Middlewares: titles, summaries, judgements.
    pub middleware: u64,
}

/// What one run used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunUsage {
    /// By model name, as configured. In it `runs` is 1.
    pub by_model: BTreeMap<String, ModelUsage>,
    /// By caller.
    pub by_caller: CallerUsage,
    /// Rows of the `message` category that it wrote.
    pub message_count: u64,
}

/// What the runs of a thread used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadUsage {
    /// Runs counted: those that ended with `success` or `error`, and live ones when they were asked for.
    pub total_runs: u64,
    /// By model name, as configured.
    pub by_model: BTreeMap<String, ModelUsage>,
    /// By caller.
    pub by_caller: CallerUsage,
}

/// A user's runs and threads, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConsoleStats {
    /// All runs.
    pub total_runs: u64,
    /// Those that have not ended.
    pub active_runs: u64,
    /// Those that ended with `error` or `timeout`.
    pub failed_runs: u64,
    /// All threads.
    pub total_threads: u64,
    /// Tokens by model name, as configured.
    pub by_model: BTreeMap<String, ModelUsage>,
}

/// A day of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DayUsage {
    /// Days since 1970 in the time zone that was asked for.
    pub day: i64,
    /// Runs that began on it.
    pub runs: u64,
    /// Tokens of these runs by model name, as configured.
    pub by_model: BTreeMap<String, ModelUsage>,
}

/// Sums over runs. Every method takes the user: one user's tokens are no other's.
#[async_trait]
pub trait UsageRepo: Send + Sync {
    /// What each of these runs used; those that are not the user's are left out.
    ///
    /// # Errors
    /// When the database fails.
    async fn run_usage(&self, user_id: &UserId, run_ids: &[RunId]) -> Result<BTreeMap<RunId, RunUsage>, StoreError>;

    /// What the runs of a thread used. An unknown thread used nothing.
    ///
    /// # Errors
    /// When the database fails.
    async fn thread_usage(
        &self,
        user_id: &UserId,
        thread_id: &ThreadId,
        include_active: bool,
    ) -> Result<ThreadUsage, StoreError>;

    /// Counts of a user.
    ///
    /// # Errors
    /// When the database fails.
    async fn console_stats(&self, user_id: &UserId) -> Result<ConsoleStats, StoreError>;

    /// Days of a user with runs that began at `since` (microseconds since 1970, UTC) or later, in order. Days begin at
    /// midnight of a time zone that is `offset_minutes` ahead of UTC.
    ///
    /// # Errors
    /// When the database fails.
    async fn usage_by_day(
        &self,
        user_id: &UserId,
        since: i64,
        offset_minutes: i32,
    ) -> Result<Vec<DayUsage>, StoreError>;
}
