//! Shows a thread.

use super::{ThreadPath, own_thread};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Path;
use crate::wire::Thread;
use axum::Json;
use axum::extract::State;
use deerflow_core::Lineage;
use deerflow_core::ports::StepLog as _;

/// Show a thread
///
/// With its whole state.
#[utoipa::path(get, path = "/threads/{thread_id}", tag = "threads", params(ThreadPath),
    responses((status = 200, body = Thread), (status = 404, description = "There is no such thread")))]
pub(super) async fn get(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
) -> Result<Json<Thread>, ApiError> {
    let row = own_thread(&app, &caller, &thread_id).await?;
    let head = app.store.load(&Lineage::root(thread_id), None).await?;
    Ok(Json(Thread::with_state(row, head.as_ref())))
}
