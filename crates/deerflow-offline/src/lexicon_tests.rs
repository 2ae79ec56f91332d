use super::*;
use crate::ask::Ask;
use pretty_assertions::assert_eq;

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
    assert_eq!(tokens("The price was 3.5 EUR higher"), ["price", "eur", "high"]);
    assert_eq!(tokens("仓库起火A"), ["仓库", "库起", "起火"]);
}

#[test]
fn every_line_of_the_cues_is_one() {
    assert_eq!(CUES.len(), include_str!("cues.txt").lines().count());
}

#[test]
fn each_wording_and_cue_that_the_code_names_is_there_in_both_languages() {
    let code = [
        include_str!("next.rs"),
        include_str!("report.rs"),
        include_str!("corpus.rs"),
        include_str!("ask.rs"),
        include_str!("units.rs"),
        include_str!("themes.rs"),
        include_str!("conversation.rs"),
        include_str!("lexicon.rs"),
    ];
    let wordings = Regex::new(r#"(?:say(?:_of)?\((?:if [^"]+)?|honest\(|call\(|section\()"([a-z-]+)""#).unwrap();
    let cues = Regex::new(r#"\b(?:has|is|cue)\("([a-z-]+)""#).unwrap();
    let (english, chinese) = (Ask::new(""), Ask::new("请总结"));
    let mut seen = 0;
    for name in code.iter().flat_map(|code| wordings.captures_iter(code)).map(|found| found[1].to_owned()) {
        assert!(!english.say(&name).is_empty() && !chinese.say(&name).is_empty(), "{name}");
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
    for name in code.iter().flat_map(|code| cues.captures_iter(code)).map(|found| found[1].to_owned()) {
        assert!(CUES.contains_key(name.as_str()), "{name}");
    }
}
#[test]
fn no_subject_is_too_general_to_name_a_theme() {
    let subjects = LISTS.iter().filter(|(list, _)| *list == "subject").map(|(_, words)| words[0]);
    assert_eq!(subjects.filter(|subject| is_generic(subject)).collect::<Vec<_>>(), Vec::<&str>::new());
}
