//! Tool batches: parallel, in order, and never without an answer.

use super::fixtures::*;
use deerflow_core::*;
use pretty_assertions::assert_eq;
use serde_json::json;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn calls_of_a_message_run_at_once_and_answer_in_call_order() {
    let calls = ["a", "b", "c"].map(|t| call(t, "do", json!({"text": t})));
    let model = Script::new(vec![Message::ai_calls("", calls.to_vec()), Message::ai("done")]);
    let tool = Recorder::new("do", Effects::Mutating);
    let outcome = agent(&model, &[&tool], vec![]).run(&context(), input("hi")).await.unwrap();
    assert_eq!(story(&outcome.state), ["human:hi", "ai:", "tool:did a", "tool:did b", "tool:did c", "ai:done"]);
    assert_eq!(*tool.acted.lock().unwrap(), ["c", "b", "a"], "they overlapped and the first ended last");
    assert_eq!(tool.most_at_once.load(Ordering::SeqCst), 3);
    assert_eq!(outcome.state.artifacts.as_deref().unwrap(), ["a", "b", "c"]);
}

#[tokio::test]
async fn whatever_a_call_does_it_gets_exactly_one_result() {
    let mut message = Message::ai_calls(
        "",
        vec![
            call("1", "do", json!({"text": "panic"})),
            call("2", "do", json!({"text": "fail"})),
            call("3", "nope", json!({})),
            call("", "do", json!({"text": "x"})),
            call("2", "do", json!({"text": "y"})),
        ],
    );
    message.as_ai_mut().unwrap().invalid_tool_calls = vec![
        InvalidToolCall::new(None, None, "{}".into(), "the call has no tool name"),
        InvalidToolCall::new(
            Some("i".into()),
            Some("do".into()),
            "{\"a\":1}{".into(),
            "the arguments are not valid JSON: trailing characters",
        ),
    ];
    let model = Script::new(vec![message, Message::ai("done")]);
    let tool = Recorder::new("do", Effects::Mutating);
    let outcome = agent(&model, &[&tool], vec![]).run(&context(), input("hi")).await.unwrap();
    let results: Vec<_> =
        outcome.state.messages.iter().filter_map(|m| m.as_tool().map(|t| (t.status, m.text().into_owned()))).collect();
    assert_eq!(results.len(), 7);
    let ok = |at: usize| results[at].0 == ToolStatus::Success;
    assert_eq!((0..7).map(ok).collect::<Vec<_>>(), [false, false, false, true, true, false, false]);
    assert_eq!(
        results[0].1,
        "Error: Tool 'do' failed with a panic: boom at 界. Continue with what you have, or choose another tool."
    );
    assert_eq!(results[1].1, "Error: it does not work");
    assert_eq!(results[2].1, "Error: there is no tool named `nope`. Use one of the tools that were offered.");
    assert!(results[5].1.contains("the call has no tool name"));
    assert!(results[6].1.contains("trailing characters"));
    let ids: std::collections::HashSet<_> =
        outcome.state.messages.iter().filter_map(|m| m.as_tool()).map(|t| &t.tool_call_id).collect();
    assert_eq!(ids.len(), 7, "ids were made unique");
}

#[tokio::test]
async fn a_tool_may_end_the_run() {
    let model =
        Script::new(vec![Message::ai_calls("", vec![call("1", "do", json!({"text": "end"}))]), Message::ai("never")]);
    let tool = Recorder::new("do", Effects::Pure);
    let outcome = agent(&model, &[&tool], vec![]).run(&context(), input("hi")).await.unwrap();
    assert_eq!(story(&outcome.state), ["human:hi", "ai:", "tool:did end"]);
}

#[tokio::test]
async fn a_fatal_tool_error_ends_the_run_with_its_reason() {
    let model = Script::new(vec![Message::ai_calls("", vec![call("1", "do", json!({"text": "fatal"}))])]);
    let tool = Recorder::new("do", Effects::Pure);
    let error = agent(&model, &[&tool], vec![]).run(&context(), input("hi")).await.unwrap_err();
    assert_eq!(error.to_string(), "tool do ended the run: gone");
}

/// BR-001: stopped after one of three results; the next message finds every call answered.
#[tokio::test]
async fn a_new_message_after_a_stop_answers_the_open_calls_first() {
    let calls = vec![
        call("a", "do", json!({"text": "a"})),
        call("b", "do", json!({"text": "hang"})),
        call("c", "read", json!({"text": "hang"})),
    ];
    let model = Script::new(vec![Message::ai_calls("", calls)]);
    let (tool, reader) = (Recorder::new("do", Effects::Mutating), Recorder::new("read", Effects::ReadOnly));
    let agent = agent(&model, &[&tool, &reader], vec![]);
    let (sink, mut events) = EventSink::channel(64);
    let ctx = context_with(sink);
    let (result, ()) = tokio::join!(agent.run(&ctx, input("hi")), async {
        while !matches!(events.recv().await, Some(AgentEvent::ToolFinished { .. })) {}
        // The result is durable before the stop.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        ctx.cancel.cancel();
    });
    assert!(result.unwrap_err().is_cancelled());

    let second = Script::new(vec![Message::ai("fine")]);
    let again = crate::Agent::builder(second).step_log(agent.log.clone()).build().unwrap();
    let outcome = again.run(&context(), input("continue")).await.unwrap();
    let story = story(&outcome.state);
    assert_eq!(story[2], "tool:did a");
    assert!(story[3].contains("outcome unknown"), "{}", story[3]);
    assert!(story[4].contains("interrupted before it began"), "{}", story[4]);
    assert_eq!(&story[5..], ["human:continue", "ai:fine"]);
}

/// A call that waits for its own write holds what the write of its sibling's result waits for: both must go on being polled.
#[tokio::test]
async fn a_log_that_takes_one_write_at_a_time_does_not_stop_a_batch() {
    let calls = vec![call("1", "write", json!({"text": "a"})), call("2", "look", json!({"text": "b"}))];
    let model = Script::new(vec![Message::ai_calls("", calls), Message::ai("done")]);
    let (write, look) = (Recorder::new("write", Effects::Mutating), Recorder::new("look", Effects::ReadOnly));
    let agent = agent(&model, &[&write, &look], vec![]).with_step_log(std::sync::Arc::new(OneAtATime::default()));
    let ctx = context();
    let run = agent.run(&ctx, input("hi"));
    let outcome = tokio::time::timeout(std::time::Duration::from_secs(20), run).await.expect("the batch ends").unwrap();
    assert_eq!(story(&outcome.state), ["human:hi", "ai:", "tool:did a", "tool:did b", "ai:done"]);
}
