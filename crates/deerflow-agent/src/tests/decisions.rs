//! What middlewares decide is durable with the step that it belongs to.

use super::fixtures::*;
use crate::*;
use async_trait::async_trait;
use deerflow_core::ports::{Checkpoint, Committed, HistoryEntry, NewJournalRow, StepCommit, StepLog};
use deerflow_core::*;
use pretty_assertions::assert_eq;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Lets every call through, and says so.
struct Judge;

#[async_trait]
impl Middleware for Judge {
    fn name(&self) -> &'static str {
        "Judge"
    }
    async fn wrap_tool_call(
        &self,
        ctx: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        ctx.record_decision("guardrail", json!({"tool_call_id": request.call.id()}));
        next.run(request).await
    }
}

/// Keeps the journal rows of each step, and fails from a certain step on.
#[derive(Default)]
struct Journal {
    inner: EphemeralLog,
    rows: Mutex<Vec<(ports::StepKind, Vec<String>)>>,
    steps_left: AtomicUsize,
}

fn said(rows: &[NewJournalRow]) -> Vec<String> {
    rows.iter().map(|r| format!("{} {} {}", r.category, r.event, r.content["tool_call_id"].as_str().unwrap())).collect()
}

#[async_trait]
impl StepLog for Journal {
    async fn commit(&self, commit: StepCommit) -> Result<Committed, StoreError> {
        let steps = |n: usize| n.checked_sub(1);
        self.steps_left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, steps)
            .map_err(|_| StoreError::Database("crashed".into()))?;
        self.rows.lock().unwrap().push((commit.kind, said(&commit.events)));
        self.inner.commit(commit).await
    }
    async fn load(&self, lineage: &Lineage, at: Option<&CheckpointId>) -> Result<Option<Checkpoint>, StoreError> {
        self.inner.load(lineage, at).await
    }
    async fn history(
        &self,
        lineage: &Lineage,
        before: Option<&CheckpointId>,
        limit: u32,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        self.inner.history(lineage, before, limit).await
    }
}

async fn run(steps: usize) -> (Result<Outcome, AgentError>, Arc<Journal>, RunContext) {
    let calls = vec![call("1", "look", json!({"text": "a"})), call("2", "look", json!({"text": "b"}))];
    let model = Script::new(vec![Message::ai_calls("", calls), Message::ai("done")]);
    let tool = Recorder::new("look", Effects::ReadOnly);
    let log = Arc::new(Journal { steps_left: AtomicUsize::new(steps), ..Journal::default() });
    let agent = agent(&model, &[&tool], vec![Arc::new(Judge)]).with_step_log(log.clone());
    let ctx = context();
    let done = agent.run(&ctx, input("hi")).await;
    (done, log, ctx)
}

const ROWS: [&str; 2] = ["middleware middleware:guardrail 1", "middleware middleware:guardrail 2"];

#[tokio::test]
async fn a_decision_about_a_call_is_written_with_its_batch() {
    let (done, log, ctx) = run(100).await;
    done.unwrap();
    let rows = log.rows.lock().unwrap().clone();
    let with_rows: Vec<_> = rows.into_iter().filter(|(_, rows)| !rows.is_empty()).collect();
    assert_eq!(with_rows, [(ports::StepKind::Tools, ROWS.map(str::to_owned).to_vec())]);
    assert_eq!(ctx.take_decisions(), []);
}

/// The step that failed has written nothing; whoever writes the run's end has the decisions all the same.
#[tokio::test]
async fn a_decision_outlives_the_step_that_could_not_be_written() {
    // The input, the model turn, the first result; then the batch fails.
    let (done, log, ctx) = run(3).await;
    done.unwrap_err();
    assert!(log.rows.lock().unwrap().iter().all(|(_, rows)| rows.is_empty()));
    assert_eq!(said(&ctx.take_decisions()), ROWS);
}
