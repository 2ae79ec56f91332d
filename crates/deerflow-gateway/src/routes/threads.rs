//! Threads: conversations and their state.

mod branches;
mod compact;
mod copy;
mod count;
mod create;
mod delete;
mod edit;
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
use deerflow_core::ThreadId;
use deerflow_core::ports::ThreadRow;
use deerflow_service::settable;
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
    Ok(app.service.own_thread(&caller.user_id, id).await?)
}

/// Refuses a thread of somebody else; one that is not there is let pass, since files come before the thread is made.
pub(super) async fn not_foreign(app: &AppState, caller: &Caller, id: &ThreadId) -> Result<(), ApiError> {
    Ok(app.service.not_foreign(&caller.user_id, id).await?)
}

/// Whether a run of the thread is live.
pub(super) async fn is_busy(app: &AppState, caller: &Caller, id: &ThreadId) -> Result<bool, ApiError> {
    Ok(app.service.is_busy(&caller.user_id, id).await?)
}
