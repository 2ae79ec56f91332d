//! Goal mode: the run goes on by itself until an evaluator finds the objective met, or it makes no sense to go on.
//!
//! A goal is a channel of the thread's state. [`GoalMiddleware`](crate::middleware::GoalMiddleware) has the conversation
//! judged at the end of each turn; whatever it decides is one durable step with what follows from it.

pub mod evaluator;
pub mod evidence;

use deerflow_core::state::{GoalEvaluation, GoalState};
use deerflow_core::{Channel, StateUpdate};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Longest objective, in characters after collapsing white space.
pub const MAX_OBJECTIVE_CHARS: usize = 4000;
/// Most automatic turns of one goal.
pub const MAX_CONTINUATIONS: u32 = 8;
/// Automatic turns in a row that may bring nothing new.
pub const MAX_NO_PROGRESS: u32 = 2;

/// A goal cannot be set like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GoalError {
    /// There is no text.
    #[error("the goal is empty; say what must be true when it is reached")]
    Empty,
    /// There is too much.
    #[error("the goal has {0} characters; at most {MAX_OBJECTIVE_CHARS} are allowed")]
    TooLong(usize),
}

/// What `/goal …` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GoalCommand {
    /// Show the goal.
    Status,
    /// End it.
    Clear,
    /// Set this one.
    Set(String),
}

impl GoalCommand {
    /// Reads what stands after `/goal`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        match text.to_lowercase().as_str() {
            "" => Self::Status,
            "clear" | "reset" | "off" => Self::Clear,
            _ => Self::Set(text.to_owned()),
        }
    }
}

/// A new goal. `max_continuations` is clamped to 0–8; 8 when not given.
///
/// # Errors
/// [`GoalError`].
pub fn new_goal(objective: &str, max_continuations: Option<u32>) -> Result<GoalState, GoalError> {
    let objective = objective.split_whitespace().collect::<Vec<_>>().join(" ");
    let length = objective.chars().count();
    if length == 0 {
        return Err(GoalError::Empty);
    }
    if length > MAX_OBJECTIVE_CHARS {
        return Err(GoalError::TooLong(length));
    }
    let now = now();
    Ok(GoalState {
        objective,
        status: "active".to_owned(),
        created_at: now.clone(),
        updated_at: now,
        continuation_count: 0,
        max_continuations: max_continuations.unwrap_or(MAX_CONTINUATIONS).min(MAX_CONTINUATIONS),
        no_progress_count: 0,
        max_no_progress_continuations: MAX_NO_PROGRESS,
        last_evaluation: None,
    })
}

/// Sets a goal. An earlier outcome goes.
#[must_use]
pub fn set(goal: GoalState) -> StateUpdate {
    StateUpdate { goal: Some(goal), remove: [Channel::GoalOutcome].into(), ..StateUpdate::none() }
}

/// Ends a goal without an outcome.
#[must_use]
pub fn clear() -> StateUpdate {
    StateUpdate { remove: [Channel::Goal, Channel::GoalOutcome].into(), ..StateUpdate::none() }
}

/// Ends a goal that was met: the goal goes and the outcome comes in one write. `None` unless the evaluation is satisfied.
#[must_use]
pub fn achieve(goal: &GoalState, evaluation: &GoalEvaluation, reply_message_id: Option<&str>) -> Option<StateUpdate> {
    if !evaluation.satisfied {
        return None;
    }
    let relied = evaluation.extra.get("relied_on_assumption").and_then(Value::as_bool).unwrap_or(false);
    let outcome = json!({
        "status": "achieved",
        "objective": goal.objective,
        "goal_created_at": goal.created_at,
        "achieved_at": now(),
        "continuation_count": goal.continuation_count,
        "max_continuations": goal.max_continuations,
        "reason": evaluation.reason,
        "relied_on_assumption": relied,
        "reply_message_id": reply_message_id,
    });
    Some(StateUpdate { goal_outcome: Some(outcome), remove: [Channel::Goal].into(), ..StateUpdate::none() })
}

/// The time as goals write it: RFC 3339, UTC.
pub(crate) fn now() -> String {
    Timestamp::now().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_core::ThreadState;

    #[test]
    fn a_goal_is_one_line_within_its_limits() {
        let goal = new_goal("  write\n the   report ", Some(99)).unwrap();
        assert_eq!(
            (goal.objective.as_str(), goal.max_continuations, goal.status.as_str()),
            ("write the report", 8, "active")
        );
        assert_eq!(new_goal("界", Some(0)).unwrap().max_continuations, 0);
        assert_eq!(new_goal(" \n ", None), Err(GoalError::Empty));
        assert_eq!(new_goal(&"界".repeat(4001), None), Err(GoalError::TooLong(4001)));
        assert!(new_goal(&"界".repeat(4000), None).is_ok());
    }

    #[test]
    fn the_command_shows_clears_or_sets() {
        assert_eq!(GoalCommand::parse("  "), GoalCommand::Status);
        for word in ["clear", "Reset", " OFF "] {
            assert_eq!(GoalCommand::parse(word), GoalCommand::Clear);
        }
        assert_eq!(GoalCommand::parse(" clear the desk"), GoalCommand::Set("clear the desk".into()));
    }

    #[test]
    fn an_outcome_replaces_the_goal_and_a_new_goal_replaces_the_outcome() {
        let goal = new_goal("x", None).unwrap();
        let mut state = ThreadState::default();
        state.apply(&set(goal.clone())).unwrap();
        let mut evaluation =
            GoalEvaluation { satisfied: false, blocker: "none".into(), reason: "r".into(), extra: Default::default() };
        assert_eq!(achieve(&goal, &evaluation, None), None);
        evaluation.satisfied = true;
        state.apply(&achieve(&goal, &evaluation, Some("m1")).unwrap()).unwrap();
        assert_eq!(state.goal, None);
        assert_eq!(state.goal_outcome.as_ref().unwrap()["reply_message_id"], "m1");
        state.apply(&set(goal)).unwrap();
        assert!(state.goal.is_some() && state.goal_outcome.is_none());
        state.apply(&clear()).unwrap();
        assert_eq!(state, ThreadState::default());
    }
}
