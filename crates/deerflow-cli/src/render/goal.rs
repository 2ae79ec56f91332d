//! Goals in words.

use super::printable_line;
use crate::commands::limit_in_words;
use deerflow_core::ThreadState;
use serde_json::Value;

/// A goal event as a line; `None` for other events.
pub(super) fn event(value: &Value) -> Option<String> {
    if value.get("type")? != "goal" {
        return None;
    }
    let reason = printable_line(value.get("reason").and_then(Value::as_str).unwrap_or_default());
    let number = |key: &str| value.get(key).and_then(Value::as_u64).unwrap_or_default();
    Some(match value.get("phase")?.as_str()? {
        "continue" => format!(
            "goal not reached yet ({} of {}): {reason}",
            number("continuation_count"),
            number("max_continuations")
        ),
        "achieved" => format!("goal reached: {reason}"),
        "stand_down" => format!("stopped working towards the goal: {}", stand_down(&reason)),
        "evaluation_failed" => format!("whether the goal is reached could not be judged: {reason}"),
        other => format!("goal {}: {reason}", printable_line(other)),
    })
}

/// Why the work towards a goal stopped.
fn stand_down(reason: &str) -> String {
    match reason {
        "blocked:missing_evidence" => "nothing shows yet that it is reached",
        "blocked:needs_user_input" => "it needs something from you",
        "blocked:run_failed" | "no_durable_end_of_turn" => "the turn did not end with an answer",
        "blocked:external_wait" => "it waits for something outside",
        "max_continuations_reached" => "all its automatic turns are used",
        "no_progress_detected" => "the last turns brought nothing new",
        other => limit_in_words(other).unwrap_or(other),
    }
    .to_owned()
}

/// How the goal of a thread stands, as lines; `None` when there is none and was none.
pub(crate) fn goal_in_words(state: &ThreadState) -> Option<Vec<String>> {
    if let Some(goal) = &state.goal {
        let mut lines = vec![format!(
            "goal not reached yet ({} of {} automatic turns): {}",
            goal.continuation_count,
            goal.max_continuations,
            printable_line(&goal.objective)
        )];
        if let Some(evaluation) = &goal.last_evaluation {
            if !evaluation.reason.is_empty() {
                lines.push(format!("  last verdict: {}", printable_line(&evaluation.reason)));
            }
            if let Some(reason) = evaluation.extra.get("stand_down_reason").and_then(Value::as_str) {
                lines.push(format!("  stopped: {}", stand_down(&printable_line(reason))));
            }
        }
        return Some(lines);
    }
    let outcome = state.goal_outcome.as_ref()?;
    let text = |key: &str| outcome.get(key).and_then(Value::as_str).map(printable_line).unwrap_or_default();
    let mut lines = vec![format!("goal reached: {}", text("objective"))];
    if !text("reason").is_empty() {
        lines.push(format!("  verdict: {}", text("reason")));
    }
    if outcome.get("relied_on_assumption").and_then(Value::as_bool) == Some(true) {
        lines.push("  it relied on an assumption".to_owned());
    }
    Some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn events_read_as_sentences() {
        let goal = |phase: &str, reason: &str| {
            event(
                &json!({"type": "goal", "phase": phase, "reason": reason, "continuation_count": 2, "max_continuations": 8}),
            )
        };
        assert_eq!(goal("continue", "no\nchart"), Some("goal not reached yet (2 of 8): no chart".into()));
        assert_eq!(goal("achieved", "both there"), Some("goal reached: both there".into()));
        assert_eq!(
            goal("stand_down", "blocked:needs_user_input"),
            Some("stopped working towards the goal: it needs something from you".into())
        );
        assert_eq!(goal("stand_down", "odd"), Some("stopped working towards the goal: odd".into()));
        assert_eq!(event(&json!({"type": "llm_retry", "message": "m"})), None);
    }
}
