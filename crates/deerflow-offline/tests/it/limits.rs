//! It always ends, and never falls over.

use crate::driver::{World, reply, upload};
use deerflow_core::{ChatModel, ChatRequest, Message, ModelErrorKind};
use deerflow_offline::OfflineModel;
use futures::StreamExt;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[test]
fn a_long_file_is_read_to_its_end_in_pieces() {
    let mut text: String = (1..=400).map(|n| format!("Line {n} says little of interest today.\n")).collect();
    text.push_str("Zeta lost 12% because the valve broke.\n");
    let mut world = World::new();
    world.limit = 2_000;
    let answer = world.ask("Why did Zeta lose?", &[("long.txt", Some(&text))]);
    assert!(world.calls.iter().filter(|name| *name == "read_file").count() > 5);
    assert!(answer.contains("“Zeta lost 12% because the valve broke.” (long.txt, line 401)"), "{answer}");
}

#[test]
fn a_file_that_is_too_long_is_read_in_part_and_the_report_says_so() {
    let text = "The pump stopped because the filter was full.\n".repeat(2_000);
    let mut world = World::new();
    world.limit = 500;
    let answer =
        world.ask("Why did the pump stop?", &[("a.txt", Some(&text)), ("b.txt", Some(&text)), ("c.txt", Some(&text))]);
    assert_eq!(world.calls.iter().filter(|name| *name == "read_file").count(), 3 * 20);
    for text in [world.report(), &answer] {
        assert!(text.contains("a.txt was too long to be read to its end."), "{text}");
    }
}

#[test]
fn a_line_longer_than_a_reply_does_not_loop() {
    let mut world = World::new();
    world.limit = 1_000;
    world.ask("Summarise this", &[("one-line.txt", Some(&"word and more words ".repeat(5_000)))]);
    assert!(world.turns < 8);
}

#[test]
fn much_noise_and_much_prose_are_worked_off() {
    let noise: String =
        (0..60_000_u32).map(|n| char::from_u32(0x20 + n.wrapping_mul(2_654_435_761) % 0x3000).unwrap_or(' ')).collect();
    let prose = "The order was late because the truck broke down. Nobody called the client (Acme) before 3.5 hours had passed!\n".repeat(1_000);
    for text in [noise, prose] {
        let mut world = World::new();
        world.limit = 2_000_000;
        let answer = world.ask("Find the main reasons and write a report", &[("huge.txt", Some(&text))]);
        assert!(answer.contains("huge.txt"));
    }
}

#[test]
fn a_table_with_nothing_in_it_is_none() {
    for table in ["| | |", "|---|", "| Cause |\n|---|", "|\n|\n", "| - |\n\n| Cause | Share |\n|---|---|\n| | |"] {
        for before in ["", "Sales fell because prices rose.\n\n"] {
            let text = format!("{before}{table}");
            let answer = World::new().ask("Why? Write a report", &[("any.txt", Some(&text))]);
            assert!(answer.contains("any.txt"), "{text:?}: {answer}");
        }
    }
}

#[test]
fn the_same_conversation_gives_the_same_answer() {
    let run = || {
        let mut world = World::new();
        let answer =
            world.ask("Why did sales fall?", &[("sales-notes.pdf", Some(include_str!("../fixtures/sales-notes.md")))]);
        let ids: Vec<String> = world
            .messages
            .iter()
            .flat_map(|m| m.tool_calls().iter().map(|c| c.id().to_owned()).collect::<Vec<_>>())
            .collect();
        (answer, world.report().to_owned(), ids)
    };
    let first = run();
    assert_eq!(first.2[0], "offline_2_0");
    assert_eq!(first, run());
}

#[test]
fn usage_is_estimated_and_metadata_names_the_model() {
    let messages = vec![Arc::new(Message::human("hello there, you"))];
    let message = reply(ChatRequest { messages, ..ChatRequest::default() });
    let usage = message.as_ai().and_then(|part| part.usage_metadata.clone()).expect("usage");
    assert_eq!(usage.input_tokens, 4);
    assert_eq!(usage.output_tokens, message.text().chars().count().div_ceil(4) as u64);
    assert_eq!(message.response_metadata["model_name"], "offline-extractive-1");
    assert_eq!(message.finish_reason(), Some("stop"));
}

#[tokio::test]
async fn a_cancelled_stream_ends_with_one_error() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let request = ChatRequest { messages: vec![Arc::new(Message::human("hello"))], ..ChatRequest::default() };
    let events: Vec<_> = OfflineModel::new().stream(request, cancel).collect().await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].as_ref().err().map(|error| error.kind), Some(ModelErrorKind::Cancelled));
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        "[a-z]{1,9} because [a-z0-9%]{1,9}\\. ",
        Just("\n".to_owned()),
        Just("\n\n<!-- page 2 -->\n".to_owned()),
        Just("\n| Cause | 12 |\n|---|\n| | |\n|\n".to_owned()),
        Just("\n# 标题\n甲：销售下降，因为“涨价。”\n".to_owned()),
        Just("\n... [truncated: showing first 5 of 9 chars. Use start_line/end_line to read; go on with start_line=3] ...".to_owned()),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_and_request_come_to_an_answer(request in prop_oneof![any::<String>(), Just("Why? Write a report".to_owned())], text in text(), limit in 1_usize..200) {
        let mut world = World::new();
        world.limit = limit;
        world.files.insert(upload("old.txt"), text.clone());
        world.ask(&request, &[("any.txt", Some(&text))]);
        world.ask(&request, &[]);
        prop_assert!(world.turns <= 40);
    }
}
