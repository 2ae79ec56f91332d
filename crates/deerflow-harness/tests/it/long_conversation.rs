//! Four hundred turns with huge results, images, goals and compaction: the context stays legal and bounded, and so does the
//! cost of a turn.

use crate::chaos::World;
use base64::Engine as _;
use deerflow_agent::Start;
use deerflow_core::*;
use deerflow_models::legalise::{Rules, legalise_request};
use deerflow_models::testing::assert_legal;
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

const TURNS: usize = 400;
/// Tokens that fit.
const WINDOW: u64 = 16_000;

/// Works as told, judges goals, writes summaries. Keeps the size of every request.
struct Steady {
    info: ModelInfo,
    rules: Vec<Rules>,
    sizes: Mutex<Vec<usize>>,
    summaries: Mutex<usize>,
    images: Mutex<usize>,
}

impl Steady {
    fn reply(&self, request: &ChatRequest) -> Message {
        let last = request.messages.last().unwrap();
        if request.tools.is_empty() {
            // Beside the conversation: a judgement, a title or a summary.
            if request.system.as_ref().is_some_and(|s| s.contains("judge strictly")) {
                let met = last.text().contains("(goal met)");
                let blocker = if met { "none" } else { "goal_not_met_yet" };
                return Message::ai(
                    json!({"satisfied": met, "blocker": blocker, "relied_on_assumption": false}).to_string(),
                );
            }
            *self.summaries.lock().unwrap() += 1;
            return Message::ai("The user asked many things, and each was answered.");
        }
        let blocks = request.messages.iter().filter(|m| m.content.has_non_text()).count();
        *self.images.lock().unwrap() += blocks;
        let since = request.messages.iter().rev().take_while(|m| !m.is_real_user());
        let results = since.clone().filter(|m| m.as_tool().is_some()).count();
        let asked = request.messages.iter().rev().find(|m| m.is_real_user()).unwrap().text().into_owned();
        let asked = asked.lines().find(|line| line.starts_with("turn ")).unwrap_or_default();
        if since.clone().any(|m| m.text().contains("<goal_continuation>")) {
            return Message::ai("Now it is done (goal met).");
        }
        let call = |name: &str, args: serde_json::Value| {
            let mut message = Message::ai("I look.");
            // The same id in every turn, as some servers do.
            message.as_ai_mut().unwrap().tool_calls =
                vec![ToolCall::new("call_0", name, args.as_object().cloned().unwrap())];
            message
        };
        match (results, asked.contains("image")) {
            (0, true) => call("view_image", json!({"image_path": "/mnt/user-data/uploads/dot.png"})),
            (0, false) => call("huge", json!({"x": asked})),
            _ => Message::ai(format!("Answer to: {asked}. {}", "It took some words. ".repeat(20))),
        }
    }
}

impl ChatModel for Steady {
    fn info(&self) -> &ModelInfo {
        &self.info
    }
    fn stream(&self, request: ChatRequest, _: CancellationToken) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        for rules in &self.rules {
            assert_legal(rules, &legalise_request(rules, &request));
        }
        let size = request.messages.iter().map(|m| m.text().len()).sum();
        self.sizes.lock().unwrap().push(size);
        let message = self.reply(&request);
        stream::iter([Ok(ModelEvent::Finished(Box::new(ModelTurn { message })))]).boxed()
    }
}

const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[tokio::test]
async fn four_hundred_turns_stay_legal_and_bounded() {
    let world = World::new().await;
    let info =
        ModelInfo { name: "steady".into(), context_window: Some(WINDOW), supports_vision: true, ..Default::default() };
    let model = Arc::new(Steady {
        info,
        rules: Rules::all(),
        sizes: Mutex::default(),
        summaries: Mutex::default(),
        images: Mutex::default(),
    });
    let agent = world.agent(model.clone(), false);
    world.upload("long", "dot.png", &base64::engine::general_purpose::STANDARD.decode(DOT).unwrap()).await;
    let mut achieved = 0;
    let mut most_messages = 0;
    for turn in 0..TURNS {
        let kind = if turn % 10 == 3 { "an image" } else { "a thing" };
        let mut input = StateUpdate::messages([Message::human(format!("turn {turn}: {kind}"))]);
        if turn % 25 == 0 {
            let goal = deerflow_harness::goal::set(deerflow_harness::goal::new_goal("finish", None).unwrap());
            (input.goal, input.remove) = (goal.goal, goal.remove);
        }
        let done = agent.run(&world.context("long", true), Start::Input(input)).await.unwrap();
        assert_eq!(done.outcome.status, RunStatus::Success, "turn {turn}");
        let answer = done.state.last_ai().unwrap().text().into_owned();
        if turn % 25 == 0 {
            achieved += usize::from(done.state.goal_outcome.is_some() && answer.contains("(goal met)"));
        } else {
            assert!(answer.starts_with(&format!("Answer to: turn {turn}:")), "turn {turn}: {answer}");
        }
        most_messages = most_messages.max(done.state.messages.len());
        let last_user = done.state.messages.iter().rev().find(|m| m.is_real_user()).unwrap();
        assert!(last_user.text().contains(&format!("turn {turn}:")), "what the user said last is there");
    }
    assert_eq!(achieved, TURNS / 25, "every goal was reached");
    assert!(*model.images.lock().unwrap() >= TURNS / 10, "images were shown: {}", model.images.lock().unwrap());
    assert!(*model.summaries.lock().unwrap() > 10, "{} summaries", model.summaries.lock().unwrap());
    assert!(most_messages < 40, "{most_messages} messages");
    let sizes = model.sizes.lock().unwrap();
    let most = |range: std::ops::Range<usize>| sizes[range].iter().copied().max().unwrap();
    let (early, late) = (most(sizes.len() / 10..sizes.len() / 5), most(sizes.len() * 9 / 10..sizes.len()));
    assert!(late <= early + early / 10, "requests of {late} bytes at the end, {early} in the beginning");
    assert!((late as u64) < WINDOW * 4, "a request of {late} bytes");
}
