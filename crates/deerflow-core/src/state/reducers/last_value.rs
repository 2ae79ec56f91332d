//! Channels where the newest value simply wins, but several writes a step are allowed.

use crate::state::{GoalState, Todo};

/// The new list replaces the old one; an empty list clears the plan.
pub fn merge_todos(old: &mut Option<Vec<Todo>>, new: Option<&[Todo]>) {
    if let Some(new) = new {
        *old = Some(new.to_vec());
    }
}

/// The new goal replaces the old one. Ending a goal needs a removal of the channel, not a write.
pub fn merge_goal(old: &mut Option<GoalState>, new: Option<&GoalState>) {
    if let Some(new) = new {
        *old = Some(new.clone());
    }
}
