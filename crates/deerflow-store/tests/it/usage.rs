//! Sums over runs.

use crate::support::{Driver, fence, home, new_run, outcome, raw, thread_id, worker};
use deerflow_core::ports::{
    CallerUsage, DayUsage, ModelUsage, NewJournalRow, RunOutcome, RunRepo as _, RunRow, StepCommit, StepKind,
    UsageRepo as _,
};
use deerflow_core::run::Next;
use deerflow_core::{RunStatus, Usage, UserId};
use deerflow_store::SqliteStore;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn call(caller: &str, model: &str, input: u64, output: u64) -> NewJournalRow {
    let mut usage = Usage::new(input, output);
    usage.input_token_details.insert("cache_read".into(), input / 2);
    let row = NewJournalRow::new("trace", "llm.usage", Value::Null).with("caller", caller);
    row.with("model", model).with("usage", json!(usage))
}

fn used(input: u64, output: u64, calls: u64, runs: u64) -> ModelUsage {
    ModelUsage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: input + output,
        cache_read_tokens: input / 2,
        calls,
        runs,
    }
}

async fn run(store: &SqliteStore, thread: &str, status: RunStatus, calls: Vec<NewJournalRow>) -> RunRow {
    let row = store.admit(new_run(thread)).await.unwrap();
    store.finish(&fence(&row), outcome(status), calls).await.unwrap();
    row
}

/// Its process died with the sum of its tokens.
#[tokio::test]
async fn whoever_takes_a_run_over_goes_on_counting_where_it_stood() {
    let home = home().await;
    let mut run = Driver::admitted(&home.store, "t").await;
    for calls in [vec![call("lead_agent", "m", 10, 1), call("middleware:title", "n", 4, 2)], vec![]] {
        let commit = StepCommit { events: calls, ..run.commit(StepKind::Model, Next::Model, vec![]) };
        run.send(&home.store, commit).await.unwrap();
    }
    let taken = home.store.adopt(run.run_id.as_ref().unwrap(), 1, &worker("beta")).await.unwrap();
    let mut want = Usage::new(14, 3);
    want.input_token_details.insert("cache_read".into(), 7);
    assert_eq!(taken.usage, want);

    // What its end wrote is more exact than the sum: it stays.
    let mut whole = Usage::new(14, 3);
    whole.output_token_details.insert("reasoning".into(), 2);
    home.store
        .finish(&fence(&taken), RunOutcome { usage: whole.clone(), ..outcome(RunStatus::Interrupted) }, vec![])
        .await
        .unwrap();
    assert_eq!(home.store.adopt(&taken.run_id, 2, &worker("gamma")).await.unwrap().usage, whole);
}

#[tokio::test]
async fn tokens_are_summed_by_model_and_caller() {
    let home = home().await;
    let (user, thread) = (UserId::local(), thread_id("t"));
    let message = NewJournalRow::new("message", "llm.ai.response", json!("x"));
    let calls = vec![
        call("lead_agent", "m", 10, 1),
        message.clone(),
        call("lead_agent", "m", 20, 2),
        call("middleware:title", "m", 40, 4),
        call("subagent:web", "n", 100, 10),
        message,
    ];
    let first = run(&home.store, "t", RunStatus::Success, calls).await;
    let second = run(&home.store, "t", RunStatus::Error, vec![call("lead_agent", "m", 2, 0)]).await;
    let stopped = run(&home.store, "t", RunStatus::Interrupted, vec![call("lead_agent", "m", 4, 0)]).await;
    let idle = run(&home.store, "t", RunStatus::Success, vec![]).await;
    run(&home.store, "u", RunStatus::Timeout, vec![call("lead_agent", "n", 8, 0)]).await;
    let live = home.store.admit(new_run("t")).await.unwrap();

    let of_thread = home.store.thread_usage(&user, &thread, false).await.unwrap();
    assert_eq!(of_thread.total_runs, 3);
    assert_eq!(
        of_thread.by_model,
        BTreeMap::from([("m".into(), used(72, 7, 4, 2)), ("n".into(), used(100, 10, 1, 1))])
    );
    assert_eq!(of_thread.by_caller, CallerUsage { lead_agent: 35, subagent: 110, middleware: 44 });
    assert_eq!(home.store.thread_usage(&user, &thread, true).await.unwrap().total_runs, 4);

    let ids = [&first, &second, &stopped, &idle, &live].map(|row| row.run_id.clone());
    let of_runs = home.store.run_usage(&user, &ids).await.unwrap();
    assert_eq!(of_runs.len(), 5);
    assert_eq!(of_runs[&first.run_id].by_model["m"], used(70, 7, 3, 1));
    assert_eq!(of_runs[&first.run_id].by_caller, CallerUsage { lead_agent: 33, subagent: 110, middleware: 44 });
    assert_eq!(of_runs[&first.run_id].message_count, 2);
    assert_eq!(of_runs[&stopped.run_id].by_model["m"], used(4, 0, 1, 1));
    assert_eq!((of_runs[&idle.run_id].by_model.len(), of_runs[&live.run_id].message_count), (0, 0));

    let stats = home.store.console_stats(&user).await.unwrap();
    assert_eq!((stats.total_runs, stats.active_runs, stats.failed_runs, stats.total_threads), (6, 1, 2, 2));
    assert_eq!(stats.by_model, BTreeMap::from([("m".into(), used(76, 7, 5, 3)), ("n".into(), used(108, 10, 2, 2))]));

    home.store.delete_run(&user, &first.run_id).await.unwrap();
    let rest = home.store.thread_usage(&user, &thread, false).await.unwrap();
    assert_eq!((rest.total_runs, rest.by_model), (2, BTreeMap::from([("m".into(), used(2, 0, 1, 1))])));
}

#[tokio::test]
async fn days_begin_where_the_user_is() {
    let home = home().await;
    let user = UserId::local();
    let rows = [
        run(&home.store, "a", RunStatus::Success, vec![call("lead_agent", "m", 2, 0)]).await,
        run(&home.store, "a", RunStatus::Success, vec![call("lead_agent", "m", 4, 0), call("x", "m", 4, 0)]).await,
        run(&home.store, "b", RunStatus::Interrupted, vec![]).await,
        run(&home.store, "b", RunStatus::Success, vec![call("lead_agent", "m", 8, 0)]).await,
    ];
    const HOUR: i64 = 3_600_000_000;
    // Four moments around midnight UTC between the days 9 and 10.
    for (row, hour) in rows.iter().zip([20, 23, 25, 46]) {
        sqlx::query("UPDATE runs SET created_at = $1 WHERE run_id = $2")
            .bind((9 * 24 + hour) * HOUR)
            .bind(row.run_id.as_str().to_owned())
            .execute(&mut raw(&home.path).await)
            .await
            .unwrap();
    }
    let day = |day, runs, tokens: Option<ModelUsage>| DayUsage {
        day,
        runs,
        by_model: tokens.map(|tokens| ("m".to_owned(), tokens)).into_iter().collect(),
    };
    let days = async |since, offset| home.store.usage_by_day(&user, since, offset).await.unwrap();
    assert_eq!(days(0, 0).await, [day(9, 2, Some(used(10, 0, 3, 2))), day(10, 2, Some(used(8, 0, 1, 1)))]);
    assert_eq!(
        days(0, 120).await,
        [day(9, 1, Some(used(2, 0, 1, 1))), day(10, 2, Some(used(8, 0, 2, 1))), day(11, 1, Some(used(8, 0, 1, 1)))]
    );
    assert_eq!(days(0, -120).await, [day(9, 3, Some(used(10, 0, 3, 2))), day(10, 1, Some(used(8, 0, 1, 1)))]);
    assert_eq!(days((9 * 24 + 25) * HOUR, 0).await, [day(10, 2, Some(used(8, 0, 1, 1)))]);
    assert_eq!(days(i64::MAX, 0).await, []);
}
