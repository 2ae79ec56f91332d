//! Whatever a conversation looks like, what is left of it is legal, bounded, and has the user's last words.

use super::super::testing::{Script, context};
use super::*;
use deerflow_core::{Content, ContentBlock, ToolCall};
use deerflow_models::legalise::{Rules, legalise, settle_calls};
use deerflow_models::testing::check_legal;
use proptest::prelude::*;
use std::sync::Mutex;

/// One turn of a conversation.
#[derive(Debug, Clone)]
enum Turn {
    User(usize),
    Picture,
    Hidden,
    Answer(usize),
    /// Lengths of the results; ids come again in every turn, as with some providers.
    Calls(Vec<usize>),
    /// One result is missing.
    Cut(Vec<usize>),
    System,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let lengths = || proptest::collection::vec(0usize..3000, 1..4);
    let turn = prop_oneof![
        3 => (1usize..400).prop_map(Turn::User),
        1 => Just(Turn::Picture),
        1 => Just(Turn::Hidden),
        3 => (1usize..400).prop_map(Turn::Answer),
        5 => lengths().prop_map(Turn::Calls),
        1 => lengths().prop_map(Turn::Cut),
        1 => Just(Turn::System),
    ];
    proptest::collection::vec(turn, 1..60)
}

fn messages_of(turn: &Turn, at: usize) -> Vec<Message> {
    let words = |length: usize| format!("turn {at} {}", "word 界 ".repeat(length / 7));
    let calls = |lengths: &[usize]| {
        Message::ai_calls(
            "",
            (0..lengths.len()).map(|n| ToolCall::new(format!("call_{n}"), "bash", Default::default())).collect(),
        )
    };
    let results = |lengths: &[usize]| -> Vec<Message> {
        lengths
            .iter()
            .enumerate()
            .map(|(n, length)| Message::tool(words(*length), format!("call_{n}"), "bash"))
            .collect()
    };
    match turn {
        Turn::User(length) => vec![Message::human(words(*length))],
        Turn::Picture => {
            let blocks = vec![ContentBlock::Text(words(20)), ContentBlock::ImageUrl("data:image/png;base64,AA".into())];
            vec![Message::human(Content::Blocks(blocks))]
        }
        Turn::Hidden => vec![Message::human(words(50)).hidden()],
        Turn::Answer(length) => vec![Message::ai(words(*length))],
        Turn::Calls(lengths) => std::iter::once(calls(lengths)).chain(results(lengths)).collect(),
        Turn::Cut(lengths) => std::iter::once(calls(lengths)).chain(results(lengths).into_iter().skip(1)).collect(),
        Turn::System => vec![Message::system(format!("rule {}", at % 3)).with_id(format!("rule-{}", at % 3))],
    }
}

/// Keeps the ids of what went.
#[derive(Default)]
struct Gone(Mutex<Vec<String>>);

#[async_trait]
impl SummarizationHook for Gone {
    fn name(&self) -> &'static str {
        "gone"
    }
    async fn before_summarization(
        &self,
        _: &RunContext,
        event: SummarizationEvent<'_>,
    ) -> Result<StateUpdate, AgentError> {
        self.0.lock().unwrap().extend(event.messages_to_summarize.iter().map(|m| m.id().to_owned()));
        Ok(StateUpdate::none())
    }
}

fn middleware(keep: u32, trigger: u32) -> (DeerFlowSummarizationMiddleware, Arc<Gone>) {
    let gone = Arc::new(Gone::default());
    let config = super::tests::config(ContextSize::tokens(trigger), ContextSize::messages(keep));
    let summary = Message::ai("what was said ".repeat(30));
    let model = Arc::new(Script::named("own", vec![summary; 4000]));
    (DeerFlowSummarizationMiddleware::new(config, model, None).with_hook(gone.clone()), gone)
}

fn check(state: &ThreadState) -> Result<(), TestCaseError> {
    for rules in Rules::all() {
        let request = legalise(&rules, Some("prompt"), &state.messages);
        prop_assert!(check_legal(&rules, &request).is_ok(), "{:?}", check_legal(&rules, &request));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_is_left_is_legal_and_has_the_last_words(turns in turns(), keep in 1u32..25, trigger in 200u32..6000) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (mw, gone) = middleware(keep, trigger);
        let mut state = ThreadState::default();
        for (at, turn) in turns.iter().enumerate() {
            state.apply(&StateUpdate::messages(messages_of(turn, at))).unwrap();
            let before = state.clone();
            let hook = runtime.block_on(mw.before_model(&context(), &state)).unwrap();
            state.apply(&hook.update).unwrap();
            check(&state)?;
            // No call lost a result that it had. Ids of calls are made unique for a request, so results are told by their own.
            let results = |messages: &[Arc<Message>]| -> Vec<Option<String>> {
                settle_calls(messages).iter().filter(|m| m.as_tool().is_some()).map(|m| m.id.clone()).collect()
            };
            let (sent, now) = (results(&before.messages), results(&state.messages));
            prop_assert!(now.iter().all(|id| sent.contains(id)));
            let orphaned = state.messages.iter().filter(|m| m.as_tool().is_some() && sent.contains(&m.id) && !now.contains(&m.id));
            prop_assert_eq!(orphaned.count(), 0, "a result lost its call");
            let made_up = |ids: &[Option<String>]| ids.iter().filter(|id| id.is_none()).count();
            prop_assert!(made_up(&now) <= made_up(&sent), "a call lost its result");
            let last = before.messages.iter().rev().find(|m| m.is_real_user());
            if let Some(last) = last {
                prop_assert!(state.messages.contains(last), "the last words are gone");
            }
            prop_assert_eq!(&state.messages.last().map(|m| m.id().to_owned()), &before.messages.last().map(|m| m.id().to_owned()));
        }
        let gone = gone.0.lock().unwrap();
        let distinct: HashSet<&String> = gone.iter().collect();
        prop_assert_eq!(distinct.len(), gone.len(), "a message was summarised twice");
    }
}

/// A conversation of weeks: 400 turns with a user, calls and an answer each.
#[tokio::test]
async fn four_hundred_turns_stay_small() {
    let (mw, gone) = middleware(20, 8000);
    let mut state = ThreadState::default();
    let (mut largest, mut said) = (0, 0);
    for at in 0..400 {
        for turn in [Turn::User(200), Turn::Calls(vec![2500, 900]), Turn::Calls(vec![1500]), Turn::Answer(600)] {
            let messages = messages_of(&turn, at);
            said += messages.len();
            state.apply(&StateUpdate::messages(messages)).unwrap();
            let hook = mw.before_model(&context(), &state).await.unwrap();
            state.apply(&hook.update).unwrap();
            largest = largest.max(mw.tokens(&state.messages, state.summary_text.as_deref()));
        }
    }
    assert!(largest < 9000, "{largest} tokens");
    assert!(state.messages.len() < 60, "{} messages", state.messages.len());
    assert_eq!(gone.0.lock().unwrap().len() + state.messages.len(), said);
    assert!(serde_json::to_string(&state).unwrap().len() < 60_000);
}
