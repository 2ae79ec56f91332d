//! The loop, the hooks and their order.

use super::fixtures::*;
use crate::*;
use async_trait::async_trait;
use deerflow_core::*;
use pretty_assertions::assert_eq;
use serde_json::json;
use std::sync::{Arc, Mutex};

type Trace = Arc<Mutex<Vec<String>>>;

struct Tracer {
    name: &'static str,
    trace: Trace,
    jump: Option<(&'static str, JumpTarget)>,
}

impl Tracer {
    fn note(&self, hook: &str) -> HookResult {
        self.trace.lock().unwrap().push(format!("{}.{hook}", self.name));
        match self.jump {
            Some((at, target)) if at == hook => Ok(Hook::jump(StateUpdate::none(), target)),
            _ => Ok(Hook::none()),
        }
    }
}
use crate::middleware::HookResult;

#[async_trait]
impl Middleware for Tracer {
    fn name(&self) -> &'static str {
        self.name
    }
    async fn before_agent(&self, _: &RunContext, _: &ThreadState) -> HookResult {
        self.note("before_agent")
    }
    async fn before_model(&self, _: &RunContext, _: &ThreadState) -> HookResult {
        self.note("before_model")
    }
    async fn after_model(&self, _: &RunContext, _: &ThreadState) -> HookResult {
        self.note("after_model")
    }
    async fn after_agent(&self, _: &RunContext, _: &ThreadState) -> HookResult {
        self.note("after_agent")
    }
    async fn wrap_model_call(
        &self,
        _: &RunContext,
        _: &ThreadState,
        request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        self.note("model>")?;
        let message = next.run(request).await;
        self.note("<model")?;
        message
    }
    async fn wrap_tool_call(
        &self,
        _: &RunContext,
        request: ToolRequest,
        next: ToolNext<'_>,
    ) -> Result<ToolOutcome, AgentError> {
        self.note("tool>")?;
        let outcome = next.run(request).await;
        self.note("<tool")?;
        outcome
    }
}

fn pair(trace: &Trace, jump: Option<(&'static str, JumpTarget)>) -> Vec<Arc<dyn Middleware>> {
    vec![
        Arc::new(Tracer { name: "A", trace: trace.clone(), jump: None }),
        Arc::new(Tracer { name: "B", trace: trace.clone(), jump }),
    ]
}

#[tokio::test]
async fn hooks_run_in_order_and_after_hooks_in_reverse() {
    let trace = Trace::default();
    let model =
        Script::new(vec![Message::ai_calls("", vec![call("c", "do", json!({"text": "x"}))]), Message::ai("done")]);
    let tool = Recorder::new("do", Effects::ReadOnly);
    let outcome = agent(&model, &[&tool], pair(&trace, None)).run(&context(), input("hi")).await.unwrap();
    assert_eq!(story(&outcome.state), ["human:hi", "ai:", "tool:did x", "ai:done"]);
    assert_eq!(outcome.outcome.status, RunStatus::Success);
    let model_turn = [
        "A.before_model",
        "B.before_model",
        "A.model>",
        "B.model>",
        "B.<model",
        "A.<model",
        "B.after_model",
        "A.after_model",
    ];
    let mut want = vec!["A.before_agent", "B.before_agent"];
    want.extend(model_turn);
    want.extend(["A.tool>", "B.tool>", "B.<tool", "A.<tool"]);
    want.extend(model_turn);
    want.extend(["B.after_agent", "A.after_agent"]);
    assert_eq!(*trace.lock().unwrap(), want);
}

#[tokio::test]
async fn a_jump_skips_the_rest_of_its_phase() {
    let trace = Trace::default();
    let model = Script::new(vec![]);
    let chain = pair(&trace, Some(("before_agent", JumpTarget::End)));
    agent(&model, &[], chain).run(&context(), input("hi")).await.unwrap();
    assert_eq!(*trace.lock().unwrap(), ["A.before_agent", "B.before_agent", "B.after_agent", "A.after_agent"]);
    assert!(model.requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_hook_that_always_jumps_to_the_model_ends_at_the_turn_limit() {
    let trace = Trace::default();
    let model = Script::new(vec![]);
    let agent = Agent::builder(model.clone())
        .middleware(pair(&trace, Some(("after_model", JumpTarget::Model))))
        .max_turns(3)
        .build()
        .unwrap();
    let ctx = context();
    agent.run(&ctx, input("hi")).await.unwrap();
    assert_eq!(model.requests.lock().unwrap().len(), 3);
    assert_eq!(ctx.stop_reason().as_deref(), Some("turn_capped"));
}

/// BR-063: the last turn is asked for an answer, without tools, and its calls do not run.
#[tokio::test]
async fn the_turn_limit_ends_with_an_answer_not_an_error() {
    let again = || Message::ai_calls("", vec![call("c", "do", json!({"text": "x"}))]);
    let model = Script::new(vec![again(), again(), again(), again()]);
    let tool = Recorder::new("do", Effects::ReadOnly);
    let agent = Agent::builder(model.clone()).tools([tool.clone() as Arc<dyn Tool>]).max_turns(2).build().unwrap();
    let outcome = agent.run(&context(), input("hi")).await.unwrap();
    assert_eq!(tool.count(), 1);
    assert_eq!(outcome.outcome.status, RunStatus::Success);
    assert_eq!(outcome.outcome.stop_reason.as_deref(), Some("turn_capped"));
    assert!(outcome.state.last_ai().unwrap().text().starts_with("Stopped at the limit of 2 model turns"));
    let requests = model.requests.lock().unwrap();
    assert_eq!(requests[1].tool_choice, ToolChoice::None);
    assert!(requests[1].messages.last().unwrap().text().starts_with("[TURN LIMIT]"));
    assert_eq!(requests[0].tool_choice, ToolChoice::Auto);
}

#[tokio::test]
async fn the_outside_hears_of_a_message_only_when_it_is_durable() {
    let model = Script::new(vec![Message::ai("hello")]);
    let (sink, mut events) = EventSink::channel(64);
    agent(&model, &[], vec![]).run(&context_with(sink), input("hi")).await.unwrap();
    let mut names = vec![];
    while let Ok(event) = events.try_recv() {
        names.push(match event {
            AgentEvent::Message(m) => format!("message {}", m.role()),
            AgentEvent::Update(u) => format!("update {}", u.node),
            AgentEvent::ModelStarted { .. } => "model".into(),
            AgentEvent::ModelDelta { delta, .. } => format!("delta {}", delta.text),
            AgentEvent::Committed { .. } => "committed".into(),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(
        names,
        [
            "message human",
            "update __input__",
            "committed",
            "model",
            "delta hello",
            "message ai",
            "update model",
            "committed",
            "committed"
        ]
    );
}

#[tokio::test]
async fn cancelling_stops_a_silent_model_and_voids_the_attempt() {
    let model = Script::hanging(vec![], 0);
    let (sink, mut events) = EventSink::channel(64);
    let ctx = context_with(sink);
    let agent = agent(&model, &[], vec![]);
    let (result, ()) = tokio::join!(agent.run(&ctx, input("hi")), async {
        while !matches!(events.recv().await, Some(AgentEvent::ModelStarted { .. })) {}
        ctx.cancel.cancel();
    });
    assert!(result.unwrap_err().is_cancelled());
    assert!(matches!(events.recv().await, Some(AgentEvent::ModelDiscarded { .. })));
}

#[test]
fn a_builder_says_what_is_wrong() {
    let model = Script::new(vec![]);
    assert_eq!(Agent::builder(model.clone()).max_turns(0).build().err(), Some(BuildError::NoTurns));
    let nameless = Recorder::new("", Effects::Pure) as Arc<dyn Tool>;
    assert_eq!(Agent::builder(model.clone()).tools([nameless]).build().err(), Some(BuildError::UnnamedTool));
    let twice = [Recorder::new("a", Effects::Pure) as Arc<dyn Tool>, Recorder::new("a", Effects::Mutating) as _];
    let agent = Agent::builder(model).tools(twice).build().unwrap();
    assert_eq!(agent.tools().len(), 1);
    assert_eq!(agent.tools()[0].effects(), Effects::Pure);
}

/// Asks for more once the run would end, until it has been told twice.
struct GoesOn;

#[async_trait]
impl Middleware for GoesOn {
    fn name(&self) -> &'static str {
        "GoesOn"
    }
    async fn after_agent(&self, ctx: &RunContext, state: &ThreadState) -> HookResult {
        let asked = state.messages.iter().filter(|m| m.text() == "go on").count();
        if asked == 2 || ctx.stop_reason().is_some() {
            return Ok(Hook::none());
        }
        let more = Message::human("go on").hidden();
        Ok(Hook::jump(StateUpdate::messages([more]), JumpTarget::Model))
    }
}

#[tokio::test]
async fn a_run_goes_on_after_its_end_until_its_turns_are_used_up() {
    let model = Script::new(vec![Message::ai("one"), Message::ai("two"), Message::ai("three")]);
    let chain = || vec![Arc::new(GoesOn) as Arc<dyn Middleware>];
    let done = agent(&model, &[], chain()).run(&context(), input("go")).await.unwrap();
    assert_eq!(story(&done.state), ["human:go", "ai:one", "human:go on", "ai:two", "human:go on", "ai:three"]);
    let capped = Agent::builder(model.clone()).middleware(chain()).max_turns(2).build().unwrap();
    let done = capped.run(&context(), input("go")).await.unwrap();
    let texts = story(&done.state);
    assert_eq!(texts[..4], ["human:go", "ai:one", "human:go on", "ai:two"]);
    assert_eq!((done.outcome.status, done.outcome.stop_reason.as_deref()), (RunStatus::Success, Some("turn_capped")));
    assert_eq!(texts.len(), 4, "what cannot be answered any more is not asked");
}

/// Replaces the conversation by its last message before the second model turn.
struct Compacts;

#[async_trait]
impl Middleware for Compacts {
    fn name(&self) -> &'static str {
        "Compacts"
    }
    async fn before_agent(&self, _: &RunContext, state: &ThreadState) -> HookResult {
        let mut messages = vec![Arc::new(Message::remove_all())];
        messages.extend(state.messages.last().cloned());
        Ok(Hook::update(StateUpdate { messages, ..StateUpdate::none() }))
    }
}

#[tokio::test]
async fn what_a_compaction_keeps_is_not_told_again() {
    let (sink, mut events) = EventSink::channel(100);
    let chain: Vec<Arc<dyn Middleware>> = vec![Arc::new(Compacts)];
    let done = agent(&Script::new(vec![Message::ai("done")]), &[], chain).run(&context_with(sink), input("go")).await;
    assert_eq!(story(&done.unwrap().state), ["human:go", "ai:done"]);
    let mut told = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let AgentEvent::Message(message) = event {
            told.push(format!("{}:{}", message.role(), message.text()));
        }
    }
    assert_eq!(told, ["human:go", "ai:done"]);
}
