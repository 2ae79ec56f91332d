//! What is admitted, and what is refused.

use super::bench::{Bench, caller, say, thread_id};
use deerflow_core::ports::{RunFilter, RunRepo as _, ThreadRepo as _};
use deerflow_core::{RunStatus, StoreError, UserId};
use deerflow_runtime::runs::{CreateError, CreateRun, RunFacts, RunInput};
use deerflow_testkit::{Gate, Turn};
use serde_json::json;

#[tokio::test]
async fn a_run_goes_from_admission_to_its_counters() {
    let bench = Bench::start().await;
    bench.model.push(Turn::text("hello").usage(10, 5));
    let facts = RunFacts { assistant_id: Some("lead_agent".into()), ..RunFacts::default() };
    let row = bench.create(CreateRun { facts: facts.clone(), ..say("t", "hi") }).await;
    assert_eq!(row.status, RunStatus::Pending);
    let row = bench.runs.wait(&row.run_id).await.unwrap();
    assert_eq!((row.status, row.error.clone()), (RunStatus::Success, None));
    assert_eq!(RunFacts::of(&row.options), Some(facts));
    assert_eq!(row.counts.model_name.as_deref(), Some("scripted"));
    assert_eq!((row.counts.llm_call_count, row.counts.lead_agent_tokens), (1, 15));
    assert_eq!(row.counts.token_usage_by_model["scripted"].total_tokens, 15);
    assert_eq!(row.counts.first_human_message.as_deref(), Some("hi"));
    assert_eq!(row.counts.last_ai_message.as_deref(), Some("hello"));
    let frames = bench.frames(&row).await;
    assert_eq!(
        (frames.first().map(String::as_str), frames.last().map(String::as_str)),
        (Some("metadata"), Some("end"))
    );
    assert_eq!(bench.said("t").await, ["human: hi", "ai: hello"]);
}

#[tokio::test]
async fn one_key_and_one_body_are_one_run() {
    let bench = Bench::start().await;
    bench.model.push(Turn::text("once"));
    let request = |text: &str| CreateRun { idempotency_key: Some("k".into()), ..say("t", text) };
    let (a, b) = tokio::join!(bench.create(request("hi")), bench.create(request("hi")));
    assert_eq!(a.run_id, b.run_id);
    bench.runs.wait(&a.run_id).await.unwrap();
    assert_eq!(bench.create(request("hi")).await.run_id, a.run_id);
    let error = bench.runs.create(&caller(), request("other")).await.unwrap_err();
    assert!(matches!(error, CreateError::KeyReused(key) if key == "k"));
    assert_eq!(bench.model.agent_requests().len(), 1);
    assert_eq!(bench.store.runs(&UserId::local(), RunFilter::default()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_busy_thread_refuses_and_names_the_run() {
    let bench = Bench::start().await;
    let gate = Gate::new();
    bench.model.push(Turn::text("slow").hold(&gate));
    let first = bench.create(say("t", "hi")).await;
    gate.reached().await;
    let error = bench.runs.create(&caller(), say("t", "again")).await.unwrap_err();
    let CreateError::Store(StoreError::ThreadBusy { run_id, .. }) = error else { panic!("{error}") };
    assert_eq!(run_id, first.run_id.to_string());
    gate.open();
    bench.runs.wait(&first.run_id).await.unwrap();
    assert_eq!(bench.said("t").await, ["human: hi", "ai: slow"]);
}

#[tokio::test]
async fn what_means_nothing_is_refused_and_leaves_nothing() {
    let bench = Bench::start().await;
    let bad = [
        CreateRun { interrupt_before: vec!["nowhere".into()], ..say("t", "hi") },
        CreateRun { idempotency_key: Some(String::new()), ..say("t", "hi") },
        CreateRun { idempotency_key: Some("k".repeat(300)), ..say("t", "hi") },
        CreateRun::new(thread_id("t"), RunInput::Nothing),
        CreateRun::new(thread_id("t"), RunInput::Resume(json!("yes"))),
        CreateRun { checkpoint: Some("nope".parse().unwrap()), ..say("t", "hi") },
        CreateRun { create_thread: false, ..say("t", "hi") },
        {
            let mut request = say("t", "hi");
            request.options.model = Some("unknown".into());
            request
        },
    ];
    for request in bad {
        let shown = format!("{request:?}");
        assert!(bench.runs.create(&caller(), request).await.is_err(), "{shown}");
    }
    assert_eq!(bench.store.thread(&UserId::local(), &thread_id("t")).await.unwrap(), None);
}

#[tokio::test]
async fn a_failed_provider_is_a_failed_run() {
    let bench = Bench::start().await;
    bench.model.always(|_| Turn::status(401));
    let row = bench.ended(say("t", "hi")).await;
    assert_eq!(row.status, RunStatus::Error);
    assert!(row.error.is_some());
}

#[tokio::test]
async fn an_edit_replay_that_fails_leaves_no_trace() {
    let bench = Bench::start().await;
    bench.model.push(Turn::text("first"));
    bench.ended(say("t", "hi")).await;
    bench.model.always(|_| Turn::status(401));
    let mut request = say("t", "edited");
    request.facts.metadata.insert("replay_kind".into(), json!("edit"));
    let row = bench.ended(request).await;
    assert_eq!((row.status, row.error.as_deref()), (RunStatus::Error, Some("Rolled back by user")));
    assert_eq!(bench.said("t").await, ["human: hi", "ai: first"]);
}
