//! Copies threads.

use super::{ThreadPath, own_thread};
use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::Path;
use crate::wire::Thread;
use axum::Json;
use axum::extract::State;
use deerflow_core::ports::{StepLog as _, ThreadFork, ThreadRepo as _, ThreadRow};
use deerflow_core::{Lineage, ThreadId};
use deerflow_sandbox::ThreadPaths;

/// Copy a thread
///
/// With its history and its files. Runs and the journal stay with the original.
#[utoipa::path(post, path = "/threads/{thread_id}/copy", tag = "threads", params(ThreadPath),
    responses((status = 200, body = Thread), (status = 404, description = "There is no such thread")))]
pub(super) async fn copy(
    caller: Caller,
    State(app): State<AppState>,
    Path(ThreadPath { thread_id }): Path<ThreadPath>,
) -> Result<Json<Thread>, ApiError> {
    let original = own_thread(&app, &caller, &thread_id).await?;
    let new = ThreadId::random();
    if let Err(error) = copy_files(&app, &caller, &thread_id, &new).await {
        return Err(ApiError::internal(&error));
    }
    let fork = ThreadFork { from: thread_id, at: None, new_thread_id: new.clone(), metadata: original.metadata };
    let row = forked(&app, &caller, fork).await?;
    let head = app.store.load(&Lineage::root(new), None).await?;
    Ok(Json(Thread::with_state(row, head.as_ref())))
}

/// Makes the fork; files that were copied for it go again when that fails.
pub(super) async fn forked(app: &AppState, caller: &Caller, fork: ThreadFork) -> Result<ThreadRow, ApiError> {
    let new = fork.new_thread_id.clone();
    match app.store.fork_thread(&caller.user_id, fork).await {
        Ok(row) => Ok(row),
        Err(error) => {
            if let Ok(paths) = paths(app, caller, &new) {
                // What cannot be removed is a copy that no thread leads to.
                let _ = tokio::task::spawn_blocking(move || paths.remove_all()).await;
            }
            Err(error.into())
        }
    }
}

/// Copies the files of a thread to one that is to be made. What was copied before an error is removed.
pub(super) async fn copy_files(
    app: &AppState,
    caller: &Caller,
    from: &ThreadId,
    to: &ThreadId,
) -> std::io::Result<u64> {
    let (from, to) = (paths(app, caller, from)?, paths(app, caller, to)?);
    let copied = tokio::task::spawn_blocking(move || {
        from.copy_to(&to).inspect_err(|_| {
            let _ = to.remove_all();
        })
    });
    copied.await.map_err(std::io::Error::other)?
}

fn paths(app: &AppState, caller: &Caller, id: &ThreadId) -> std::io::Result<ThreadPaths> {
    ThreadPaths::new(app.config.home(), caller.user_id.as_str(), id.as_str()).map_err(std::io::Error::other)
}
