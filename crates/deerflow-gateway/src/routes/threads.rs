//! Threads: conversations and their state.

mod branches;
mod by_values;
mod compact;
mod copy;
mod count;
mod create;
mod delete;
mod edit;
mod filter;
mod get;
mod goal;
mod history;
mod patch;
mod prune;
mod search;
mod state;

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use deerflow_core::ports::{RunFilter, RunRepo as _, ThreadRepo as _, ThreadRow};
use deerflow_core::{JsonMap, RunStatus, ThreadId};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(create::create))
        .routes(routes!(search::search))
        .routes(routes!(count::count))
        .routes(routes!(prune::prune))
        .routes(routes!(get::get, patch::patch, delete::delete))
        .routes(routes!(state::get, edit::update, edit::patch))
        .routes(routes!(state::at_checkpoint))
        .routes(routes!(state::at_id))
        .routes(routes!(history::history))
        .routes(routes!(copy::copy))
        .routes(routes!(branches::branch))
        .routes(routes!(goal::get, goal::put, goal::delete))
        .routes(routes!(compact::compact))
}

/// The thread in the path.
#[derive(Debug, Deserialize, IntoParams)]
pub(super) struct ThreadPath {
    /// Id of a thread.
    #[param(value_type = String, pattern = "^[A-Za-z0-9_-]{1,64}$", example = "my-thread")]
    pub(super) thread_id: ThreadId,
}

/// The caller's thread; 404 for one that is not there and for somebody else's alike.
pub(super) async fn own_thread(app: &AppState, caller: &Caller, id: &ThreadId) -> Result<ThreadRow, ApiError> {
    app.store.thread(&caller.user_id, id).await?.ok_or_else(|| ApiError::no_thread(id))
}

/// Refuses a thread of somebody else; one that is not there is let pass, since files come before the thread is made.
pub(super) async fn not_foreign(app: &AppState, caller: &Caller, id: &ThreadId) -> Result<(), ApiError> {
    if app.store.is_foreign(&caller.user_id, id).await? { Err(ApiError::no_thread(id)) } else { Ok(()) }
}

/// Whether a run of the thread is live.
pub(super) async fn is_busy(app: &AppState, caller: &Caller, id: &ThreadId) -> Result<bool, ApiError> {
    let filter = RunFilter {
        thread_id: Some(id.clone()),
        status: vec![RunStatus::Pending, RunStatus::Running],
        ..RunFilter::default()
    };
    Ok(!app.store.runs(&caller.user_id, filter).await?.is_empty())
}

/// Metadata that clients cannot set.
const RESERVED: [&str; 2] = ["owner_id", "user_id"];

/// Metadata without what clients cannot set.
fn settable(metadata: Option<JsonMap>) -> JsonMap {
    let mut metadata = metadata.unwrap_or_default();
    metadata.retain(|key, _| !RESERVED.contains(&key.as_str()));
    metadata
}

/// What is told of a file that is not there. Files may come before their thread does; where neither is, nothing tells it from
/// somebody else's.
pub(super) async fn no_file(app: &AppState, caller: &Caller, id: &ThreadId, detail: String) -> ApiError {
    match app.store.thread(&caller.user_id, id).await {
        Ok(Some(_)) => ApiError::not_found(detail),
        Ok(None) => ApiError::no_thread(id),
        Err(error) => error.into(),
    }
}
