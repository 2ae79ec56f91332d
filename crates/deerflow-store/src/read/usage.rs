//! Sums over runs.

use crate::error::Place;
use crate::names::{id, unsigned};
use deerflow_core::ports::{CallerUsage, ConsoleStats, DayUsage, ModelUsage, RunUsage, ThreadUsage};
use deerflow_core::{RunId, StoreError, ThreadId, UserId};
use sqlx::{FromRow, Row as _, SqliteConnection};
use std::collections::{BTreeMap, BTreeSet};

const DAY_MICROS: i64 = 86_400_000_000;
const MINUTE_MICROS: i64 = 60_000_000;

/// Tokens of one run, one model and one caller.
#[derive(FromRow)]
struct RawUsage {
    run_id: String,
    created_at: i64,
    model: Option<String>,
    caller: Option<String>,
    calls: i64,
    input_tokens: i64,
    output_tokens: i64,
    total_tokens: i64,
    cache_read: i64,
}

impl RawUsage {
    /// Adds it to what its model used. A run counts once for a model, however many callers asked it.
    fn add(
        &self,
        by_model: &mut BTreeMap<String, ModelUsage>,
        seen: &mut BTreeSet<(String, String)>,
    ) -> Result<(), StoreError> {
        // A run without a model call has one row with nothing in it.
        let Some(model) = &self.model else { return Ok(()) };
        let sum = by_model.entry(model.clone()).or_default();
        for (sum, count) in [
            (&mut sum.input_tokens, self.input_tokens),
            (&mut sum.output_tokens, self.output_tokens),
            (&mut sum.total_tokens, self.total_tokens),
            (&mut sum.cache_read_tokens, self.cache_read),
            (&mut sum.calls, self.calls),
        ] {
            *sum = sum.saturating_add(unsigned(count)?);
        }
        sum.runs += u64::from(seen.insert((self.run_id.clone(), model.clone())));
        Ok(())
    }

    fn add_caller(&self, by_caller: &mut CallerUsage) -> Result<(), StoreError> {
        let sum = match self.caller.as_deref().unwrap_or_default() {
            caller if caller.starts_with("middleware:") => &mut by_caller.middleware,
            caller if caller.starts_with("subagent:") => &mut by_caller.subagent,
            _ => &mut by_caller.lead_agent,
        };
        *sum = sum.saturating_add(unsigned(self.total_tokens)?);
        Ok(())
    }
}

macro_rules! usage {
    ($rest:literal) => {
        concat!(
            "SELECT r.run_id, r.created_at, u.model, u.caller, COALESCE(u.calls, 0) AS calls,
                    COALESCE(u.input_tokens, 0) AS input_tokens, COALESCE(u.output_tokens, 0) AS output_tokens,
                    COALESCE(u.total_tokens, 0) AS total_tokens, COALESCE(u.cache_read, 0) AS cache_read
                FROM runs r JOIN threads t ON t.thread_key = r.thread_key
                LEFT JOIN run_usage u ON u.thread_key = r.thread_key AND u.run_id = r.run_id ",
            $rest
        )
    };
}
const OF_RUNS: &str =
    usage!("WHERE r.user_id = $1 AND t.user_id = $1 AND r.run_id IN (SELECT value FROM json_each($2))");
const OF_THREAD: &str = usage!(
    "WHERE t.user_id = $1 AND t.thread_id = $2
        AND (r.status IN ('success', 'error') OR ($3 AND r.status IN ('pending', 'running')))"
);
const OF_USER: &str = usage!("WHERE r.user_id = $1 AND t.user_id = $1 AND r.created_at >= $2 ORDER BY r.created_at");
const MESSAGES: &str = "
    SELECT r.run_id, (SELECT count(*) FROM events e WHERE e.thread_key = r.thread_key AND e.seq > r.first_seq
            AND e.seq <= COALESCE(r.last_seq, t.last_seq) AND e.run_id = r.run_id AND e.category = 'message')
        FROM runs r JOIN threads t ON t.thread_key = r.thread_key
        WHERE r.user_id = $1 AND t.user_id = $1 AND r.run_id IN (SELECT value FROM json_each($2))";

pub(crate) async fn run_usage(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    run_ids: &[RunId],
) -> Result<BTreeMap<RunId, RunUsage>, StoreError> {
    let explain = |error: sqlx::Error| place.explain(&error);
    let list = serde_json::json!(run_ids).to_string();
    let mut found: BTreeMap<RunId, RunUsage> = BTreeMap::new();
    let query = sqlx::query(MESSAGES).bind(user_id.as_str().to_owned()).bind(list.clone());
    for row in query.fetch_all(&mut *view).await.map_err(explain)? {
        let usage = found.entry(id(row.try_get(0).map_err(explain)?)?).or_default();
        usage.message_count = unsigned(row.try_get(1).map_err(explain)?)?;
    }
    let query = sqlx::query_as::<_, RawUsage>(OF_RUNS).bind(user_id.as_str().to_owned()).bind(list);
    let mut seen = BTreeSet::new();
    for row in query.fetch_all(view).await.map_err(explain)? {
        let usage = found.entry(id(row.run_id.clone())?).or_default();
        row.add(&mut usage.by_model, &mut seen)?;
        row.add_caller(&mut usage.by_caller)?;
    }
    Ok(found)
}

pub(crate) async fn thread_usage(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    thread_id: &ThreadId,
    include_active: bool,
) -> Result<ThreadUsage, StoreError> {
    let rows = sqlx::query_as::<_, RawUsage>(OF_THREAD)
        .bind(user_id.as_str().to_owned())
        .bind(thread_id.as_str().to_owned())
        .bind(include_active)
        .fetch_all(view)
        .await
        .map_err(|error| place.explain(&error))?;
    let (mut usage, mut runs, mut seen) = (ThreadUsage::default(), BTreeSet::new(), BTreeSet::new());
    for row in &rows {
        usage.total_runs += u64::from(runs.insert(row.run_id.as_str()));
        row.add(&mut usage.by_model, &mut seen)?;
        row.add_caller(&mut usage.by_caller)?;
    }
    Ok(usage)
}

const STATS: &str = "
    SELECT count(*), count(*) FILTER (WHERE r.status IN ('queued', 'pending', 'running')),
            count(*) FILTER (WHERE r.status IN ('error', 'timeout')),
            (SELECT count(*) FROM threads WHERE user_id = $1)
        FROM runs r WHERE r.user_id = $1";
/// Summed by the database: a user may have many runs.
const BY_MODEL: &str = "
    SELECT '' AS run_id, 0 AS created_at, u.model, NULL AS caller, sum(u.calls) AS calls,
            sum(u.input_tokens) AS input_tokens, sum(u.output_tokens) AS output_tokens,
            sum(u.total_tokens) AS total_tokens, sum(u.cache_read) AS cache_read, count(DISTINCT r.run_id) AS runs
        FROM threads t JOIN runs r ON r.thread_key = t.thread_key
        JOIN run_usage u ON u.thread_key = r.thread_key AND u.run_id = r.run_id
        WHERE t.user_id = $1 GROUP BY u.model";

pub(crate) async fn console_stats(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
) -> Result<ConsoleStats, StoreError> {
    let explain = |error: sqlx::Error| place.explain(&error);
    let row = sqlx::query(STATS).bind(user_id.as_str().to_owned()).fetch_one(&mut *view).await.map_err(explain)?;
    let count = |column: usize| unsigned(row.try_get::<i64, _>(column).map_err(explain)?);
    let mut stats = ConsoleStats {
        total_runs: count(0)?,
        active_runs: count(1)?,
        failed_runs: count(2)?,
        total_threads: count(3)?,
        by_model: BTreeMap::new(),
    };
    let query = sqlx::query(BY_MODEL).bind(user_id.as_str().to_owned());
    for row in query.fetch_all(view).await.map_err(explain)? {
        let usage = RawUsage::from_row(&row).map_err(explain)?;
        usage.add(&mut stats.by_model, &mut BTreeSet::new())?;
        if let Some(sum) = usage.model.and_then(|model| stats.by_model.get_mut(&model)) {
            sum.runs = unsigned(row.try_get("runs").map_err(explain)?)?;
        }
    }
    Ok(stats)
}

pub(crate) async fn usage_by_day(
    view: &mut SqliteConnection,
    place: &Place,
    user_id: &UserId,
    since: i64,
    offset_minutes: i32,
) -> Result<Vec<DayUsage>, StoreError> {
    let query = sqlx::query_as::<_, RawUsage>(OF_USER).bind(user_id.as_str().to_owned()).bind(since);
    let rows = query.fetch_all(view).await.map_err(|error| place.explain(&error))?;
    let mut days: BTreeMap<i64, DayUsage> = BTreeMap::new();
    let (mut runs, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for row in &rows {
        let local = row.created_at.saturating_add(i64::from(offset_minutes) * MINUTE_MICROS);
        let day = local.div_euclid(DAY_MICROS);
        let usage = days.entry(day).or_insert_with(|| DayUsage { day, ..DayUsage::default() });
        usage.runs += u64::from(runs.insert(row.run_id.as_str()));
        row.add(&mut usage.by_model, &mut seen)?;
    }
    Ok(days.into_values().collect())
}
