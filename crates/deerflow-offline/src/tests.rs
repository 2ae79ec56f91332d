//! What the words, the cues and the reading of messages come to.

use crate::conversation::{Document, Turn};
use crate::lexicon::{Ask, cue, has, is_listed, stem, tokens};
use deerflow_core::Message;
use pretty_assertions::assert_eq;
use regex::Regex;

#[test]
fn forms_of_a_word_share_a_stem() {
    for (a, b) in [
        ("deliveries", "delivery"),
        ("fell", "falls"),
        ("dropped", "drop"),
        ("increased", "increases"),
        ("prices", "pricing"),
        ("losses", "lose"),
        ("delays", "delayed"),
    ] {
        assert_eq!(stem(a), stem(b), "{a} and {b}");
    }
    assert_eq!(stem("analysis"), "analysis");
}

#[test]
fn tokens_drop_stop_words_and_numbers_and_pair_han() {
    assert_eq!(tokens("The price was 3.5 EUR higher").collect::<Vec<_>>(), ["price", "eur", "high"]);
    assert_eq!(tokens("仓库起火A").collect::<Vec<_>>(), ["仓库", "库起", "起火"]);
}

#[test]
fn every_line_of_the_cues_is_one_that_compiles() {
    for line in include_str!("cues.txt").lines() {
        let (name, _) = line.split_once(" = ").expect("a name and a pattern");
        has(name, "");
    }
}

#[test]
fn each_wording_and_cue_that_the_code_names_is_there_in_both_languages() {
    let code = [
        include_str!("stream.rs"),
        include_str!("report.rs"),
        include_str!("corpus.rs"),
        include_str!("findings.rs"),
        include_str!("conversation.rs"),
        include_str!("lexicon.rs"),
    ];
    let wordings = Regex::new(r#"\b(?:say(?:_of)?\((?:if [^"]+)?|call\(|section\()"([a-z-]+)""#).unwrap();
    let cues = Regex::new(r#"\b(?:has\(|is\(|cue\(|clause\(|named\(|said\(|says\(\w+, )"([a-z-]+)""#).unwrap();
    let (english, chinese) = (Ask::new(""), Ask::new("请总结"));
    let mut seen = 0;
    for name in code.iter().flat_map(|code| wordings.captures_iter(code)).map(|found| found[1].to_owned()) {
        assert!(!english.say(&name).is_empty() && !chinese.say(&name).is_empty(), "{name}");
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
    for name in code.iter().flat_map(|code| cues.captures_iter(code)).map(|found| found[1].to_owned()) {
        cue(&name);
    }
}

#[test]
fn no_subject_is_too_general_to_name_a_theme() {
    let subjects = include_str!("lexicon.txt").lines().filter_map(|line| line.strip_prefix("subject: "));
    let firsts = subjects.filter_map(|line| line.split(' ').next());
    assert_eq!(firsts.filter(|subject| is_listed("generic", subject)).collect::<Vec<_>>(), Vec::<&str>::new());
}

fn asked(text: &str) -> Turn {
    Turn::read(&[std::sync::Arc::new(Message::human(text))])
}

#[test]
fn paths_with_spaces_brackets_and_unicode_are_found() {
    let text = "<current_uploads>\n- a (1.0 KB)\n  Path: /mnt/user-data/uploads/my notes (final) [v2].pdf\n\n- 销售 笔记.docx (2.0 KB)\n  Path: /mnt/user-data/uploads/销售 笔记.docx\n  Text version: /mnt/user-data/uploads/销售 笔记.md\n</current_uploads>\n\n\
                use `/mnt/user-data/uploads/q 1.csv`, or read /mnt/user-data/uploads/plain.txt, all under /mnt/user-data/uploads/";
    let want = ["my notes (final) [v2].pdf", "销售 笔记.docx", "q 1.csv", "plain.txt"];
    assert_eq!(asked(text).documents.iter().map(Document::name).collect::<Vec<_>>(), want);
}

#[test]
fn the_request_is_what_the_person_wrote() {
    let text = "<current_uploads>\n- a\n</current_uploads>\n\n--- BEGIN USER INPUT ---\nWhy?\n--- END USER INPUT ---";
    assert_eq!(asked(text).request, "Why?");
    assert_eq!(asked(" Why? ").request, "Why?");
}

#[test]
fn a_truncated_read_goes_on_from_the_line_that_was_cut() {
    let mut document = Document::new("");
    document.take(
        1,
        "one\ntwo\nthr\n... [truncated: showing first 11 of 40 chars, lines 1-2 of 9; go on with start_line=3] ...",
        false,
    );
    assert_eq!((document.next, document.lines.len()), (Some(3), 2));
    document.take(3, "three\nfour\n... [truncated: showing first 10 of 99 chars, lines 3-4 of 9. Use start_line and end_line to read a range; go on with start_line=5] ...", false);
    assert_eq!((document.next, document.lines.len()), (Some(5), 4));
    document.take(5, "five\n[note: page 2 has no text]", false);
    assert_eq!((document.next, document.cut), (None, false));
    assert_eq!(document.lines[4..], ["five", "[note: page 2 has no text]"]);
}

#[test]
fn a_document_that_talks_of_truncation_is_not_cut() {
    let mut document = Document::new("");
    document.take(1, "The list was truncated by the editor.\nEnd.", false);
    assert_eq!((document.next, document.lines.len()), (None, 2));
}
