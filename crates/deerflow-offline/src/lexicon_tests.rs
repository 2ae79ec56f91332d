use super::*;

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
        assert!(akin(&stem(a), &stem(b)), "{a} and {b}: {} and {}", stem(a), stem(b));
    }
    assert_eq!(stem("analysis"), "analysis");
}

#[test]
fn tokens_drop_stop_words_and_numbers_and_pair_han() {
    assert_eq!(tokens("The price was 3.5 EUR higher"), ["pric", "eur", "high"]);
    assert_eq!(tokens("销售下降A"), ["销售", "售下", "下降"]);
}

#[test]
fn every_pattern_compiles() {
    let all = [&CAUSE, &LOSS, &CONTRAST, &FIGURE, &OPEN];
    assert!(all.iter().all(|pattern| !pattern.is_match("")));
}
