//! What it cannot do, it says.

use crate::driver::{World, reply};
use deerflow_core::{ChatRequest, Message};
use pretty_assertions::assert_eq;
use std::sync::Arc;

const NOTES: &str =
    "Alpha opened in May. Sales fell in June because the bridge was closed.\nBeta sold 40 units in July.";

#[test]
fn without_an_attachment_it_says_what_it_is_and_how_to_get_a_model() {
    for request in
        ["hello", "What is the capital of France?", "Write a Python script that sorts a list", "翻译这句话", ""]
    {
        let mut world = World::new();
        let answer = world.ask(request, &[]);
        assert!(world.calls.is_empty(), "{request}: {:?}", world.calls);
        assert!(answer.contains("OPENAI_API_KEY") && answer.contains("config.yaml"), "{request}: {answer}");
        assert!(answer.contains("built-in offline model") || answer.contains("内置离线模型"), "{request}: {answer}");
    }
}

#[test]
fn a_translation_of_a_file_is_refused_and_a_part_that_is_out_of_reach_is_named() {
    let mut world = World::new();
    let answer = world.ask("Translate this file into German", &[("a.txt", Some(NOTES))]);
    assert!(world.presented.is_empty() && answer.contains("translate"), "{answer}");
    let mut world = World::new();
    world.ask("Summarise this and recommend what we should do", &[("a.txt", Some(NOTES))]);
    assert!(world.report().contains("something rules cannot give: advice or a forecast."));
}

#[test]
fn an_empty_or_unreadable_file_is_named_with_its_reason_and_no_report_is_written() {
    for (text, why) in
        [(Some(""), "it is empty"), (None, "the file is encrypted"), (Some("<!-- page 1 -->\n\n-- --\n"), "no text")]
    {
        let mut world = World::new();
        let answer = world.ask("Summarise this", &[("scan.pdf", text)]);
        assert!(answer.contains("scan.pdf") && answer.contains(why), "{answer}");
        assert!(answer.contains("I wrote no report") && world.presented.is_empty());
    }
}

#[test]
fn an_unreadable_file_beside_a_good_one_is_listed_as_not_used() {
    let mut world = World::new();
    let answer = world.ask("Why did sales fall?", &[("bad.pdf", None), ("good.txt", Some(NOTES))]);
    let (_, unused) = world.report().split_once("## Not used").expect("a list of unused files");
    assert!(unused.contains("- bad.pdf: cannot read /mnt/user-data/uploads/bad.pdf: the file is encrypted"));
    assert!(answer.contains("Not used - bad.pdf") && answer.contains("(good.txt, line 1)"), "{answer}");
}

#[test]
fn a_question_that_the_files_do_not_answer_gets_no_report_of_other_things() {
    let funds = "The capital of the fund grew by 3%. Its manager is pleased with the year.\nThe fund buys bonds.";
    for (request, text, missed) in [
        ("What does it say about submarines?", NOTES, "submarines"),
        ("What is the capital of France?", NOTES, "capital, France"),
        ("What is the capital of France?", funds, "France"),
    ] {
        let mut world = World::new();
        let answer = world.ask(request, &[("a.txt", Some(text))]);
        assert!(world.presented.is_empty() && !answer.contains("(a.txt, line"), "{answer}");
        assert!(answer.contains("The files do not answer this"), "{answer}");
        assert!(answer.contains(&format!("I found nothing about “{missed}”")), "{answer}");
    }
}

#[test]
fn a_file_that_came_with_an_earlier_message_is_read_when_it_is_asked_for() {
    let mut world = World::new();
    world.ask("hello", &[("my old notes (v2).txt", Some(NOTES))]);
    world.messages.truncate(2);
    world.calls.clear();
    let answer = world.ask("What does the file I uploaded say about Beta?", &[]);
    assert_eq!(world.calls, ["read_file"]);
    assert!(answer.contains("“Beta sold 40 units in July.” (my old notes (v2).txt, line 2)"), "{answer}");
}

#[test]
fn tools_that_are_not_offered_are_done_without() {
    let mut world = World::new();
    world.tools = vec!["read_file"];
    let answer = world.ask("Summarise this", &[("a.txt", Some(NOTES))]);
    assert!(
        answer.contains("`write_file` is not offered") && answer.contains("“Beta sold 40 units in July.”"),
        "{answer}"
    );
    world.tools = vec!["bash"];
    let answer = world.ask("Summarise this", &[("b.txt", Some(NOTES))]);
    assert!(answer.contains("b.txt: it has no text that could be read"), "{answer}");
}

#[test]
fn a_failed_write_is_admitted() {
    let mut world = World::new();
    world.write_errors = vec!["Error: disk full"];
    let answer = world.ask("Summarise this", &[("plan.txt", Some(NOTES))]);
    assert_eq!(world.calls, ["read_file", "write_file"]);
    assert!(
        answer.contains("could not be written: disk full") && answer.contains("“Beta sold 40 units in July.”"),
        "{answer}"
    );
}

#[test]
fn a_prompt_without_tools_and_files_gets_the_same_honest_answer() {
    let messages = vec![Arc::new(Message::human("Write a title of at most 6 words for this conversation."))];
    let answer = reply(ChatRequest { messages, ..ChatRequest::default() }).text().into_owned();
    assert!(answer.contains("built-in offline model") && answer.contains("OPENAI_API_KEY"), "{answer}");
}
