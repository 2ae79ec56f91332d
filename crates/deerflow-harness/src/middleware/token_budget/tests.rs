use super::super::testing::{context, context_with, says, script};
use super::*;
use crate::middleware::GoalMiddleware;
use deerflow_agent::{Agent, Start};
use deerflow_core::{EventSink, RunId, ThreadId, ToolCall, Usage, UserId};
use pretty_assertions::assert_eq;
use tokio_util::sync::CancellationToken;

fn budget(max_tokens: u64) -> TokenBudgetConfig {
    TokenBudgetConfig { enabled: true, max_tokens, ..TokenBudgetConfig::default() }
}

fn reply(text: &str, input: u64, output: u64) -> Message {
    let mut message = Message::ai(text);
    message.as_ai_mut().unwrap().usage_metadata = Some(Usage::new(input, output));
    message
}

fn calling(input: u64, output: u64) -> Message {
    let mut message = reply("", input, output);
    message.as_ai_mut().unwrap().tool_calls = vec![ToolCall::new("c", "nothing", Default::default())];
    message
}

async fn run(config: TokenBudgetConfig, turns: Vec<Message>) -> (deerflow_agent::Outcome, Vec<ChatRequest>) {
    let model = script(turns);
    let budget: Arc<dyn Middleware> = Arc::new(TokenBudgetMiddleware::new(config));
    let agent = Agent::builder(model.clone()).middleware([budget]).build().unwrap();
    let done = agent.run(&context(), says("go")).await.unwrap();
    let requests = model.requests().clone();
    (done, requests)
}

fn warned(request: &ChatRequest) -> bool {
    request.messages.iter().any(|m| m.name.as_deref() == Some("budget_warning"))
}

#[tokio::test]
async fn the_model_is_warned_once_then_its_calls_are_dropped() {
    let turns = vec![calling(700, 100), calling(50, 50), calling(50, 50), reply("never", 1, 1)];
    let (done, requests) = run(budget(1000), turns).await;
    assert_eq!(requests.iter().map(warned).collect::<Vec<_>>(), [false, true, false]);
    let last = done.state.last_ai().unwrap();
    assert!(last.tool_calls().is_empty());
    assert_eq!(
        last.text(),
        "[Stopped: this run has used 1000 of its 1000 tokens. The calls of this turn (nothing) were not run. Send a new message to \
         go on.]"
    );
    assert_eq!(done.outcome.stop_reason.as_deref(), Some("token_capped"));
    assert_eq!(last.finish_reason(), Some("stop"));
}

#[tokio::test]
async fn the_tightest_limit_counts_and_none_when_it_is_switched_off() {
    let tight = TokenBudgetConfig { max_output_tokens: Some(100), ..budget(10_000) };
    let (done, _) = run(tight, vec![calling(10, 100)]).await;
    assert!(done.state.last_ai().unwrap().text().contains("100 of its 100 output tokens"));
    let (done, _) =
        run(TokenBudgetConfig { max_input_tokens: Some(500), ..budget(10_000) }, vec![calling(600, 1)]).await;
    assert!(done.state.last_ai().unwrap().text().contains("600 of its 500 input tokens"));
    let off = TokenBudgetConfig { enabled: false, ..budget(1000) };
    let (done, requests) = run(off, vec![calling(5000, 1), reply("done", 1, 1)]).await;
    assert_eq!((done.state.last_ai().unwrap().text().as_ref(), requests.len()), ("done", 2));
    assert!(done.state.private.is_empty());
}

#[tokio::test]
async fn a_final_answer_at_the_limit_is_left_as_it_is() {
    let (done, _) = run(budget(1000), vec![reply("the answer", 2000, 1)]).await;
    assert_eq!(done.state.last_ai().unwrap().text(), "the answer");
    assert_eq!(done.outcome.stop_reason.as_deref(), Some("token_capped"));
}

fn context_of(run: &str) -> RunContext {
    let (user, thread) = (UserId::local(), ThreadId::parse("thread").unwrap());
    RunContext::new(user, thread, RunId::parse(run).unwrap(), CancellationToken::new(), EventSink::none())
}

/// The kernel's order of hooks over a state that goes through JSON between turns, as through a store.
struct Story {
    state: ThreadState,
    ctx: RunContext,
    config: TokenBudgetConfig,
}

impl Story {
    async fn begin(&mut self, run: &str) {
        self.ctx = context_of(run);
        self.state.apply(&StateUpdate::messages([Message::human("x")])).unwrap();
        let hook = TokenBudgetMiddleware::new(self.config.clone()).before_agent(&self.ctx, &self.state).await.unwrap();
        self.state.apply(&hook.update).unwrap();
    }
    async fn turn(&mut self, message: Message) -> u64 {
        self.state = serde_json::from_value(json!(self.state)).unwrap();
        self.state.apply(&StateUpdate::messages([message])).unwrap();
        let hook = TokenBudgetMiddleware::new(self.config.clone()).after_model(&self.ctx, &self.state).await.unwrap();
        self.state.apply(&hook.update).unwrap();
        SLOT.get(&self.state).unwrap().tokens[2]
    }
}

#[tokio::test]
async fn a_resume_a_compaction_and_a_later_increase_are_counted_right() {
    let mut story = Story { state: ThreadState::default(), ctx: context(), config: budget(1_000_000) };
    story.state.apply(&StateUpdate::messages([reply("before", 5000, 5)])).unwrap();
    story.begin("one").await;
    assert_eq!(story.turn(calling(100, 10).with_id("a")).await, 110);
    // What sub-agents used is added to the message that sent them out.
    story.state.apply(&StateUpdate::messages([calling(300, 10).with_id("a")])).unwrap();
    assert_eq!(story.turn(calling(10, 0)).await, 320);
    assert_eq!(story.turn(calling(10, 0)).await, 330, "an increase counts once");
    // Everything before the last message is compacted away.
    let last = story.state.messages.last().unwrap().clone();
    story.state.messages = vec![last];
    assert_eq!(story.turn(calling(10, 0)).await, 340);
    story.state.messages.clear();
    assert_eq!(story.turn(calling(10, 0)).await, 350);
    for _ in 0..10 {
        story.turn(calling(1, 0)).await;
    }
    assert_eq!(SLOT.get(&story.state).unwrap().counted.len(), WATCHED);
    story.begin("two").await;
    assert_eq!(story.turn(reply("x", 7, 0)).await, 7, "a new run has a new budget");
    // A run that begins with an answer has no `before_agent`.
    story.ctx = context_of("three");
    assert_eq!(story.turn(reply("y", 3, 0)).await, 3);
}

/// The turns that a goal adds are turns of the same run.
#[tokio::test]
async fn a_goal_does_not_go_on_past_the_budget() {
    let verdict = || Message::ai(json!({"satisfied": false, "blocker": "goal_not_met_yet", "reason": "r"}).to_string());
    let worker = script(vec![reply("one", 600, 0), reply("two", 600, 0), reply("three", 600, 0)]);
    let judge = script(vec![verdict(), verdict(), verdict()]);
    let goal: Arc<dyn Middleware> = Arc::new(GoalMiddleware::new(judge));
    let limit: Arc<dyn Middleware> = Arc::new(TokenBudgetMiddleware::new(budget(1000)));
    let agent = Agent::builder(worker.clone()).middleware([goal, limit]).build().unwrap();
    let Start::Input(mut input) = says("go") else { unreachable!() };
    let set = crate::goal::set(crate::goal::new_goal("finish it", Some(8)).unwrap());
    (input.goal, input.remove) = (set.goal, set.remove);
    let (events, mut seen) = EventSink::channel(200);
    let done = agent.run(&context_with(events), Start::Input(input)).await.unwrap();
    assert_eq!(worker.requests().len(), 2);
    assert_eq!(done.outcome.stop_reason.as_deref(), Some("token_capped"));
    let mut phases = Vec::new();
    while let Ok(event) = seen.try_recv() {
        if let deerflow_core::AgentEvent::Custom(v) = event
            && v["type"] == "token_budget"
        {
            phases.push(v["phase"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(phases, ["stopped"]);
}

/// A judge that costs more than the work does not run on for free.
#[tokio::test]
async fn calls_beside_the_conversation_count() {
    let verdict = || {
        let text = json!({"satisfied": false, "blocker": "goal_not_met_yet", "reason": "r"}).to_string();
        reply(&text, 400, 100)
    };
    let worker = script((0..5).map(|n| reply(&format!("part {n}"), 10, 0)).collect());
    let judge = script((0..5).map(|_| verdict()).collect());
    let goal: Arc<dyn Middleware> = Arc::new(GoalMiddleware::new(judge));
    let limit: Arc<dyn Middleware> = Arc::new(TokenBudgetMiddleware::new(budget(1000)));
    let agent = Agent::builder(worker.clone()).middleware([goal, limit]).build().unwrap();
    let Start::Input(mut input) = says("go") else { unreachable!() };
    let set = crate::goal::set(crate::goal::new_goal("finish it", Some(8)).unwrap());
    (input.goal, input.remove) = (set.goal, set.remove);
    let done = agent.run(&context(), Start::Input(input)).await.unwrap();
    // 10, 520 and, with the second judgement, 1030 tokens after each turn.
    assert_eq!((worker.requests().len(), done.outcome.stop_reason.as_deref()), (3, Some("token_capped")));
    assert_eq!(SLOT.get(&done.state).unwrap().tokens, [830, 200, 1030]);
}

/// The counters of calls beside the conversation begin anew in every process.
#[tokio::test]
async fn after_a_resume_calls_beside_the_conversation_count_once() {
    let mut story = Story { state: ThreadState::default(), ctx: context(), config: budget(1_000_000) };
    story.begin("one").await;
    story.ctx.record_usage("middleware:title", "m", Usage::new(30, 5));
    assert_eq!(story.turn(calling(10, 0)).await, 45);
    assert_eq!(story.turn(calling(10, 0)).await, 55);
    story.ctx = context_of("one");
    assert_eq!(story.turn(calling(10, 0)).await, 65);
    story.ctx.record_usage("middleware:summarize", "m", Usage::new(300, 0));
    assert_eq!(story.turn(calling(10, 0)).await, 375);
    story.ctx.record_usage("middleware:summarize", "m", Usage::new(1, 0));
    assert_eq!(story.turn(calling(10, 0)).await, 386);
    story.begin("two").await;
    assert_eq!(story.turn(calling(10, 0)).await, 10);
}

#[test]
fn a_warning_after_the_stop_is_refused() {
    use deerflow_config::{Loader, Registry};
    let load = |value: &str| {
        let loader = Loader::new(Registry::new().with::<TokenBudgetConfig>()).cwd("/nowhere");
        loader
            .env([("HOME".to_owned(), "/nowhere".to_owned())])
            .set("token_budget.warn_threshold", value)
            .set("token_budget.hard_stop_threshold", "0.9")
            .load()
    };
    assert!(load("0.8").is_ok());
    assert!(load("0.95").is_err());
    assert!(load("1.5").is_err());
}

#[test]
fn a_sub_agent_has_a_budget_by_default() {
    let budget = |compacted| {
        let config = TokenBudgetConfig::for_subagent(compacted);
        (config.enabled, config.max_tokens, config.warn_threshold)
    };
    assert_eq!(budget(true), (true, 1_000_000, 0.7));
    assert_eq!(budget(false), (true, 2_000_000, 0.7));
}
