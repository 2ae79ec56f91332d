//! A crash at any commit: what resumes equals what was never interrupted, and nothing that changes the world happens twice.

use super::fixtures::*;
use crate::*;
use deerflow_core::*;
use pretty_assertions::assert_eq;
use serde_json::json;
use std::sync::Arc;

fn turns() -> Vec<Message> {
    let batch = |n: u8| {
        let calls = ["x", "y", "z"].map(|t| {
            call(&format!("{t}{n}"), if t == "y" { "read" } else { "do" }, json!({"text": format!("{t}{n}")}))
        });
        Message::ai_calls(format!("turn {n}"), calls.to_vec())
    };
    vec![batch(1), batch(2), Message::ai("done")]
}

async fn straight(effects: Effects) -> (Vec<String>, usize) {
    let (tool, reader) = (Recorder::new("do", effects), Recorder::new("read", Effects::ReadOnly));
    let log = CrashingLog::new(Arc::default(), usize::MAX, false);
    let agent = agent(&Script::new(turns()), &[&tool, &reader], vec![]).with_step_log(log.clone());
    let outcome = agent.run(&context(), input("hi")).await.unwrap();
    let commits = log.kinds.lock().unwrap().len();
    (story(&outcome.state), commits)
}

/// Crashes at the `at`-th commit, resumes with the same tools, and gives the story and what the tool did.
async fn crash_and_resume(effects: Effects, at: usize, after_write: bool) -> (Vec<String>, Vec<String>) {
    let (tool, reader) = (Recorder::new("do", effects), Recorder::new("read", Effects::ReadOnly));
    let inner = Arc::new(EphemeralLog::default());
    let first = agent(&Script::new(turns()), &[&tool, &reader], vec![]);
    let broken = first.with_step_log(CrashingLog::new(inner.clone(), at, after_write));
    broken.run(&context(), input("hi")).await.unwrap_err();
    let lineage = Lineage::root(ThreadId::parse("t").unwrap());
    let started = deerflow_core::ports::StepLog::load(inner.as_ref(), &lineage, None).await.unwrap().is_some();
    let start = if started { Start::Resume } else { input("hi") };
    let outcome = first.with_step_log(inner).run(&context(), start).await.unwrap();
    let acted = tool.acted.lock().unwrap().clone();
    (story(&outcome.state), acted)
}

#[tokio::test]
async fn a_verifiable_tool_is_never_repeated_and_the_story_is_the_same() {
    let (want, commits) = straight(Effects::Verifiable).await;
    assert!(commits >= 10, "steps and effects: {commits}");
    for at in 0..commits {
        for after_write in [false, true] {
            let (story, mut acted) = crash_and_resume(Effects::Verifiable, at, after_write).await;
            assert_eq!(story, want, "crash at commit {at}, after_write={after_write}");
            acted.sort();
            assert_eq!(acted, ["x1", "x2", "z1", "z2"], "crash at commit {at}, after_write={after_write}");
        }
    }
}

#[tokio::test]
async fn a_mutating_tool_acts_at_most_once_and_unknown_outcomes_are_said() {
    let (want, commits) = straight(Effects::Mutating).await;
    for at in 0..commits {
        for after_write in [false, true] {
            let (story, acted) = crash_and_resume(Effects::Mutating, at, after_write).await;
            let mut once = acted.clone();
            once.sort();
            once.dedup();
            assert_eq!(once.len(), acted.len(), "something ran twice: {acted:?}, crash at commit {at}");
            for (got, want) in story.iter().zip(&want) {
                assert!(
                    got == want || got.contains("outcome unknown"),
                    "{got} instead of {want}, crash at commit {at}"
                );
            }
            assert_eq!(story.len(), want.len());
        }
    }
}

#[tokio::test]
async fn what_is_harmless_runs_again() {
    let (want, commits) = straight(Effects::Idempotent).await;
    for at in 0..commits {
        let (story, _) = crash_and_resume(Effects::Idempotent, at, false).await;
        assert_eq!(story, want, "crash at commit {at}");
    }
}
