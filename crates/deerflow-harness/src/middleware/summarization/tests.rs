use super::super::testing::{Script, context, context_with, says, script};
use super::*;
use crate::middleware::DurableContextMiddleware;
use deerflow_agent::{Agent, Start};
use deerflow_core::message::kwargs;
use deerflow_core::{AgentEvent, EventSink, ModelError, ModelEvent, ModelInfo, ModelTurn, StoreError, ToolCall};
use futures::stream::{self, BoxStream, StreamExt};
use pretty_assertions::assert_eq;
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

pub(super) fn source(model: &Arc<Script>) -> ModelSource {
    let model: Arc<dyn ChatModel> = model.clone();
    Arc::new(move || Ok(model.clone()))
}

pub(super) fn config(trigger: ContextSize, keep: ContextSize) -> SummarizationConfig {
    SummarizationConfig { trigger: Some(Trigger::One(trigger)), keep, ..SummarizationConfig::default() }
}

fn by_messages(writer: &Arc<Script>, trigger: u32, keep: u32) -> DeerFlowSummarizationMiddleware {
    let config = config(ContextSize::messages(trigger), ContextSize::messages(keep));
    DeerFlowSummarizationMiddleware::new(config, script(vec![]), Some(source(writer)))
}

fn state(messages: Vec<Message>) -> ThreadState {
    let mut state = ThreadState::default();
    let named =
        messages.into_iter().enumerate().map(|(n, m)| if m.id.is_none() { m.with_id(format!("m{n}")) } else { m });
    state.apply(&StateUpdate::messages(named)).unwrap();
    state
}

fn calls(ids: &[&str]) -> Message {
    Message::ai_calls("", ids.iter().map(|id| ToolCall::new(*id, "bash", Default::default())).collect())
}

fn ids(state: &ThreadState) -> Vec<&str> {
    state.messages.iter().map(|m| m.id()).collect()
}

async fn step(mw: &DeerFlowSummarizationMiddleware, state: &mut ThreadState) -> Hook {
    let hook = mw.before_model(&context(), state).await.unwrap();
    state.apply(&hook.update).unwrap();
    hook
}

#[tokio::test]
async fn the_oldest_part_goes_in_one_write_with_its_summary() {
    let writer = script(vec![Message::ai("<think>hm</think>they said a to d")]);
    let mw = by_messages(&writer, 6, 2);
    let mut state = state(
        "abcdef".chars().map(|c| if c == 'e' { Message::human("e") } else { Message::ai(c.to_string()) }).collect(),
    );
    let hook = step(&mw, &mut state).await;
    assert_eq!(hook.update.messages[0].id(), deerflow_core::message::REMOVE_ALL);
    assert_eq!(hook.update.summary_text.as_deref(), Some("they said a to d"));
    assert_eq!(ids(&state), ["m4", "m5"]);
    let request = &writer.requests()[0];
    assert!(request.tools.is_empty() && !request.thinking);
    assert!(
        request.messages[0]
            .text()
            .contains("<new_messages>\nAssistant: a\nAssistant: b\nAssistant: c\nAssistant: d\n</new_messages>")
    );
}

#[tokio::test]
async fn below_every_trigger_or_switched_off_nothing_happens() {
    let writer = script(vec![]);
    let few = state((0..5).map(|n| Message::ai(n.to_string())).collect());
    assert!(by_messages(&writer, 6, 2).before_model(&context(), &few).await.unwrap().update.is_empty());
    let mut off = by_messages(&writer, 1, 1);
    off.config.enabled = false;
    assert!(off.before_model(&context(), &few).await.unwrap().update.is_empty());
    // Everything would be kept.
    assert!(by_messages(&writer, 3, 9).before_model(&context(), &few).await.unwrap().update.is_empty());
    assert_eq!(writer.requests().len(), 0);
}

#[tokio::test]
async fn any_trigger_of_a_list_is_enough_and_the_summary_counts() {
    let mut mw = by_messages(&script(vec![]), 100, 1);
    mw.config.trigger = Some(Trigger::Any(vec![ContextSize::messages(100), ContextSize::tokens(150)]));
    let mut state = state(vec![Message::human("x "), Message::ai("y")]);
    assert_eq!(mw.due(&state), None);
    state.summary_text = Some("word ".repeat(200));
    assert_eq!(mw.due(&state), Some(Some(150)));
    mw.config.trigger = Some(Trigger::One(ContextSize::fraction(0.5)));
    mw.window = 300;
    assert_eq!(mw.due(&state), Some(Some(150)));
}

/// The provider's own count shows what prompt and tools take; after a compaction the old counts say nothing.
#[tokio::test]
async fn what_the_provider_counted_decides_about_the_window() {
    let writer = script(vec![Message::ai("summary")]);
    let mut mw = by_messages(&writer, 100, 2);
    mw.config.trigger = None;
    mw.window = 1000;
    let mut counted = Message::ai("ok");
    counted.as_ai_mut().unwrap().usage_metadata = Some(Usage::new(850, 10));
    let mut state =
        state(vec![Message::ai("a ".repeat(100)), Message::ai("b ".repeat(60)), Message::human("c"), counted]);
    step(&mw, &mut state).await;
    assert_eq!(ids(&state), ["m2", "m3"]);
    assert_eq!(mw.due(&state), None, "the count is about a conversation that is no more");
}

#[tokio::test]
async fn a_call_is_never_parted_from_its_results() {
    for keep in 1..6 {
        let mw = by_messages(&script(vec![Message::ai("s")]), 2, keep);
        let mut state = state(vec![
            Message::human("go"),
            Message::ai("plan"),
            calls(&["a", "b"]),
            Message::tool("1", "a", "bash"),
            Message::tool("2", "b", "bash"),
            calls(&["a"]),
            Message::tool("3", "a", "bash"),
        ]);
        step(&mw, &mut state).await;
        let wanted = match keep {
            1 | 2 => vec!["m0", "m5", "m6"],
            3..=5 => vec!["m0", "m2", "m3", "m4", "m5", "m6"],
            _ => unreachable!(),
        };
        assert_eq!(ids(&state), wanted, "keep {keep}");
    }
}

/// BR-067
#[tokio::test]
async fn dates_system_messages_and_the_current_request_stay_word_for_word() {
    let date = |day: &str| {
        Message::system(day).hidden().with_kwarg(kwargs::DYNAMIC_CONTEXT, true).with_kwarg(kwargs::REMINDER_DATE, day)
    };
    let request = Message::human("the current request").with_id("r__user");
    let mut state = state(vec![
        date("Monday"),
        Message::human("old").with_id("old__user"),
        Message::ai("done"),
        Message::system("rule"),
        date("Tuesday"),
        request.clone(),
        Message::ai("working"),
        Message::human("reminder").hidden(),
        calls(&["a"]),
        Message::tool("1", "a", "bash"),
    ]);
    step(&by_messages(&script(vec![Message::ai("s")]), 5, 2), &mut state).await;
    assert_eq!(ids(&state), ["m3", "m4", "r__user", "m8", "m9"]);
    assert_eq!(*state.messages[2], request);
}

#[tokio::test]
async fn a_summary_is_merged_into_the_next_one() {
    let writer = script(vec![Message::ai("second")]);
    let mut state = state((0..6).map(|n| Message::ai(n.to_string())).collect());
    state.summary_text = Some("first <b>".into());
    step(&by_messages(&writer, 6, 2), &mut state).await;
    assert_eq!(state.summary_text.as_deref(), Some("second"));
    let asked = writer.requests()[0].messages[0].text().into_owned();
    assert!(asked.contains("<existing_summary>\nfirst &lt;b&gt;\n</existing_summary>"), "{asked}");
}

/// BR-066: a long stretch is summarised in parts, each of which fits.
#[tokio::test]
async fn what_does_not_fit_one_request_is_summarised_in_parts() {
    let writer = script(vec![Message::ai("one"), Message::ai("two"), Message::ai("three"), Message::ai("four")]);
    let mut mw = by_messages(&writer, 6, 1);
    mw.config.trim_tokens_to_summarize = Some(1000);
    let mut state = state((0..20).map(|n| Message::human(format!("{n} {}", "word ".repeat(80)))).collect());
    step(&mw, &mut state).await;
    let requests = writer.requests();
    assert_eq!(requests.len(), 4);
    assert!(requests[1].messages[0].text().contains("<existing_summary>\none\n"));
    assert!(requests.iter().all(|r| deerflow_tokens::text_tokens(&r.messages[0].text()) < 1400));
    assert_eq!(state.summary_text.as_deref(), Some("four"));
}

#[tokio::test]
async fn the_next_model_writes_when_one_cannot_and_nothing_changes_when_none_can() {
    let broken: ModelSource = Arc::new(|| Err("model small: no key".into()));
    let shape = config(ContextSize::messages(3), ContextSize::messages(1));
    let full = || state((0..6).map(|n| Message::ai(n.to_string())).collect());
    for first in [broken.clone(), source(&Arc::new(Script::named("small", vec![Message::ai(" ")])))] {
        let mw = DeerFlowSummarizationMiddleware::new(
            shape.clone(),
            Arc::new(Script::named("own", vec![Message::ai("by the run's own model")])),
            Some(first),
        );
        let mut state = full();
        step(&mw, &mut state).await;
        assert_eq!(state.summary_text.as_deref(), Some("by the run's own model"));
    }
    let mw = DeerFlowSummarizationMiddleware::new(shape, script(vec![Message::ai(""), Message::ai("")]), Some(broken));
    let mut state = full();
    let before = state.clone();
    step(&mw, &mut state).await;
    assert_eq!(state, before);
    let error = compact(&mw, &context(), &state, CompactOptions::default()).await.unwrap_err();
    assert!(matches!(&error, CompactError::Summary(e) if e.reasons.len() == 2), "{error}");
    assert!(error.to_string().contains("model small: no key"), "{error}");
}

/// The built-in model extracts by rules: whatever it says about a prompt is no summary.
#[tokio::test]
async fn the_offline_model_never_replaces_a_history() {
    let shape = config(ContextSize::messages(3), ContextSize::messages(1));
    let mw = DeerFlowSummarizationMiddleware::new(shape, Arc::new(deerflow_offline::OfflineModel::new()), None);
    let mut state = state((0..6).map(|n| Message::human(format!("fact {n}"))).collect());
    let before = state.clone();
    step(&mw, &mut state).await;
    assert_eq!(state, before);
    let error = compact(&mw, &context(), &state, CompactOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("offline model writes no summaries"), "{error}");
}

#[tokio::test]
async fn a_cancelled_run_is_not_taken_for_a_failed_summary() {
    let ctx = context();
    ctx.cancel.cancel();
    let state = state((0..6).map(|n| Message::ai(n.to_string())).collect());
    let result = by_messages(&script(vec![Message::ai("s")]), 3, 1).before_model(&ctx, &state).await;
    assert!(result.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn messages_that_say_nothing_cost_no_call_and_keep_the_summary() {
    let writer = script(vec![]);
    for before in [None, Some("so far".to_owned())] {
        let mut state = state((0..6).map(|_| Message::human("nudge").hidden()).collect());
        state.summary_text.clone_from(&before);
        step(&by_messages(&writer, 3, 1), &mut state).await;
        assert_eq!(state.messages.len(), 1);
        assert_eq!(
            state.summary_text.as_deref(),
            Some(before.as_deref().unwrap_or("(Nothing of note was said before this.)"))
        );
    }
    assert_eq!(writer.requests().len(), 0);
}

#[derive(Default)]
struct Watch {
    seen: Mutex<Vec<String>>,
    fails: Option<fn() -> AgentError>,
}

#[async_trait]
impl SummarizationHook for Watch {
    fn name(&self) -> &'static str {
        "watch"
    }
    async fn before_summarization(
        &self,
        _: &RunContext,
        event: SummarizationEvent<'_>,
    ) -> Result<StateUpdate, AgentError> {
        let text = |messages: &[Arc<Message>]| messages.iter().map(|m| m.text().into_owned()).collect::<String>();
        let line =
            format!("{}|{}|{}", text(event.messages_to_summarize), text(event.preserved_messages), event.summary);
        self.seen.lock().unwrap().push(line);
        match self.fails {
            Some(error) => Err(error()),
            None => Ok(StateUpdate {
                task_history: Some(json!({"status": "available"})),
                title: Some("no".into()),
                ..StateUpdate::none()
            }),
        }
    }
}

#[tokio::test]
async fn hooks_see_what_goes_only_when_it_goes_and_write_into_the_same_update() {
    let watch = Arc::new(Watch::default());
    let mw = by_messages(&script(vec![Message::ai("s"), Message::ai("")]), 4, 1).with_hook(watch.clone());
    let mut state = state("abcd".chars().map(|c| Message::ai(c.to_string())).collect());
    let hook = step(&mw, &mut state).await;
    assert_eq!(hook.update.task_history, Some(json!({"status": "available"})));
    assert_eq!(hook.update.title, None);
    let full =
        ThreadState { messages: (0..5).map(|n| Arc::new(Message::ai("e").with_id(n.to_string()))).collect(), ..state };
    let _ = mw.before_model(&context(), &full).await.unwrap();
    assert_eq!(*watch.seen.lock().unwrap(), ["abc|d|s"]);
}

#[tokio::test]
async fn a_hook_that_fails_is_logged_and_a_storage_failure_ends_the_run() {
    let state = state("abcd".chars().map(|c| Message::ai(c.to_string())).collect());
    let run = async |error: fn() -> AgentError| {
        let watch = Watch { fails: Some(error), ..Watch::default() };
        by_messages(&script(vec![Message::ai("s")]), 4, 1)
            .with_hook(Arc::new(watch))
            .before_model(&context(), &state)
            .await
    };
    assert!(run(|| AgentError::middleware("x", "y")).await.unwrap().update.summary_text.is_some());
    assert!(matches!(run(|| StoreError::Damaged("d".into()).into()).await, Err(AgentError::Store(_))));
    assert!(run(|| AgentError::Cancelled).await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn compaction_on_request_says_what_it_did_or_that_there_is_nothing() {
    let mut mw = by_messages(&script(vec![Message::ai("s")]), 100, 2);
    mw.config.enabled = false;
    let mut state = state((0..8).map(|n| Message::ai(format!("{n} {}", "word ".repeat(50)))).collect());
    let unforced = CompactOptions { force: false, keep: None };
    assert!(matches!(compact(&mw, &context(), &state, unforced).await, Err(CompactError::NothingToCompact)));
    let keep = CompactOptions { force: true, keep: Some(ContextSize::messages(50)) };
    assert!(matches!(compact(&mw, &context(), &state, keep).await, Err(CompactError::NothingToCompact)));
    let (events, mut seen) = EventSink::channel(10);
    let done = compact(&mw, &context_with(events), &state, CompactOptions::default()).await.unwrap();
    assert_eq!((done.removed_messages, done.preserved_messages), (6, 2));
    assert!(done.tokens_after * 3 < done.tokens_before, "{} -> {}", done.tokens_before, done.tokens_after);
    let Some(AgentEvent::Custom(told)) = seen.recv().await else { panic!("no event") };
    assert_eq!(
        (&told["type"], &told["reason"], &told["messages_compacted"], &told["compacted"], &told["tokens_after"]),
        (&json!("summarization"), &json!("manual"), &json!(6), &json!({"ai": 6}), &json!(done.tokens_after))
    );
    state.apply(&done.update).unwrap();
    assert_eq!(ids(&state), ["m6", "m7"]);
}

/// Refuses requests over a size, as a provider does.
struct Narrow {
    info: ModelInfo,
    window: u64,
    requests: Mutex<Vec<ChatRequest>>,
}

impl Narrow {
    fn new(window: u64) -> Arc<Self> {
        Arc::new(Self {
            info: ModelInfo { name: "narrow".into(), ..ModelInfo::default() },
            window,
            requests: Mutex::default(),
        })
    }
}

impl ChatModel for Narrow {
    fn info(&self) -> &ModelInfo {
        &self.info
    }
    fn stream(&self, request: ChatRequest, _: CancellationToken) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let fits = deerflow_tokens::request_tokens(&request) <= self.window;
        self.requests.lock().unwrap().push(request);
        let item = if fits {
            Ok(ModelEvent::Finished(Box::new(ModelTurn { message: Message::ai("answer") })))
        } else {
            Err(ModelError::new(ModelErrorKind::ContextLength, "too long"))
        };
        stream::iter([item]).boxed()
    }
}

fn long_thread() -> StateUpdate {
    let mut messages: Vec<Message> = vec![];
    for n in 0..12 {
        messages.push(calls(&["c"]));
        messages.push(Message::tool(format!("{n} {}", "data ".repeat(200)), "c", "bash"));
    }
    messages.push(Message::human("and now?"));
    StateUpdate { summary_text: Some("the old summary".into()), ..StateUpdate::messages(messages) }
}

/// The thread is not bricked: room is made once, the call is made again, and both are one durable step.
#[tokio::test]
async fn a_provider_that_says_too_long_is_believed() {
    let (model, writer) = (Narrow::new(1500), script(vec![Message::ai("the new summary")]));
    let mw = DeerFlowSummarizationMiddleware::new(SummarizationConfig::default(), model.clone(), Some(source(&writer)));
    let durable = DurableContextMiddleware::new(vec![], "/mnt/skills", None);
    let chain: [Arc<dyn Middleware>; 2] = [Arc::new(durable), Arc::new(mw)];
    let agent = Agent::builder(model.clone()).middleware(chain).build().unwrap();
    let done = agent.run(&context(), Start::Input(long_thread())).await.unwrap();
    let last = done.state.last_ai().unwrap();
    assert_eq!((last.text().as_ref(), last.additional_kwargs.contains_key(PENDING)), ("answer", false));
    assert_eq!(done.state.summary_text.as_deref(), Some("the new summary"));
    let requests = model.requests.lock().unwrap();
    assert_eq!(requests.len(), 2);
    let data = requests[1].messages.iter().find(|m| m.name.as_deref() == Some("durable_context")).unwrap();
    assert!(data.text().contains("the new summary") && !data.text().contains("the old summary"), "{}", data.text());
    // What is stored is what was sent, and the answer.
    let sent: Vec<_> = requests[1].messages.iter().filter_map(|m| m.id.clone()).collect();
    assert_eq!(ids(&done.state)[..sent.len()], sent);
    assert_eq!(done.state.messages.len(), sent.len() + 1);
    assert!(sent.len() < 12, "{}", sent.len());
}

/// Without a summary nothing goes for good: results are shorter in this one request.
#[tokio::test]
async fn without_a_summary_the_request_is_made_shorter_and_the_history_stays() {
    let model = Narrow::new(4200);
    let broken: ModelSource = Arc::new(|| Err("no".into()));
    let mut mw = DeerFlowSummarizationMiddleware::new(SummarizationConfig::default(), model.clone(), None);
    mw.candidates = vec![broken];
    let agent = Agent::builder(model.clone()).middleware([Arc::new(mw) as Arc<dyn Middleware>]).build().unwrap();
    let mut input = long_thread();
    let result = Message::tool("x ".repeat(20_000), "c", "bash");
    input.messages[1] = Arc::new(result);
    let done = agent.run(&context(), Start::Input(input)).await.unwrap();
    assert_eq!(done.state.last_ai().unwrap().text(), "answer");
    assert_eq!(done.state.messages.len(), 26);
    assert_eq!(done.state.messages[1].text().len(), 40_000);
    assert_eq!(done.state.summary_text.as_deref(), Some("the old summary"));
}

#[tokio::test]
async fn a_conversation_that_cannot_be_made_shorter_fails_as_it_did() {
    let model = Narrow::new(10);
    let mw = DeerFlowSummarizationMiddleware::new(SummarizationConfig::default(), model.clone(), None);
    let agent = Agent::builder(model.clone()).middleware([Arc::new(mw) as Arc<dyn Middleware>]).build().unwrap();
    let error = agent.run(&context(), says(&"word ".repeat(50))).await.unwrap_err();
    assert!(matches!(error, AgentError::Model(e) if e.kind == ModelErrorKind::ContextLength));
    assert_eq!(model.requests.lock().unwrap().len(), 1);
}

/// A guard that ended the turn skips the hooks after it; the write is made at the next turn then.
#[tokio::test]
async fn a_write_that_was_left_on_a_reply_is_made_later() {
    let mut state = state((0..4).map(|n| Message::ai(n.to_string())).collect());
    let write = StateUpdate {
        summary_text: Some("s".into()),
        ..StateUpdate::messages([Message::remove("m0"), Message::remove("gone already")])
    };
    state
        .apply(&StateUpdate::messages([
            Message::ai("x").with_id("x").with_kwarg(PENDING, json!(write)),
            Message::human("y").with_id("y"),
        ]))
        .unwrap();
    step(&by_messages(&script(vec![]), 100, 1), &mut state).await;
    assert_eq!(ids(&state), ["m1", "m2", "m3", "x", "y"]);
    assert_eq!(state.summary_text.as_deref(), Some("s"));
    assert!(pending(&state).is_none());
}

/// BR-066: one user message, sixty results of 2k tokens, a window of 64k.
#[tokio::test]
async fn one_long_tool_loop_never_overruns_the_window() {
    let mut mw = by_messages(&script((0..40).map(|n| Message::ai(format!("summary {n}"))).collect()), 100, 1);
    mw.config = SummarizationConfig::default();
    mw.window = 64_000;
    let mut state = state(vec![Message::human("read them all").with_id("u")]);
    for n in 0..60 {
        let id = format!("c{n}");
        let result = Message::tool("a line of data ".repeat(600), id.clone(), "bash");
        state.apply(&StateUpdate::messages([calls(&[&id]), result])).unwrap();
        step(&mw, &mut state).await;
        assert!(mw.tokens(&state.messages, state.summary_text.as_deref()) < 52_000);
        assert_eq!(state.messages.iter().filter(|m| m.id() == "u").count(), 1);
    }
    assert!(state.summary_text.is_some());
}

/// A tail that alone is over the trigger: newer turns go too, and at last results are cut; the newest turn stays.
#[tokio::test]
async fn a_tail_that_is_too_large_by_itself_is_made_smaller() {
    let mut mw = by_messages(&script((0..9).map(|_| Message::ai("s")).collect()), 100, 1);
    mw.config = config(ContextSize::tokens(3000), ContextSize::messages(20));
    let mut messages = vec![Message::human("go")];
    for n in 0..4 {
        messages.push(calls(&[&n.to_string()]));
        messages.push(Message::tool("data ".repeat(4000), n.to_string(), "bash"));
    }
    let mut state = state(messages);
    step(&mw, &mut state).await;
    assert_eq!(ids(&state), ["m0", "m7", "m8"]);
    assert!(state.messages[2].text().contains("cut to make room") && state.messages[2].flag(SHORTENED));
    assert_eq!(mw.due(&state), None);
}
