//! The goal of a thread.

use crate::refusal::{Refusal, RefusalKind};
use crate::service::Service;
use deerflow_core::ports::{StepLog as _, ThreadRepo as _};
use deerflow_core::{JsonMap, Lineage, ThreadId, UserId};
use deerflow_harness::goal::{GoalError, MAX_OBJECTIVE_CHARS, clear, new_goal, set};
use deerflow_runtime::StateEdit;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// The goal that is worked on.
#[derive(Debug, Serialize, ToSchema)]
pub struct Goal {
    /// `objective, status, created_at, updated_at, continuation_count, max_continuations, no_progress_count,
    /// max_no_progress_continuations, last_evaluation?`; null when there is none.
    #[schema(value_type = Option<Object>)]
    pub goal: Value,
}

impl Service {
    /// The goal of a thread. A thread that is not there has none.
    ///
    /// # Errors
    /// Not found, for somebody else's thread.
    pub async fn goal(&self, user: &UserId, id: &ThreadId) -> Result<Goal, Refusal> {
        self.not_foreign(user, id).await?;
        let head = self.store.load(&Lineage::root(id.clone()), None).await?;
        let goal = head.and_then(|head| head.state.goal);
        Ok(Goal { goal: json!(goal) })
    }

    /// Sets the goal of a thread: runs go on by themselves until it is reached. A thread that is not there is made.
    ///
    /// # Errors
    /// For an objective of no or too many characters; a conflict while a run is live.
    pub async fn set_goal(
        &self,
        user: &UserId,
        id: &ThreadId,
        objective: &str,
        max_continuations: u32,
    ) -> Result<Goal, Refusal> {
        let goal = new_goal(objective, Some(max_continuations)).map_err(|error| {
            let (kind, message) = match error {
                GoalError::Empty => ("string_too_short", "String should have at least 1 character".to_owned()),
                GoalError::TooLong(_) => {
                    ("string_too_long", format!("String should have at most {MAX_OBJECTIVE_CHARS} characters"))
                }
            };
            let shown: String = objective.chars().take(200).collect();
            Refusal::invalid(kind, json!(["body", "objective"]), message, json!(shown))
        })?;
        self.store.create_thread(user, id, JsonMap::new()).await?;
        let edit = StateEdit { update: set(goal), ..StateEdit::default() };
        self.commit(user, id, edit).await.map_err(|error| in_flight(error, "Set the goal"))?;
        self.goal(user, id).await
    }

    /// Ends the goal of a thread. A thread that is not there has none.
    ///
    /// # Errors
    /// Not found, for somebody else's thread; a conflict while a run is live.
    pub async fn clear_goal(&self, user: &UserId, id: &ThreadId) -> Result<Goal, Refusal> {
        self.not_foreign(user, id).await?;
        let none = Goal { goal: Value::Null };
        if self.store.thread(user, id).await?.is_none() {
            return Ok(none);
        }
        let head = self.store.load(&Lineage::root(id.clone()), None).await?;
        if head.is_none_or(|head| head.state.goal.is_none()) {
            return Ok(none);
        }
        let edit = StateEdit { update: clear(), ..StateEdit::default() };
        self.commit(user, id, edit).await.map_err(|error| in_flight(error, "Clear the goal"))?;
        Ok(none)
    }
}

fn in_flight(error: Refusal, what: &str) -> Refusal {
    if error.kind == RefusalKind::Conflict {
        return Refusal::conflict(format!("Thread has a run in flight. {what} after the run finishes."));
    }
    error
}
