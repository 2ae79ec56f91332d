use super::super::testing::{Script, context, context_with, says, script};
use super::*;
use deerflow_agent::{Agent, EphemeralLog, Start};
use deerflow_core::{EventSink, RunStatus, Usage};
use pretty_assertions::assert_eq;

fn verdict(satisfied: bool, blocker: &str) -> Message {
    Message::ai(
        json!({"satisfied": satisfied, "blocker": blocker, "reason": "because", "relied_on_assumption": false})
            .to_string(),
    )
}

fn agent(worker: &Arc<Script>, judge: &Arc<Script>) -> Agent {
    let goal: Arc<dyn Middleware> = Arc::new(GoalMiddleware::new(judge.clone()));
    let log = Arc::new(EphemeralLog::default());
    Agent::builder(worker.clone()).middleware([goal]).step_log(log).build().unwrap()
}

fn with_goal(max: u32) -> Start {
    let Start::Input(mut input) = says("go") else { unreachable!() };
    let set = goal::set(goal::new_goal("finish it", Some(max)).unwrap());
    (input.goal, input.remove) = (set.goal, set.remove);
    Start::Input(input)
}

/// Visible texts, and how the goal stands.
fn story(state: &ThreadState) -> (Vec<String>, Option<String>) {
    let texts = state.messages.iter().filter(|m| !m.flag(kwargs::HIDE_FROM_UI)).map(|m| m.text().into_owned());
    let stand = state.goal.as_ref().and_then(|g| g.last_evaluation.as_ref());
    let stand = stand.and_then(|e| e.extra.get("stand_down_reason")).and_then(Value::as_str);
    (texts.collect(), stand.map(str::to_owned))
}

#[tokio::test]
async fn the_run_goes_on_until_the_goal_is_met() {
    let worker = script(vec![Message::ai("half"), Message::ai("all")]);
    let judge = script(vec![verdict(false, "goal_not_met_yet"), verdict(true, "none")]);
    let done = agent(&worker, &judge).run(&context(), with_goal(8)).await.unwrap();
    assert_eq!(story(&done.state).0, ["go", "half", "all"]);
    assert_eq!(done.state.goal, None);
    let outcome = done.state.goal_outcome.as_ref().unwrap();
    assert_eq!((&outcome["status"], &outcome["continuation_count"]), (&json!("achieved"), &json!(1)));
    assert_eq!(outcome["reply_message_id"], json!(done.state.last_ai().unwrap().id()));
    let request = &worker.requests()[1];
    let hidden = request.messages.last().unwrap();
    assert!(hidden.flag(GOAL_CONTINUATION) && hidden.text().contains("Goal: finish it"), "{}", hidden.text());
    // The judge sees the texts and no tools.
    let seen = &judge.requests()[1];
    assert!(seen.tools.is_empty() && seen.messages[0].text().ends_with("Assistant: \"half\"\nAssistant: \"all\""));
}

#[tokio::test]
async fn each_reason_to_stand_down_is_kept_with_the_goal() {
    let same = || Message::ai("same");
    let cases = [
        (vec![same()], vec![verdict(false, "needs_user_input")], 8, "blocked:needs_user_input"),
        (vec![same()], vec![verdict(false, "goal_not_met_yet")], 0, "max_continuations_reached"),
        (
            vec![Message::ai("1"), Message::ai("2")],
            vec![verdict(false, "goal_not_met_yet"), verdict(false, "goal_not_met_yet")],
            1,
            "max_continuations_reached",
        ),
        (
            vec![same(), same(), same()],
            (0..3).map(|_| verdict(false, "goal_not_met_yet")).collect(),
            8,
            "no_progress_detected",
        ),
        (vec![Message::ai(" ")], vec![], 8, "no_durable_end_of_turn"),
    ];
    for (turns, verdicts, max, expected) in cases {
        let (calls, worker, judge) = (turns.len(), script(turns), script(verdicts));
        let done = agent(&worker, &judge).run(&context(), with_goal(max)).await.unwrap();
        assert_eq!(story(&done.state).1.as_deref(), Some(expected));
        assert_eq!((worker.requests().len(), done.outcome.status), (calls, RunStatus::Success), "{expected}");
        assert!(done.state.goal_outcome.is_none());
    }
}

#[tokio::test]
async fn an_evaluator_that_fails_changes_nothing_and_is_announced() {
    let (events, mut seen) = EventSink::channel(100);
    let done = agent(&script(vec![Message::ai("x")]), &script(vec![Message::ai("no json")]))
        .run(&context_with(events), with_goal(8))
        .await
        .unwrap();
    assert_eq!(done.state.goal.as_ref().unwrap().last_evaluation, None);
    let mut announced = false;
    while let Ok(event) = seen.try_recv() {
        announced |= matches!(event, deerflow_core::AgentEvent::Custom(v) if v["phase"] == "evaluation_failed");
    }
    assert!(announced);
}

#[tokio::test]
async fn without_a_goal_or_after_a_failed_model_nobody_judges() {
    let judge = script(vec![]);
    agent(&script(vec![Message::ai("x")]), &judge).run(&context(), says("go")).await.unwrap();
    let failed = Message::ai("sorry").with_kwarg(kwargs::ERROR_FALLBACK, true);
    agent(&script(vec![failed]), &judge).run(&context(), with_goal(8)).await.unwrap();
    assert_eq!(judge.requests().len(), 0);
}

#[tokio::test]
async fn a_limit_that_ended_the_turn_is_not_run_past() {
    let worker = script(vec![Message::ai("x")]);
    let judge = script(vec![verdict(false, "goal_not_met_yet")]);
    let goal: Arc<dyn Middleware> = Arc::new(GoalMiddleware::new(judge));
    let agent = Agent::builder(worker.clone()).middleware([goal]).max_turns(1).build().unwrap();
    let done = agent.run(&context(), with_goal(8)).await.unwrap();
    assert_eq!(story(&done.state).1.as_deref(), Some("turn_capped"));
    assert_eq!(worker.requests().len(), 1);
    assert_eq!(done.outcome.usage, Usage::default());
}
