use super::super::testing;
use super::*;
use deerflow_agent::{Agent, Start};
use deerflow_core::{AgentEvent, ChatModel, EventSink, ModelEvent, ModelInfo, ModelTurn, RunStatus, StateUpdate};
use futures::stream::{BoxStream, StreamExt};
use pretty_assertions::assert_eq;
use std::collections::VecDeque;
use tokio_util::sync::CancellationToken;

/// Fails with these errors in turn, then answers.
struct Flaky {
    info: ModelInfo,
    errors: Mutex<VecDeque<ModelError>>,
    calls: Mutex<u32>,
}

impl ChatModel for Flaky {
    fn info(&self) -> &ModelInfo {
        &self.info
    }
    fn stream(&self, _: ChatRequest, _: CancellationToken) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        *self.calls.lock().unwrap() += 1;
        let item = match self.errors.lock().unwrap().pop_front() {
            Some(error) => Err(error),
            None => Ok(ModelEvent::Finished(Box::new(ModelTurn { message: Message::ai("fine") }))),
        };
        futures::stream::iter([item]).boxed()
    }
}

fn flaky(errors: Vec<ModelError>) -> Arc<Flaky> {
    Arc::new(Flaky {
        info: ModelInfo { name: "m".into(), ..Default::default() },
        errors: Mutex::new(errors.into()),
        calls: Mutex::new(0),
    })
}

fn busy() -> ModelError {
    ModelError::new(ModelErrorKind::Busy, "overloaded")
}

struct Run {
    status: RunStatus,
    answer: String,
    calls: u32,
    waits: Vec<(u64, u64)>,
}

async fn run_with(limits: &Arc<ProcessLimits>, model: &Arc<Flaky>) -> Run {
    let (sink, mut events) = EventSink::channel(1000);
    let mw = LlmErrorHandlingMiddleware::new(LlmCallConfig::default(), limits.clone());
    let agent = Agent::builder(model.clone()).middleware([Arc::new(mw) as Arc<dyn Middleware>]).build().unwrap();
    let ctx = testing::context_with(sink);
    let outcome = agent.run(&ctx, Start::Input(StateUpdate::messages([Message::human("q")]))).await.unwrap();
    let mut waits = vec![];
    while let Ok(event) = events.try_recv() {
        if let AgentEvent::Custom(value) = event {
            waits.push((value["attempt"].as_u64().unwrap(), value["wait_ms"].as_u64().unwrap()));
        }
    }
    let answer = outcome.state.last_ai().unwrap().text().into_owned();
    Run { status: outcome.outcome.status, answer, calls: *model.calls.lock().unwrap(), waits }
}

fn limits() -> Arc<ProcessLimits> {
    ProcessLimits::new(
        &LlmCallConfig::default(),
        CircuitBreakerConfig { failure_threshold: 2, recovery_timeout_sec: 60 },
    )
}

#[tokio::test(start_paused = true)]
async fn a_busy_provider_is_retried_and_the_wait_is_told() {
    let run = run_with(&limits(), &flaky(vec![busy(), busy()])).await;
    assert_eq!((run.status, run.answer.as_str(), run.calls), (RunStatus::Success, "fine", 3));
    assert_eq!(run.waits.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1, 2]);
    assert!(run.waits.iter().all(|(_, ms)| (1000..=8000).contains(ms)), "{:?}", run.waits);
}

#[tokio::test(start_paused = true)]
async fn a_providers_own_wait_is_obeyed() {
    let error = ModelError { retry_after: Some(Duration::from_millis(12_345)), ..busy() };
    assert_eq!(run_with(&limits(), &flaky(vec![error])).await.waits, [(1, 12_345)]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_mended_is_not_retried_and_is_said() {
    for (kind, words) in [
        (ModelErrorKind::Auth, "refused the key"),
        (ModelErrorKind::Quota, "no credit or quota left"),
        (ModelErrorKind::UnknownModel, "failed: no"),
        (ModelErrorKind::ContextLength, "no longer fits"),
    ] {
        let run = run_with(&limits(), &flaky(vec![ModelError::new(kind, "no").with_hint("do this")])).await;
        assert_eq!((run.status, run.calls), (RunStatus::Error, 1));
        assert!(run.answer.contains(words) && run.answer.contains("hint: do this"), "{}", run.answer);
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded_by_kind() {
    let errors = |kind| (0..9).map(|_| ModelError::new(kind, "x")).collect::<Vec<_>>();
    assert_eq!(run_with(&limits(), &flaky(errors(ModelErrorKind::Transient))).await.calls, 3);
    assert_eq!(run_with(&limits(), &flaky(errors(ModelErrorKind::BurstRate))).await.calls, 2);
    assert_eq!(run_with(&limits(), &flaky(errors(ModelErrorKind::StreamInterrupted))).await.calls, 2);
}

#[tokio::test(start_paused = true)]
async fn the_models_own_number_of_retries_counts_within_the_bounds_of_the_kind() {
    let calls = async |retries: u32, kind: ModelErrorKind| {
        let mut model = flaky((0..9).map(|_| ModelError::new(kind, "x")).collect());
        Arc::get_mut(&mut model).unwrap().info.max_retries = Some(retries);
        run_with(&limits(), &model).await.calls
    };
    assert_eq!(calls(0, ModelErrorKind::Transient).await, 1);
    assert_eq!(calls(1, ModelErrorKind::Transient).await, 2);
    assert_eq!(calls(5, ModelErrorKind::Transient).await, 6);
    assert_eq!(calls(5, ModelErrorKind::BurstRate).await, 2);
}

#[tokio::test(start_paused = true)]
async fn the_circuit_opens_after_failures_and_one_probe_closes_it() {
    let limits = ProcessLimits::new(
        &LlmCallConfig::default(),
        CircuitBreakerConfig { failure_threshold: 2, recovery_timeout_sec: 0 },
    );
    let model = flaky((0..6).map(|_| busy()).collect());
    run_with(&limits, &model).await;
    assert!(matches!(limits.enter("m"), Pass::Closed));
    run_with(&limits, &model).await;
    let Pass::Probe(probe) = limits.enter("m") else { panic!("open, and due for a probe") };
    assert!(matches!(limits.enter("m"), Pass::Refused), "one probe at a time");
    // An older owner settles nothing.
    limits.leave("m", &Pass::Probe(probe + 1), CallVerdict::Healthy);
    assert!(matches!(limits.enter("m"), Pass::Refused));
    // A cancelled probe gives its place back without closing.
    limits.leave("m", &Pass::Probe(probe), CallVerdict::Unclear);
    assert_eq!(run_with(&limits, &model).await.answer, "fine");
    assert!(matches!(limits.enter("m"), Pass::Closed));
}

#[tokio::test(start_paused = true)]
async fn an_open_circuit_answers_without_calling() {
    let limits = limits();
    let model = flaky((0..6).map(|_| busy()).collect());
    run_with(&limits, &model).await;
    run_with(&limits, &model).await;
    let run = run_with(&limits, &model).await;
    assert_eq!((run.status, run.calls), (RunStatus::Error, 6));
    assert!(run.answer.contains("left alone"), "{}", run.answer);
}
