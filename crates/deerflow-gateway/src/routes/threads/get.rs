//! Shows a thread.

use super::ThreadPath;
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Path;
use crate::wire::Thread;
use axum::Json;
use axum::extract::State;

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
    Ok(Json(app.service.thread(&caller.user_id, &thread_id).await?))
}
