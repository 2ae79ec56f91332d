use super::super::testing;
use super::*;
use deerflow_agent::{Agent, Start};
use deerflow_core::{AgentEvent, ChatModel, EventSink, ModelEvent, ModelInfo, ModelTurn, RunStatus, StateUpdate};
use futures::stream::{BoxStream, StreamExt};
use pretty_assertions::assert_eq;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Mutex;
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

/// Fails for ever with this error, after these words.
struct Down {
    info: ModelInfo,
    words: &'static str,
    error: ModelError,
    calls: Mutex<u32>,
}

impl ChatModel for Down {
    fn info(&self) -> &ModelInfo {
        &self.info
    }
    fn stream(&self, _: ChatRequest, _: CancellationToken) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        *self.calls.lock().unwrap() += 1;
        let words =
            (!self.words.is_empty()).then(|| Ok(ModelEvent::Delta(deerflow_core::MessageDelta::text(self.words))));
        futures::stream::iter(words.into_iter().chain([Err(self.error.clone())])).boxed()
    }
}

fn down(name: &str, error: ModelError) -> Arc<Down> {
    saying(name, "", error)
}
fn saying(name: &str, words: &'static str, error: ModelError) -> Arc<Down> {
    Arc::new(Down { info: ModelInfo { name: name.into(), ..Default::default() }, words, error, calls: Mutex::new(0) })
}
fn up(name: &str) -> Arc<Flaky> {
    let mut model = flaky(Vec::new());
    Arc::get_mut(&mut model).unwrap().info.name = name.into();
    model
}
fn of(kind: ModelErrorKind) -> ModelError {
    ModelError::new(kind, "no")
}

/// One run of a thread that holds `before`: the last message, and the hand-overs told (`a>b reason`).
async fn hand_over(
    limits: &Arc<ProcessLimits>,
    before: Vec<Message>,
    own: Arc<dyn ChatModel>,
    fallbacks: Vec<Arc<dyn ChatModel>>,
) -> (Message, RunStatus, Vec<String>) {
    let (sink, mut events) = EventSink::channel(1000);
    let mw = LlmErrorHandlingMiddleware::new(LlmCallConfig::default(), limits.clone()).with_fallbacks(fallbacks);
    let agent = Agent::builder(own).middleware([Arc::new(mw) as Arc<dyn Middleware>]).build().unwrap();
    let input = before.into_iter().chain([Message::human("q")]);
    let outcome = agent.run(&testing::context_with(sink), Start::Input(StateUpdate::messages(input))).await.unwrap();
    let mut told = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let AgentEvent::Custom(value) = event
            && value["type"] == "model_fallback"
        {
            let part = |key: &str| value[key].as_str().unwrap().to_owned();
            assert!(part("message").contains(&format!("Model {} answers in place of {}", part("to"), part("from"))));
            told.push(format!("{}>{} {}", part("from"), part("to"), part("reason")));
        }
    }
    (outcome.state.last_ai().unwrap().as_ref().clone(), outcome.outcome.status, told)
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_cannot_answer_hands_over_and_it_is_told() {
    for (kind, calls) in [
        (ModelErrorKind::Auth, 1),
        (ModelErrorKind::Quota, 1),
        (ModelErrorKind::UnknownModel, 1),
        (ModelErrorKind::BadResponse, 1),
        (ModelErrorKind::Unreachable, 2),
        (ModelErrorKind::BurstRate, 2),
        (ModelErrorKind::StreamInterrupted, 2),
        (ModelErrorKind::Busy, 3),
        (ModelErrorKind::Transient, 3),
    ] {
        let own = down("a", of(kind));
        let (message, status, told) = hand_over(&limits(), vec![], own.clone(), vec![up("b")]).await;
        assert_eq!((status, message.text().as_ref()), (RunStatus::Success, "fine"), "{kind:?}");
        assert_eq!(message.response_metadata[ANSWERED_BY], "b");
        assert_eq!(told, [format!("a>b {}", kind.reason())]);
        assert_eq!(*own.calls.lock().unwrap(), calls, "each model has its own retries first: {kind:?}");
    }
    let (message, _, told) = hand_over(&limits(), vec![], up("a"), vec![up("b")]).await;
    assert_eq!((message.response_metadata.get(ANSWERED_BY), told.len()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_the_request_or_was_shown_already_does_not_hand_over() {
    for own in [
        down("a", of(ModelErrorKind::BadRequest)),
        down("a", of(ModelErrorKind::ContextLength)),
        saying("a", "half", of(ModelErrorKind::Quota)),
        saying("a", "half", of(ModelErrorKind::StreamInterrupted)),
    ] {
        let next = up("b");
        let (message, status, told) = hand_over(&limits(), vec![], own, vec![next.clone()]).await;
        assert_eq!((status, told.len(), *next.calls.lock().unwrap()), (RunStatus::Error, 0, 0), "{}", message.text());
    }
}

#[tokio::test(start_paused = true)]
async fn when_nobody_answers_it_says_who_was_asked() {
    let line: Vec<Arc<dyn ChatModel>> = vec![down("b", of(ModelErrorKind::Quota)), down("c", of(ModelErrorKind::Auth))];
    let (message, status, told) = hand_over(&limits(), vec![], down("a", busy()), line).await;
    assert_eq!((status, told), (RunStatus::Error, vec!["a>b busy".to_owned(), "b>c quota".to_owned()]));
    let text = message.text();
    assert!(
        text.starts_with("The model refused the key") && text.ends_with("Tried before: a (busy), b (quota)."),
        "{text}"
    );
    assert_eq!(message.additional_kwargs["error_reason"], Value::from("auth"));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_handed_over_is_asked_after_the_others_for_a_while() {
    let limits = limits();
    let own = down("a", of(ModelErrorKind::Auth));
    let (first, _, _) = hand_over(&limits, vec![], own.clone(), vec![up("b")]).await;
    // The thread knows who answered; another thread does not.
    let (_, _, told) = hand_over(&limits, vec![Message::human("q"), first], own.clone(), vec![up("b")]).await;
    assert_eq!(told, Vec::<String>::new());
    let (_, _, told) = hand_over(&limits, vec![], own.clone(), vec![up("b")]).await;
    assert_eq!((told, *own.calls.lock().unwrap()), (vec!["a>b auth".to_owned()], 1));
    // It is the last resort all the same.
    let line: Vec<Arc<dyn ChatModel>> = vec![down("b", of(ModelErrorKind::Quota))];
    let (message, _, told) = hand_over(&limits, vec![], up("a"), line).await;
    assert_eq!((message.text().as_ref(), message.response_metadata.get(ANSWERED_BY)), ("fine", None));
    assert_eq!(told, ["a>b auth", "b>a quota"]);
    // That it answered ends its rest.
    assert_eq!((limits.rests("a"), limits.rests("b")), (None, Some("quota")));
}

#[tokio::test(start_paused = true)]
async fn an_open_circuit_hands_over_without_a_call() {
    let limits = limits();
    let own = flaky((0..6).map(|_| busy()).collect());
    run_with(&limits, &own).await;
    run_with(&limits, &own).await;
    let (message, _, told) = hand_over(&limits, vec![], own.clone(), vec![up("b")]).await;
    assert_eq!((message.text().as_ref(), told), ("fine", vec!["m>b circuit_open".to_owned()]));
    assert_eq!(*own.calls.lock().unwrap(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_that_a_provider_asks_for_is_waited_only_without_a_next_model() {
    let long = ModelError { retry_after: Some(Duration::from_secs(60)), ..busy() };
    let own = flaky(vec![long.clone()]);
    let (message, _, _) = hand_over(&limits(), vec![], own.clone(), vec![up("b")]).await;
    assert_eq!((message.response_metadata.get(ANSWERED_BY), *own.calls.lock().unwrap()), (Some(&Value::from("b")), 1));
    let own = flaky(vec![long]);
    let (message, _, _) = hand_over(&limits(), vec![], own.clone(), vec![]).await;
    assert_eq!((message.response_metadata.get(ANSWERED_BY), *own.calls.lock().unwrap()), (None, 2));
}

#[tokio::test]
async fn a_call_beside_the_conversation_goes_down_the_same_line() {
    let limits = limits();
    let own = down("a", of(ModelErrorKind::Auth));
    let ask = async |own: Arc<dyn ChatModel>, line: Vec<Arc<dyn ChatModel>>| {
        let model = FallbackModel::around(own, line, limits.clone());
        model.stream(ChatRequest::default(), CancellationToken::new()).collect::<Vec<_>>().await
    };
    let events = ask(own.clone(), vec![down("b", of(ModelErrorKind::Quota)), up("c")]).await;
    let [Ok(ModelEvent::Finished(turn))] = &events[..] else { panic!("{events:?}") };
    assert_eq!(turn.message.response_metadata[ANSWERED_BY], "c");
    // The first that is awake is the only one asked now.
    ask(own.clone(), vec![down("b", of(ModelErrorKind::Quota)), up("c")]).await;
    assert_eq!(*own.calls.lock().unwrap(), 1);
    // What may be over by now is asked again.
    let hiccup = down("h", of(ModelErrorKind::Transient));
    ask(hiccup.clone(), vec![up("c")]).await;
    ask(hiccup.clone(), vec![up("c")]).await;
    assert_eq!(*hiccup.calls.lock().unwrap(), 2);
    let events = ask(saying("x", "half", of(ModelErrorKind::Quota)), vec![up("c")]).await;
    assert!(matches!(&events[..], [Ok(ModelEvent::Delta(_)), Err(error)] if error.kind == ModelErrorKind::Quota));
    let events = ask(down("y", of(ModelErrorKind::Busy)), vec![down("z", of(ModelErrorKind::Auth))]).await;
    assert!(
        matches!(&events[..], [Err(error)] if error.kind == ModelErrorKind::Auth),
        "the last error is the one told"
    );
}
