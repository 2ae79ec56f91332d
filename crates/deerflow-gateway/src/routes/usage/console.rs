//! A user's runs and tokens at a glance.

use super::prices;
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Bounded, Query};
use crate::wire::{Run, iso};
use axum::Json;
use axum::extract::State;
use deerflow_core::RunStatus;
use deerflow_core::ports::{
    ModelUsage, RunFilter, RunRepo as _, ThreadFilter, ThreadQuery, ThreadRepo as _, UsageRepo as _,
};
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use utoipa::{IntoParams, ToSchema};

const DAY: i64 = 24 * 3600 * 1_000_000;

/// Counts of a user.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConsoleStats)]
pub(super) struct Stats {
    total_runs: u64,
    active_runs: u64,
    failed_runs: u64,
    total_threads: u64,
    total_agents: u64,
    total_tokens: u64,
    /// `null` when a model that was used has no price.
    total_cost: Option<f64>,
    currency: Option<String>,
}

/// Count runs, threads and tokens
#[utoipa::path(get, path = "/console/stats", tag = "usage", responses((status = 200, body = Stats)))]
pub(super) async fn stats(caller: Caller, State(app): State<AppState>) -> Result<Json<Stats>, ApiError> {
    let stats = app.store.console_stats(&caller.user_id).await?;
    let cost = prices::of_all(&app, &stats.by_model);
    Ok(Json(Stats {
        total_runs: stats.total_runs,
        active_runs: stats.active_runs,
        failed_runs: stats.failed_runs,
        total_threads: stats.total_threads,
        total_agents: crate::routes::agents::count(&app, &caller).await?,
        total_tokens: stats.by_model.values().map(|model| model.total_tokens).sum(),
        total_cost: cost.as_ref().map(deerflow_models::Cost::amount),
        currency: cost.map(|cost| cost.currency().to_owned()),
    }))
}

/// Which runs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(default)]
pub(super) struct Listing {
    /// At most this many.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 100)]
    limit: Bounded<1, 100>,
    /// After this many.
    #[param(value_type = Option<u32>, minimum = 0)]
    offset: Bounded<0, { u32::MAX as i64 }>,
    /// `pending`, `running`, `success`, `error`, `timeout` or `interrupted`.
    status: Option<String>,
}

impl Default for Listing {
    fn default() -> Self {
        Self { limit: Bounded::new(20), offset: Bounded::new(0), status: None }
    }
}

/// A page of runs.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Runs {
    runs: Vec<Listed>,
    has_more: bool,
}

/// A run in a list of all threads.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ListedRun)]
struct Listed {
    run_id: String,
    thread_id: String,
    thread_title: Option<String>,
    assistant_id: String,
    status: String,
    model_name: Option<String>,
    created_at: String,
    updated_at: String,
    duration_seconds: f64,
    total_tokens: u64,
    message_count: u64,
    cost: Option<f64>,
    error: Option<String>,
}

/// List the runs of all threads
///
/// Newest first.
#[utoipa::path(get, path = "/console/runs", tag = "usage", params(Listing), responses((status = 200, body = Runs)))]
pub(super) async fn runs(
    caller: Caller,
    State(app): State<AppState>,
    Query(listing): Query<Listing>,
) -> Result<Json<Runs>, ApiError> {
    let limit = listing.limit.get();
    let status = match &listing.status {
        None => Vec::new(),
        Some(name) => match RunStatus::from_wire(name) {
            Some(status) => vec![status],
            None => return Ok(Json(Runs { runs: Vec::new(), has_more: false })),
        },
    };
    let filter = RunFilter { status, limit: limit + 1, offset: listing.offset.get(), ..RunFilter::default() };
    let mut rows = app.store.runs(&caller.user_id, filter).await?;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let ids: Vec<_> = rows.iter().map(|row| row.run_id.clone()).collect();
    let used = app.store.run_usage(&caller.user_id, &ids).await?;
    let threads = rows.iter().map(|row| row.thread_id.clone()).collect();
    let filter = ThreadFilter { ids: Some(threads), ..ThreadFilter::default() };
    let threads = app.store.search_threads(&caller.user_id, ThreadQuery { filter, ..ThreadQuery::default() }).await?;
    let titles: HashMap<_, _> = threads.into_iter().map(|row| (row.thread_id, row.title)).collect();
    let listed = rows.into_iter().map(|row| {
        let used = used.get(&row.run_id);
        let title = titles.get(&row.thread_id).cloned().flatten();
        let error = row.error.clone();
        #[expect(clippy::cast_precision_loss, reason = "seconds to look at")]
        let duration_seconds = ((row.updated_at - row.created_at).max(0) / 1000) as f64 / 1000.0;
        let named = row.options.get("model").and_then(|model| model.as_str()).map(str::to_owned);
        let (created_at, updated_at) = (iso(row.created_at), iso(row.updated_at));
        let run = Run::of(row, used);
        Listed {
            thread_title: title,
            assistant_id: run.assistant_id,
            status: run.status,
            model_name: used.and_then(|used| used.by_model.keys().next().cloned()).or(named),
            created_at,
            updated_at,
            duration_seconds,
            total_tokens: run.total_tokens,
            message_count: run.message_count,
            cost: used.and_then(|used| prices::of_all(&app, &used.by_model)).map(|cost| cost.amount()),
            error,
            run_id: run.run_id,
            thread_id: run.thread_id,
        }
    });
    Ok(Json(Runs { runs: listed.collect(), has_more }))
}

/// Which days.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(default)]
pub(super) struct Days {
    /// As many days, today included.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 90)]
    days: Bounded<1, 90>,
    /// Minutes by which the days' time zone is ahead of UTC.
    #[param(value_type = Option<i32>, minimum = -840, maximum = 840)]
    tz_offset_minutes: Bounded<-840, 840>,
}

impl Default for Days {
    fn default() -> Self {
        Self { days: Bounded::new(14), tz_offset_minutes: Bounded::new(0) }
    }
}

/// Tokens by day and by model.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Usage {
    days: Vec<Day>,
    by_model: BTreeMap<String, OfModel>,
    total_tokens: u64,
    total_runs: u64,
    total_cost: Option<f64>,
    currency: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Day {
    /// `2026-04-27`
    date: String,
    total_tokens: u64,
    input_tokens: u64,
    output_tokens: u64,
    runs: u64,
    cost: Option<f64>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConsoleModel)]
struct OfModel {
    tokens: u64,
    runs: u64,
    cost: Option<f64>,
    input_tokens: u64,
    cache_read_tokens: u64,
}

/// Show tokens by day
///
/// Days without runs are zeros.
#[utoipa::path(get, path = "/console/usage", tag = "usage", params(Days), responses((status = 200, body = Usage)))]
pub(super) async fn usage(
    caller: Caller,
    State(app): State<AppState>,
    Query(days): Query<Days>,
) -> Result<Json<Usage>, ApiError> {
    let offset = days.tz_offset_minutes.signed();
    let now = jiff::Timestamp::now().as_microsecond() + i64::from(offset) * 60_000_000;
    let today = now.div_euclid(DAY);
    let first = today - i64::from(days.days.get()) + 1;
    let since = first * DAY - i64::from(offset) * 60_000_000;
    let found = app.store.usage_by_day(&caller.user_id, since, offset).await?;
    let mut by_day: BTreeMap<i64, _> = found.into_iter().map(|day| (day.day, day)).collect();
    let mut all: BTreeMap<String, ModelUsage> = BTreeMap::new();
    let mut list = Vec::new();
    for day in first..=today {
        let used = by_day.remove(&day).unwrap_or_default();
        let sum = |part: fn(&ModelUsage) -> u64| used.by_model.values().map(part).sum();
        list.push(Day {
            date: date(day),
            total_tokens: sum(|model| model.total_tokens),
            input_tokens: sum(|model| model.input_tokens),
            output_tokens: sum(|model| model.output_tokens),
            runs: used.runs,
            cost: prices::of_all(&app, &used.by_model).map(|cost| cost.amount()),
        });
        for (name, model) in used.by_model {
            let total = all.entry(name).or_default();
            total.input_tokens += model.input_tokens;
            total.output_tokens += model.output_tokens;
            total.total_tokens += model.total_tokens;
            total.cache_read_tokens += model.cache_read_tokens;
            total.calls += model.calls;
            total.runs += model.runs;
        }
    }
    let cost = prices::of_all(&app, &all);
    let by_model = all.iter().map(|(name, used)| {
        let cost = prices::of_model(&app, name, used).map(|cost| cost.amount());
        let (input_tokens, cache_read_tokens) = (used.input_tokens, used.cache_read_tokens);
        (name.clone(), OfModel { tokens: used.total_tokens, runs: used.runs, cost, input_tokens, cache_read_tokens })
    });
    Ok(Json(Usage {
        by_model: by_model.collect(),
        total_tokens: list.iter().map(|day| day.total_tokens).sum(),
        total_runs: list.iter().map(|day| day.runs).sum(),
        total_cost: cost.as_ref().map(deerflow_models::Cost::amount),
        currency: cost.map(|cost| cost.currency().to_owned()),
        days: list,
    }))
}

/// A day counted from 1970, as `2026-04-27`.
fn date(day: i64) -> String {
    let epoch = Date::constant(1970, 1, 1);
    epoch.checked_add(jiff::Span::new().days(day)).map(|date| date.to_string()).unwrap_or_default()
}
