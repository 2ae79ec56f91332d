//! Makes threads.

use crate::app::AppState;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::OptionalJson;
use crate::wire::{Thread, state_update};
use axum::Json;
use axum::extract::State;
use deerflow_core::{JsonMap, ThreadId};
use deerflow_runtime::StateEdit;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

/// Most writes that a thread can begin with.
const MOST_WRITES: usize = 1000;

/// A thread to be made.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct NewThread {
    /// Its id; a new one when absent.
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9_-]{1,64}$", example = "my-thread")]
    thread_id: Option<ThreadId>,
    /// What clients keep with it.
    #[schema(value_type = Option<Object>)]
    metadata: Option<JsonMap>,
    /// What happens when there is one of this id.
    if_exists: Option<IfExists>,
    /// Writes that it begins with.
    supersteps: Option<Vec<Superstep>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = IfThreadExists)]
enum IfExists {
    /// 409.
    Raise,
    /// It is answered unchanged.
    DoNothing,
}

/// Writes that belong together.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
struct Superstep {
    updates: Vec<Update>,
}

/// One write.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
struct Update {
    /// By channel.
    #[schema(value_type = Option<Object>)]
    values: Option<JsonMap>,
    /// `{update: …}` in place of `values`.
    command: Option<Command>,
    /// In whose name.
    as_node: Option<String>,
}

#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Command {
    #[schema(value_type = Option<Object>)]
    update: Option<JsonMap>,
    /// Must be absent: there is no run to answer.
    #[schema(value_type = Option<Object>)]
    resume: Option<Value>,
    /// Must be absent: `as_node` says where the thread goes on.
    #[schema(value_type = Option<Object>)]
    goto: Option<Value>,
}

/// Make a thread
///
/// A thread of yours that exists already is answered unchanged, unless `if_exists` is `raise`.
#[utoipa::path(post, path = "/threads", tag = "threads", request_body = NewThread,
    responses((status = 200, body = Thread), (status = 404, description = "The id belongs to somebody else"),
        (status = 409, description = "It exists, and `if_exists` is `raise`")))]
pub(super) async fn create(
    caller: Caller,
    State(app): State<AppState>,
    OptionalJson(new): OptionalJson<NewThread>,
) -> Result<Json<Thread>, ApiError> {
    let id = new.thread_id.unwrap_or_else(ThreadId::random);
    // All of them are read before anything is made.
    let edits = edits(new.supersteps.unwrap_or_default())?;
    let must_be_new = new.if_exists == Some(IfExists::Raise);
    Ok(Json(app.service.create_thread(&caller.user_id, id, new.metadata, must_be_new, edits).await?))
}

fn edits(supersteps: Vec<Superstep>) -> Result<Vec<StateEdit>, ApiError> {
    let mut edits = Vec::new();
    for update in supersteps.into_iter().flat_map(|step| step.updates) {
        let command = update.command.unwrap_or(Command { update: None, resume: None, goto: None });
        if command.resume.is_some() || command.goto.is_some() {
            let place = json!(["body", "supersteps"]);
            let message = "A command here can only have `update`";
            return Err(ApiError::invalid("value_error", place, message, Value::Null));
        }
        let values = update.values.or(command.update).unwrap_or_default();
        let update_of = state_update(values, &["supersteps"])?;
        edits.push(StateEdit { as_node: update.as_node, update: update_of, ..StateEdit::default() });
        if edits.len() > MOST_WRITES {
            let message = format!("List should have at most {MOST_WRITES} updates");
            return Err(ApiError::invalid("too_long", json!(["body", "supersteps"]), message, Value::Null));
        }
    }
    Ok(edits)
}
