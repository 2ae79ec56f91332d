//! What happened in a thread, row by row: messages as the web client shows them, and the events of a run.

mod hiding;
mod rows;

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Bounded, Path, Query};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use deerflow_core::ports::{EventRepo as _, JournalQuery, JournalRow, RunRepo as _, ThreadRepo as _};
use deerflow_core::{RunId, ThreadId};
use hiding::Hidden;
use rows::{Dressing, EventRow};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

/// Rows read at a time when some of them are not shown.
const PAGE: u32 = 200;

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(page))
        .routes(routes!(messages))
        .routes(routes!(run_messages))
        .routes(routes!(any_run_messages))
        .routes(routes!(events))
}

#[derive(Debug, Deserialize, IntoParams)]
struct InThread {
    /// The thread.
    #[param(value_type = String)]
    thread_id: ThreadId,
}

#[derive(Debug, Deserialize, IntoParams)]
struct OfThread {
    /// The thread.
    #[param(value_type = String)]
    thread_id: ThreadId,
    /// The run.
    #[param(value_type = String)]
    run_id: RunId,
}

#[derive(Debug, Deserialize, IntoParams)]
struct One {
    /// The run.
    #[param(value_type = String)]
    run_id: RunId,
}

/// Which rows.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(default)]
struct Window {
    /// At most this many.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Bounded<1, 200>,
    /// Rows before this one.
    #[param(value_type = Option<u64>, minimum = 1)]
    before_seq: Option<Bounded<1, { i64::MAX }>>,
    /// Rows after this one.
    #[param(value_type = Option<u64>, minimum = 0)]
    after_seq: Option<Bounded<0, { i64::MAX }>>,
}

impl Default for Window {
    fn default() -> Self {
        Self { limit: Bounded::new(50), before_seq: None, after_seq: None }
    }
}

/// Rows, oldest first, and whether there are more before them.
#[derive(Debug, Serialize, ToSchema)]
struct Page {
    data: Vec<EventRow>,
    has_more: bool,
    /// Where the page before this one ends.
    next_before_seq: Option<u64>,
}

/// Rows, oldest first.
#[derive(Debug, Serialize, ToSchema)]
struct Rows {
    data: Vec<EventRow>,
    has_more: bool,
}

/// Show the newest messages of a thread
///
/// Oldest first; earlier ones with `before_seq`. Turns that were answered again are left out.
#[utoipa::path(get, path = "/threads/{thread_id}/messages/page", tag = "messages", params(InThread, Window),
    responses((status = 200, body = Page), (status = 404, description = "No such thread"), (status = 422)))]
async fn page(
    caller: Caller,
    State(app): State<AppState>,
    Path(InThread { thread_id }): Path<InThread>,
    Query(window): Query<Window>,
) -> Result<Json<Page>, ApiError> {
    if window.after_seq.is_some() {
        let detail = "after_seq is not supported by this route; use before_seq";
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
    }
    let (data, has_more) = shown(&app, &caller, &thread_id, None, &window, true).await?;
    let next_before_seq = data.first().map(|row| row.seq).filter(|_| has_more);
    Ok(Json(Page { data, has_more, next_before_seq }))
}

/// Show messages of a thread
///
/// The newest, the ones before `before_seq`, or the ones after `after_seq`; oldest first.
#[utoipa::path(get, path = "/threads/{thread_id}/messages", tag = "messages", params(InThread, Window),
    responses((status = 200, body = Vec<EventRow>), (status = 404, description = "No such thread")))]
async fn messages(
    caller: Caller,
    State(app): State<AppState>,
    Path(InThread { thread_id }): Path<InThread>,
    Query(window): Query<Window>,
) -> Result<Json<Vec<EventRow>>, ApiError> {
    Ok(Json(shown(&app, &caller, &thread_id, None, &window, false).await?.0))
}

/// Show the messages of a run
#[utoipa::path(get, path = "/threads/{thread_id}/runs/{run_id}/messages", tag = "messages", params(OfThread, Window),
    responses((status = 200, body = Rows), (status = 404, description = "No such thread")))]
async fn run_messages(
    caller: Caller,
    State(app): State<AppState>,
    Path(OfThread { thread_id, run_id }): Path<OfThread>,
    Query(window): Query<Window>,
) -> Result<Json<Rows>, ApiError> {
    let (data, has_more) = shown(&app, &caller, &thread_id, Some(&run_id), &window, false).await?;
    Ok(Json(Rows { data, has_more }))
}

/// Show the messages of a run by its id alone
#[utoipa::path(get, path = "/runs/{run_id}/messages", tag = "messages", params(One, Window),
    responses((status = 200, body = Rows), (status = 404, description = "No such run")))]
async fn any_run_messages(
    caller: Caller,
    State(app): State<AppState>,
    Path(One { run_id }): Path<One>,
    Query(window): Query<Window>,
) -> Result<Json<Rows>, ApiError> {
    let row = app.store.run(&run_id).await?.filter(|row| row.user_id == caller.user_id);
    let row = row.ok_or_else(|| ApiError::not_found(format!("Run {run_id} not found")))?;
    let (data, has_more) = shown(&app, &caller, &row.thread_id, Some(&run_id), &window, false).await?;
    Ok(Json(Rows { data, has_more }))
}

/// Message rows of a window that people are shown, oldest first, and whether there are more in its direction.
async fn shown(
    app: &AppState,
    caller: &Caller,
    thread_id: &ThreadId,
    run_id: Option<&RunId>,
    window: &Window,
    for_people: bool,
) -> Result<(Vec<EventRow>, bool), ApiError> {
    if app.store.thread(&caller.user_id, thread_id).await?.is_none() {
        return Err(ApiError::no_thread(thread_id));
    }
    let limit = window.limit.get() as usize;
    let newest_first = window.after_seq.is_none();
    let dressing = Dressing::of(app, caller, thread_id).await?;
    // A run that was asked for by name is shown whatever came after it.
    let hidden = if run_id.is_none() { Hidden::among(&dressing.runs) } else { Hidden::default() };
    let mut query = JournalQuery {
        run_id: run_id.cloned(),
        after_seq: window.after_seq.map(|seq| seq.wide()),
        before_seq: window.before_seq.map(|seq| seq.wide()),
        category: Some("message".to_owned()),
        newest_first,
        limit: PAGE,
        ..JournalQuery::default()
    };
    let mut found: Vec<JournalRow> = Vec::new();
    loop {
        let rows = app.store.journal_page(&caller.user_id, thread_id, query.clone()).await?;
        let (count, last) = (rows.len(), rows.last().map(|row| row.seq));
        found.extend(rows.into_iter().filter(|row| {
            let unshown = for_people && hiding::is_machinery(row);
            !(unshown || hidden.hides(row) || hiding::is_superseded(row))
        }));
        if found.len() > limit || count < PAGE as usize {
            break;
        }
        if newest_first { query.before_seq = last } else { query.after_seq = last }
    }
    let has_more = found.len() > limit;
    found.truncate(limit);
    if newest_first {
        found.reverse();
    }
    Ok((dressing.dress(found), has_more))
}

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(default)]
struct Events {
    /// Types, separated by commas; all of them when absent.
    event_types: Option<String>,
    /// Of this sub-agent's task.
    task_id: Option<String>,
    /// At most this many.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 2000)]
    limit: Bounded<1, 2000>,
    /// Events after this one.
    #[param(value_type = Option<u64>, minimum = 0)]
    after_seq: Option<Bounded<0, { i64::MAX }>>,
}

impl Default for Events {
    fn default() -> Self {
        Self { event_types: None, task_id: None, limit: Bounded::new(500), after_seq: None }
    }
}

/// Show the events of a run
///
/// In order; the next page with `after_seq`.
#[utoipa::path(get, path = "/threads/{thread_id}/runs/{run_id}/events", tag = "messages", params(OfThread, Events),
    responses((status = 200, body = Vec<EventRow>), (status = 404, description = "No such thread")))]
async fn events(
    caller: Caller,
    State(app): State<AppState>,
    Path(OfThread { thread_id, run_id }): Path<OfThread>,
    Query(events): Query<Events>,
) -> Result<Json<Vec<EventRow>>, ApiError> {
    if app.store.thread(&caller.user_id, &thread_id).await?.is_none() {
        return Err(ApiError::no_thread(&thread_id));
    }
    let types = events.event_types.unwrap_or_default();
    let query = JournalQuery {
        run_id: Some(run_id),
        after_seq: events.after_seq.map(|seq| seq.wide()),
        events: types.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        task_id: events.task_id,
        limit: events.limit.get(),
        ..JournalQuery::default()
    };
    let rows = app.store.journal_page(&caller.user_id, &thread_id, query).await?;
    Ok(Json(rows.into_iter().map(|row| EventRow::plain(&caller, &thread_id, row)).collect()))
}
