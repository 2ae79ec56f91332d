//! Writes to the state of a thread from outside a run.

use crate::refusal::{Refusal, RefusalKind};
use crate::service::Service;
use crate::shapes::{CheckpointChoice, State, state_update};
use deerflow_core::ports::Committed;
use deerflow_core::{StateUpdate, StoreError, ThreadId, UserId};
use deerflow_runtime::{EditError, StateEdit, update_state};
use serde_json::{Value, json};

/// A write.
#[derive(Debug, Clone, Default)]
pub struct StateWrite {
    /// By channel. Reducers apply: messages are added or replaced by id. Lists of such objects are folded in order.
    pub values: Option<Value>,
    /// The checkpoint to write on; the head when absent.
    pub checkpoint: CheckpointChoice,
    /// In whose name: `model`, `tools`, `__input__`, `__end__` or a hook. The thread goes on with what follows that node.
    pub as_node: Option<String>,
}

impl Service {
    /// Writes to the state of a thread. Makes a checkpoint. On an older one it begins a branch, whose end is the head then;
    /// nothing is lost.
    ///
    /// # Errors
    /// Not found; a conflict while a run is live; for an unknown channel, or a value that does not fit.
    pub async fn write_state(&self, user: &UserId, id: &ThreadId, write: StateWrite) -> Result<State, Refusal> {
        self.own_thread(user, id).await?;
        let choice = write.checkpoint;
        if !choice.namespace.is_empty() {
            let place = json!(["body", "checkpoint", "checkpoint_ns"]);
            let message = "Only the state of the thread itself can be written, not a sub-agent's";
            return Err(Refusal::invalid("value_error", place, message, json!(choice.namespace)));
        }
        let mut writes = match write.values {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Object(values)) => vec![state_update(values, &["values"])?],
            Some(Value::Array(list)) => {
                let read = |value: Value| match value {
                    Value::Object(values) => state_update(values, &["values"]),
                    other => Err(no_object("values", other)),
                };
                list.into_iter().map(read).collect::<Result<_, _>>()?
            }
            Some(other) => return Err(no_object("values", other)),
        };
        if writes.is_empty() {
            writes.push(StateUpdate::none());
        }
        // What stands before the first step is where an empty thread is anyway.
        let mut at = choice.id.clone().filter(|_| !choice.is_before_first());
        let mut made = None;
        for update in writes {
            let edit = StateEdit { at: at.take(), as_node: write.as_node.clone(), update, ..StateEdit::default() };
            made = self.commit(user, id, edit).await?.checkpoint_id;
        }
        let choice = made.map(CheckpointChoice::of).unwrap_or_default();
        let checkpoint = self.checkpoint(id, &choice).await?;
        Ok(State::new(id, "", checkpoint.as_ref()))
    }

    /// Edits the state of the user's thread.
    ///
    /// # Errors
    /// As [`Self::write_state`].
    pub async fn commit(&self, user: &UserId, id: &ThreadId, edit: StateEdit) -> Result<Committed, Refusal> {
        let as_node = edit.as_node.clone();
        update_state(self.store.as_ref(), user, id, edit).await.map_err(|error| match error {
            EditError::Store(StoreError::ThreadBusy { .. }) => {
                Refusal::conflict("Thread has a run in flight. Update state after the run finishes.")
            }
            EditError::Store(StoreError::StaleParent { .. }) => {
                Refusal::conflict("The thread was changed meanwhile. Read it again.")
            }
            EditError::Store(error) => error.into(),
            EditError::State(error) => Refusal::new(RefusalKind::Invalid, error.to_string()),
            error @ EditError::UnknownNode(_) => {
                Refusal::invalid("value_error", json!(["body", "as_node"]), error.to_string(), json!(as_node))
            }
            error @ EditError::NotLast { .. } => Refusal::conflict(error.to_string()),
        })
    }
}

fn no_object(name: &str, input: Value) -> Refusal {
    Refusal::invalid("dict_type", json!(["body", name]), "Input should be a valid dictionary", input)
}
