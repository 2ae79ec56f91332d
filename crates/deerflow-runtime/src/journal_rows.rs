//! Journal rows of a run, under the names of DeerFlow's run event stream.

use deerflow_core::ports::{NewJournalRow, RunOutcome};
use deerflow_core::{Message, RunStatus};
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Metadata of a `run.error` row that readers of the run were told of.
pub(crate) const RAISED: &str = "raised";

/// Writes the rows of one run, and remembers what they count.
#[derive(Debug)]
pub(crate) struct JournalRows {
    count: Mutex<Count>,
}

#[derive(Debug)]
struct Count {
    /// Whether the run has a row that says it began.
    begun: bool,
    /// Answers of models so far, in this process.
    answers: u64,
    /// The last durable step.
    step_at: Instant,
}

impl JournalRows {
    /// Rows for a run that begins now.
    pub(crate) fn new() -> Self {
        Self { count: Mutex::new(Count { begun: false, answers: 0, step_at: Instant::now() }) }
    }

    /// `run.start`, once.
    pub(crate) fn begun(&self) -> Option<NewJournalRow> {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let first = !std::mem::replace(&mut count.begun, true);
        first.then(|| NewJournalRow::new("trace", "run.start", Value::Null).with("caller", "lead_agent"))
    }

    /// A step is durable: the next answer took the time from here on.
    pub(crate) fn stepped(&self) {
        self.count.lock().unwrap_or_else(PoisonError::into_inner).step_at = Instant::now();
    }

    /// A message that a node wrote. The answer of a model says what it used; `latency_ms` is the time of its turn, hooks
    /// included. `namespace` is that of the lineage, empty for the agent itself.
    pub(crate) fn message(&self, namespace: &str, node: &str, message: &Message) -> NewJournalRow {
        let event = match message.role() {
            "ai" => "llm.ai.response",
            "tool" => "llm.tool.result",
            "system" => "llm.system.input",
            _ => "llm.human.input",
        };
        let caller = if namespace.is_empty() { "lead_agent".to_owned() } else { format!("subagent:{namespace}") };
        let row = NewJournalRow::new("message", event, json!(message)).with("node", node).with("caller", caller);
        let Some(part) = message.as_ai().filter(|_| node == "model") else { return row };
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        count.answers += 1;
        let latency = u64::try_from(count.step_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        row.with("usage", json!(part.usage_metadata)).with("latency_ms", latency).with("llm_call_index", count.answers)
    }

    /// How the run ended: `run.error` when it failed, and `run.end`. `class` names the failure that it could not go on with:
    /// its readers are told of that one; of others the conversation says enough.
    pub(crate) fn ended(outcome: &RunOutcome, class: Option<&str>) -> Vec<NewJournalRow> {
        let mut rows = Vec::new();
        if let Some(error) = outcome.error.as_ref().filter(|_| outcome.status != RunStatus::Interrupted) {
            let kind = class.or(outcome.stop_reason.as_deref()).unwrap_or("RunError");
            let row = NewJournalRow::new("error", "run.error", json!(error)).with("error_type", kind);
            rows.push(if class.is_some() { row.with(RAISED, true) } else { row });
        }
        let content = json!({
            "status": outcome.status, "error": outcome.error, "stop_reason": outcome.stop_reason, "usage": outcome.usage
        });
        rows.push(NewJournalRow::new("outputs", "run.end", content).with("status", outcome.status.as_str()));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deerflow_core::Usage;
    use pretty_assertions::assert_eq;

    #[test]
    fn rows_carry_the_names_of_the_event_stream() {
        let rows = JournalRows::new();
        let mut answer = Message::ai("hi").with_id("a");
        if let Some(part) = answer.as_ai_mut() {
            part.usage_metadata = Some(Usage::new(3, 4));
        }
        let input = rows.message("", "__input__", &Message::human("hello").with_id("h"));
        assert_eq!((input.category.as_str(), input.event.as_str()), ("message", "llm.human.input"));
        assert_eq!((&input.content["type"], &input.content["content"]), (&json!("human"), &json!("hello")));
        assert_eq!(json!(input.metadata), json!({"node": "__input__", "caller": "lead_agent"}));

        let first = rows.message("", "model", &answer);
        assert_eq!(first.event, "llm.ai.response");
        assert_eq!(first.metadata["usage"]["total_tokens"], 7);
        assert!(first.metadata["latency_ms"].is_u64());
        let second = rows.message("web", "model", &answer);
        assert_eq!((&first.metadata["llm_call_index"], &second.metadata["llm_call_index"]), (&json!(1), &json!(2)));
        assert_eq!(second.metadata["caller"], "subagent:web");
        // A copy that a middleware wrote is no call of its own.
        assert_eq!(rows.message("", "title.after_model", &answer).metadata.get("usage"), None);
        assert!(rows.begun().is_some_and(|row| row.event == "run.start"));
        assert_eq!(rows.begun(), None);
    }

    #[test]
    fn a_failure_is_told_before_the_end() {
        let outcome = |status, error: Option<&str>| RunOutcome {
            status,
            error: error.map(str::to_owned),
            stop_reason: None,
            usage: Usage::default(),
        };
        let names = |outcome| -> Vec<(String, Value)> {
            JournalRows::ended(&outcome, None).into_iter().map(|row| (row.event, json!(row.metadata))).collect()
        };
        assert_eq!(
            names(outcome(RunStatus::Error, Some("no key"))),
            [
                ("run.error".to_owned(), json!({"error_type": "RunError"})),
                ("run.end".to_owned(), json!({"status": "error"}))
            ]
        );
        assert_eq!(names(outcome(RunStatus::Interrupted, Some("stopped"))).len(), 1);
        assert_eq!(names(outcome(RunStatus::Success, None)), [("run.end".to_owned(), json!({"status": "success"}))]);
    }
}
