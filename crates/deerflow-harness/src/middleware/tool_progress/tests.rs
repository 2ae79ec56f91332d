use super::*;
use crate::middleware::ToolErrorHandlingMiddleware;
use crate::middleware::scripted::*;
use crate::middleware::testing::{context, context_with};
use deerflow_agent::Start;
use deerflow_core::{AgentEvent, EventSink, StateUpdate, Tool, ToolOutput};
use pretty_assertions::assert_eq;
use serde_json::Value;
use std::sync::Mutex;

fn guard() -> ToolProgressMiddleware {
    ToolProgressMiddleware::new(ToolProgressConfig::default())
}

fn result(tool: &str, text: &str) -> Arc<Message> {
    let mut message = Message::tool(text, "c", tool);
    if text.starts_with("Error:") {
        message = Message::tool_error(text, "c", tool);
    }
    let meta = crate::middleware::classify(&message);
    Arc::new(message.with_kwarg(kwargs::TOOL_META, json!(meta)).with_kwarg(JUDGED, true))
}

/// Phases after each result.
fn phases(texts: &[&str]) -> Vec<Phase> {
    let (guard, mut tracker) = (guard(), Tracker::default());
    texts
        .iter()
        .map(|text| {
            guard.feed(&mut tracker, &[result("t", text)]);
            tracker.phase("t")
        })
        .collect()
}

const NOTHING: &str = "Error: No results found";
const TIMEOUT: &str = "Error: timed out";
const SAME: &str = "alpha bravo charlie delta echo foxtrot golf hotel india juliett kilo";
use Phase::{Active, Blocked, Warned};

#[test]
fn what_the_model_can_mend_is_warned_about_and_never_blocked() {
    assert_eq!(phases(&[NOTHING; 8]), [vec![Active; 2], vec![Warned; 6]].concat());
    assert_eq!(phases(&["partial results"; 3])[2], Warned);
}

#[test]
fn what_it_cannot_mend_is_blocked_two_problems_after_the_warning() {
    assert_eq!(phases(&[TIMEOUT; 7]), [Active, Active, Warned, Warned, Blocked, Blocked, Blocked]);
    assert_eq!(phases(&["Error: rate limit"; 5])[4], Blocked);
}

#[test]
fn what_no_retry_can_help_is_blocked_at_once_and_stays_so() {
    for error in ["Error: 401 Unauthorized", "Error: search is not configured", "Error: unexpected error"] {
        assert_eq!(phases(&[error, "fine"]), [Blocked, Blocked], "{error}");
    }
}

#[test]
fn a_good_result_starts_afresh() {
    assert_eq!(
        phases(&[TIMEOUT, TIMEOUT, TIMEOUT, "fine", TIMEOUT, TIMEOUT, TIMEOUT]),
        [Active, Active, Warned, Active, Active, Active, Warned]
    );
}

#[test]
fn the_same_result_again_is_a_problem_unless_it_is_short() {
    assert_eq!(phases(&[SAME; 6]), [Active, Active, Active, Warned, Warned, Warned]);
    assert_eq!(phases(&["OK"; 6]), [Active; 6]);
    let other = SAME.replace("alpha", "zulu").replace("bravo", "yankee").replace("charlie", "xray");
    assert_eq!(phases(&[SAME, &other, SAME, &other, SAME])[4], Warned, "compared with the last three good ones");
    let four: Vec<String> = ('a'..='d').map(|c| (0..12).map(|n| format!("{c}{c}{n} ")).collect()).collect();
    let round = four.iter().chain(&four).map(String::as_str).collect::<Vec<_>>();
    assert_eq!(phases(&round), [Active; 8], "a fourth is forgotten");
    let fresh: Vec<String> = (0..5).map(|n| format!("{SAME} ").repeat(1).replace('a', &n.to_string())).collect();
    assert_eq!(phases(&fresh.iter().map(String::as_str).collect::<Vec<_>>()), [Active; 5]);
}

#[test]
fn tools_are_judged_apart_and_some_not_at_all() {
    let (guard, mut tracker) = (guard(), Tracker::default());
    let results: Vec<_> =
        ["a", "a", "b", "task", "task", "task", "task"].iter().map(|tool| result(tool, NOTHING)).collect();
    guard.feed(&mut tracker, &results);
    assert_eq!(tracker.phases(), BTreeMap::new());
    // A result that nobody classified says nothing.
    let bare = Arc::new(Message::tool_error("Error: 401", "c", "t").with_kwarg(JUDGED, true));
    // Nor does what a gate outside answered.
    let mut gate = (*result("t", "Error: 401")).clone();
    gate.additional_kwargs.remove(JUDGED);
    guard.feed(&mut tracker, &[bare, Arc::new(gate)]);
    assert_eq!(tracker.phase("t"), Active);
}

fn failing(name: &str, texts: Vec<&'static str>) -> Arc<dyn Tool> {
    let texts = Mutex::new(texts);
    tool(name, move |_, _| {
        let mut texts = texts.lock().unwrap();
        let text = if texts.len() > 1 { texts.remove(0) } else { texts[0] };
        Ok(if text.starts_with("Error") { ToolOutput::error(text) } else { ToolOutput::text(text) })
    })
}

fn rig(config: ToolProgressConfig, texts: Vec<&'static str>, turns: usize) -> Rig {
    let turns = (0..turns).map(|n| turn([call(&format!("c{n}"), "t", json!({}))])).collect();
    let chain: Vec<Arc<dyn Middleware>> =
        vec![Arc::new(ToolProgressMiddleware::new(config)), Arc::new(ToolErrorHandlingMiddleware)];
    Rig::new(turns, [failing("t", texts)], chain)
}

#[tokio::test]
async fn a_blocked_tool_is_not_run_and_says_why() {
    let state = rig(ToolProgressConfig::default(), vec!["Error: 401 Unauthorized"], 2).go().await;
    let blocked = &results(&state)[1];
    assert_eq!(
        blocked.text(),
        "[TOOL_BLOCKED] `t` was refused its credentials and cannot be used in this run. Go on without it."
    );
    assert_eq!(
        blocked.additional_kwargs[kwargs::TOOL_META],
        json!({"status": "error", "error_type": "blocked_by_progress_guard", "recoverable_by_model": true,
               "recommended_next_action": "summarize", "source": "progress_middleware"})
    );
}

#[tokio::test]
async fn the_hint_comes_once_at_the_end_of_the_next_request_and_is_not_stored() {
    let rig = rig(ToolProgressConfig::default(), vec![NOTHING, NOTHING, NOTHING, "fine"], 4);
    let state = rig.go().await;
    let hints: Vec<Option<String>> = (0..5)
        .map(|n| {
            let last = rig.script.sent(n).last().unwrap().clone();
            (last.name.as_deref() == Some("progress_hint")).then(|| last.text().into_owned())
        })
        .collect();
    let hint = "[PROGRESS HINT] `t` found nothing, several times in a row. Ask in other words, or for something else.";
    assert_eq!(hints, [None, None, None, Some(hint.to_owned()), None]);
    assert!(state.messages.iter().all(|m| m.name.as_deref() != Some("progress_hint")));
    let quiet = ToolProgressConfig { inject_assessment: false, ..Default::default() };
    let rig = self::rig(quiet, vec![NOTHING], 4);
    rig.go().await;
    assert_eq!(rig.script.sent(4).last().unwrap().name.as_deref(), Some("t"));
}

#[test]
fn hints_of_one_batch_are_three_at_most_and_none_twice() {
    let calls = |n: usize| Arc::new(Message::ai_calls("", vec![call(&n.to_string(), "t", json!({}))]));
    let mut messages = vec![Arc::new(Message::human("go"))];
    for round in 0..3 {
        messages.push(calls(round));
        messages.extend(["a", "b", "c", "d"].map(|tool| result(tool, NOTHING)));
        messages.push(result("a", NOTHING));
    }
    let hints = guard().hints(&ThreadState { messages, ..Default::default() });
    assert_eq!(hints.len(), 3);
    assert_eq!(hints.iter().filter(|h| h.contains("`a`")).count(), 1);
}

/// Actions and phases that events tell.
async fn told(rig: &Rig, starts: usize) -> Vec<(String, Value, Value)> {
    let (events, mut seen) = EventSink::channel(1000);
    for _ in 0..starts {
        let input = StateUpdate::messages([Message::human("go")]);
        rig.start(&context_with(events.clone()), Start::Input(input)).await.unwrap();
    }
    let mut told = Vec::new();
    while let Ok(event) = seen.try_recv() {
        if let AgentEvent::Custom(event) = event
            && event["type"] == "middleware:tool_progress"
        {
            assert_eq!(event["changes"]["tool_name"], "t");
            let changes = &event["changes"];
            told.push((
                event["action"].as_str().unwrap().to_owned(),
                changes["from_phase"].clone(),
                changes["to_phase"].clone(),
            ));
        }
    }
    told
}

#[tokio::test]
async fn changes_are_told_once_and_a_new_run_resets() {
    let rig = rig(ToolProgressConfig::default(), vec![NOTHING, NOTHING, NOTHING, NOTHING, "fine", "Error: 401"], 7);
    let want = [
        ("warn", "active", "warned"),
        ("recover", "warned", "active"),
        ("block", "active", "blocked"),
        ("reset", "blocked", "active"),
    ];
    let want: Vec<_> = want.map(|(action, from, to)| (action.to_owned(), json!(from), json!(to))).into();
    assert_eq!(told(&rig, 2).await, want);
}

#[tokio::test]
async fn a_new_run_may_use_the_tool_again_even_without_a_new_user_message() {
    let rig = rig(ToolProgressConfig::default(), vec!["Error: 401", "fine"], 1);
    let state = rig.go().await;
    assert_eq!(guard().track(&state).phase("t"), Blocked);
    let hidden = StateUpdate::messages([Message::human("go on").hidden()]);
    let state = rig.start(&context(), Start::Input(hidden)).await.unwrap().state;
    assert_eq!(guard().track(&state).phase("t"), Active);
}

/// Refuses every call, as a gate does.
struct Gate;

#[async_trait]
impl Middleware for Gate {
    fn name(&self) -> &'static str {
        "Gate"
    }
    async fn wrap_tool_call(&self, _: &RunContext, r: ToolRequest, _: ToolNext<'_>) -> Result<ToolOutcome, AgentError> {
        let mut outcome = ToolOutcome::error(&r.call, "Error: 403");
        gate_meta::stamp_refusal(&mut outcome.message, None);
        Ok(outcome)
    }
}

#[tokio::test]
async fn what_a_gate_refuses_is_no_problem_of_the_tool() {
    let turns = (0..6).map(|n| turn([call(&format!("c{n}"), "t", json!({}))])).collect();
    let chain: Vec<Arc<dyn Middleware>> =
        vec![Arc::new(Gate), Arc::new(guard()), Arc::new(ToolErrorHandlingMiddleware)];
    let rig = Rig::new(turns, [failing("t", vec!["fine"])], chain);
    let state = rig.go().await;
    assert_eq!(guard().track(&state).phase("t"), Active);
    assert_eq!(rig.script.sent(6).last().unwrap().name.as_deref(), Some("t"));
}
