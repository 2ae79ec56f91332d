//! Questions that stop a run, and the answers it goes on with.

use super::fixtures::*;
use crate::middleware::HookResult;
use crate::*;
use async_trait::async_trait;
use deerflow_core::ports::{Checkpoint, Committed, HistoryEntry, NewJournalRow, StepCommit, StepLog};
use deerflow_core::run::Next;
use deerflow_core::*;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Asks before every batch; the answer `no` refuses all calls, anything else lets them run.
struct Asks(&'static str);

#[async_trait]
impl Middleware for Asks {
    fn name(&self) -> &'static str {
        self.0
    }
    async fn after_model(&self, _: &RunContext, state: &ThreadState) -> HookResult {
        let calls = state.last_ai().map(|m| m.tool_calls().len()).unwrap_or_default();
        Ok(if calls == 0 { Hook::none() } else { Hook::interrupt(StateUpdate::none(), json!({"calls": calls})) })
    }
    async fn on_answer(&self, _: &RunContext, state: &ThreadState, _: &Interrupt, answer: &Value) -> HookResult {
        if answer == "bad" {
            return Err(AgentError::middleware(self.0, "that is no answer"));
        }
        if answer != "no" {
            return Ok(Hook::none());
        }
        let refused = state.last_ai().map(|m| m.tool_calls().to_vec()).unwrap_or_default();
        Ok(Hook::update(StateUpdate::messages(
            refused.iter().map(|call| Message::tool_error("refused", call.id(), call.name.clone())),
        )))
    }
}

fn setup(chain: Vec<Arc<dyn Middleware>>) -> (Agent, Arc<Recorder>, Arc<EphemeralLog>) {
    let tool = Recorder::new("write", Effects::Mutating);
    let mut ask = Message::ai("");
    ask.as_ai_mut().unwrap().tool_calls = vec![call("c1", "write", json!({"text": "x"}))];
    let log = Arc::new(EphemeralLog::default());
    let agent = agent(&Script::new(vec![ask, Message::ai("done")]), &[&tool], chain).with_step_log(log.clone());
    (agent, tool, log)
}

async fn asked(agent: &Agent) -> Outcome {
    let stopped = agent.run(&context(), input("go")).await.unwrap();
    assert_eq!(stopped.outcome.status, RunStatus::Interrupted);
    stopped
}

#[tokio::test]
async fn a_question_stops_the_run_durably_and_yes_lets_it_go_on() {
    let (agent, tool, log) = setup(vec![Arc::new(Asks("A"))]);
    let stopped = asked(&agent).await;
    assert_eq!(tool.count(), 0);
    let head = log.load(&Lineage::root(ThreadId::parse("t").unwrap()), None).await.unwrap().unwrap();
    assert_eq!(head.next, Next::Wait);
    assert_eq!(head.state.interrupts(), stopped.state.interrupts());
    assert_eq!(stopped.state.interrupts()[0].value, json!({"calls": 1}));
    // Nobody answered: nothing moves.
    let still = agent.run(&context(), Start::Resume).await.unwrap();
    assert_eq!(still.outcome.status, RunStatus::Interrupted);
    let done = agent.run(&context(), Start::Answer(json!("yes"))).await.unwrap();
    assert_eq!((done.outcome.status, tool.count()), (RunStatus::Success, 1));
    assert_eq!(done.state.interrupts(), []);
    assert!(done.state.private.is_empty());
    assert!(matches!(agent.run(&context(), Start::Answer(json!("yes"))).await, Err(AgentError::NotWaiting)));
}

#[tokio::test]
async fn a_refusal_goes_to_the_model_and_a_bad_answer_leaves_the_question_open() {
    let (agent, tool, _) = setup(vec![Arc::new(Asks("A"))]);
    asked(&agent).await;
    assert!(agent.run(&context(), Start::Answer(json!("bad"))).await.is_err());
    let done = agent.run(&context(), Start::Answer(json!("no"))).await.unwrap();
    assert_eq!(story(&done.state), ["human:go", "ai:", "tool:refused", "ai:done"]);
    assert_eq!(tool.count(), 0);
}

#[tokio::test]
async fn several_questions_of_one_step_are_answered_by_id() {
    let (agent, tool, _) = setup(vec![Arc::new(Asks("A")), Arc::new(Asks("B"))]);
    let open = asked(&agent).await.state.interrupts();
    assert_eq!(open.iter().map(|q| q.node.as_str()).collect::<Vec<_>>(), ["B", "A"]);
    let answers = json!({open[0].id.clone(): "yes", open[1].id.clone(): "no"});
    let done = agent.run(&context(), Start::Answer(answers)).await.unwrap();
    assert_eq!(story(&done.state), ["human:go", "ai:", "tool:refused", "ai:done"]);
    assert_eq!(tool.count(), 0);
}

#[tokio::test]
async fn a_new_message_in_place_of_an_answer_closes_the_question() {
    let (agent, tool, _) = setup(vec![Arc::new(Asks("A"))]);
    asked(&agent).await;
    let stopped = agent.run(&context(), input("never mind")).await.unwrap();
    let texts = story(&stopped.state);
    assert!(texts[2].starts_with("tool:Error: the call was interrupted before it began"), "{texts:?}");
    assert_eq!(texts[3], "human:never mind");
    assert_eq!(stopped.state.interrupts().len(), 1, "only the new turn's question is open");
    assert_eq!(tool.count(), 0);
}

#[tokio::test]
async fn side_calls_count_for_the_run() {
    struct Side(Arc<dyn ChatModel>);
    #[async_trait]
    impl Middleware for Side {
        fn name(&self) -> &'static str {
            "Side"
        }
        async fn before_agent(&self, ctx: &RunContext, _: &ThreadState) -> HookResult {
            let limit = std::time::Duration::from_secs(5);
            let reply = side_call(ctx, &self.0, ChatRequest::default(), "middleware:test", limit).await?;
            assert_eq!(reply.text(), "aside");
            Ok(Hook::none())
        }
        async fn after_agent(&self, ctx: &RunContext, state: &ThreadState) -> HookResult {
            self.before_agent(ctx, state).await
        }
    }
    /// Keeps the journal rows.
    #[derive(Default)]
    struct Journal(EphemeralLog, Mutex<Vec<NewJournalRow>>, Mutex<Option<Usage>>);
    #[async_trait]
    impl StepLog for Journal {
        async fn commit(&self, commit: StepCommit) -> Result<Committed, StoreError> {
            self.1.lock().unwrap().extend(commit.events.clone());
            *self.2.lock().unwrap() = commit.outcome.as_ref().map(|outcome| outcome.usage.clone());
            self.0.commit(commit).await
        }
        async fn load(&self, lineage: &Lineage, at: Option<&CheckpointId>) -> Result<Option<Checkpoint>, StoreError> {
            self.0.load(lineage, at).await
        }
        async fn history(
            &self,
            lineage: &Lineage,
            before: Option<&CheckpointId>,
            limit: u32,
        ) -> Result<Vec<HistoryEntry>, StoreError> {
            self.0.history(lineage, before, limit).await
        }
    }
    let mut aside = Message::ai("aside");
    aside.as_ai_mut().unwrap().usage_metadata = Some(Usage::new(3, 4));
    let mut answer = Message::ai("done");
    answer.as_ai_mut().unwrap().usage_metadata = Some(Usage::new(10, 1));
    let side = Script::new(vec![aside.clone(), aside]);
    let (events, mut seen) = EventSink::channel(100);
    let agent = agent(&Script::new(vec![answer]), &[], vec![Arc::new(Side(side))]);
    let journal = Arc::new(Journal::default());
    let agent = agent.with_step_log(journal.clone());
    let done = agent.run(&context_with(events), input("go")).await.unwrap();
    assert_eq!(done.outcome.usage, Usage::new(16, 9), "those of the last hooks too");
    assert_eq!(*journal.2.lock().unwrap(), Some(Usage::new(16, 9)));
    let rows = journal.1.lock().unwrap().clone();
    let counted: Vec<_> = rows
        .iter()
        .map(|row| (row.event.as_str(), &row.metadata["caller"], &row.metadata["usage"]["total_tokens"]))
        .collect();
    let (side, lead, seven, eleven) = (&json!("middleware:test"), &json!("lead_agent"), &json!(7), &json!(11));
    assert_eq!(counted, [("llm.usage", side, seven), ("llm.usage", lead, eleven), ("llm.usage", side, seven)]);
    assert!(rows.iter().all(|row| row.metadata["model"].is_string()));
    while let Ok(event) = seen.try_recv() {
        assert!(!matches!(event, AgentEvent::ModelDelta { delta, .. } if delta.text == "aside"));
    }
}
