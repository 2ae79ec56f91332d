//! Words and cues the rules know, and how words are cut and reduced.

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// `name = pattern`, one a line, in letters of either size. Word boundaries are ASCII ones: Unicode ones are slow on text
/// in other scripts.
#[expect(clippy::expect_used, reason = "every pattern is a literal, and the tests compile each of them")]
static CUES: LazyLock<BTreeMap<&str, Regex>> = LazyLock::new(|| {
    let lines = include_str!("cues.txt").lines().filter_map(|line| line.split_once(" = "));
    let pattern = |text: &str| Regex::new(&format!("(?i){}", text.replace(r"\b", r"(?-u:\b)")));
    lines.map(|(name, text)| (name, pattern(text).expect("a literal pattern compiles"))).collect()
});
/// `list: word word …`, one a line.
static LISTS: LazyLock<Vec<(&str, Vec<&str>)>> = LazyLock::new(|| {
    let lines = include_str!("lexicon.txt").lines().filter_map(|line| line.split_once(':'));
    lines.map(|(list, words)| (list, words.split_whitespace().collect())).collect()
});
/// Words of a line `same` or `subject`, and their stems, all count as the first.
static GROUPS: LazyLock<BTreeMap<String, &str>> = LazyLock::new(|| {
    let groups = LISTS.iter().filter(|(list, _)| matches!(*list, "same" | "subject"));
    let pairs = groups.flat_map(|(_, words)| words.iter().map(|word| (*word, words[0])));
    pairs.flat_map(|(word, first)| [(word.to_owned(), first), (cut(word), first)]).collect()
});
/// Words of each list, as written and reduced.
static WORDS: LazyLock<BTreeMap<&str, BTreeSet<String>>> = LazyLock::new(|| {
    let mut lists: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (list, words) in &*LISTS {
        lists.entry(list).or_default().extend(words.iter().flat_map(|word| [(*word).to_owned(), stem(word)]));
    }
    lists
});

/// The pattern of that name. The tests look up each name that the code has.
pub(crate) fn cue(name: &str) -> &'static Regex {
    &CUES[name]
}

/// Whether the text has the cue.
pub(crate) fn has(name: &str, text: &str) -> bool {
    cue(name).is_match(text)
}

/// Whether the list has this word in small letters, or this stem.
pub(crate) fn is_listed(list: &str, word: &str) -> bool {
    WORDS[list].contains(word.to_lowercase().as_str())
}

/// Whether the stem is too general to name a theme.
pub(crate) fn is_generic(stem: &str) -> bool {
    is_listed("generic", stem) || is_listed("task", stem)
}

pub(crate) fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// A word reduced to what its forms, and words of about the same meaning, share.
pub(crate) fn stem(word: &str) -> String {
    let word = word.to_lowercase();
    let base = cut(&word);
    GROUPS.get(&word).or_else(|| GROUPS.get(&base)).map_or(base.clone(), |first| (*first).to_owned())
}

/// A word in small letters without its ending: `deliveries` and `delivery` come to the same.
fn cut(word: &str) -> String {
    let endings = LISTS.iter().filter(|(list, _)| *list == "ending").flat_map(|(_, endings)| endings);
    let mut cut = endings.filter_map(|ending| {
        let (end, put) = ending.split_once('=')?;
        word.strip_suffix(end).filter(|start| start.len() > 2).map(|start| format!("{start}{put}"))
    });
    cut.next().unwrap_or(word.to_owned())
}

/// The words of a text as written, without numbers and stop words; a run of Han characters gives its bigrams.
pub(crate) fn words(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for word in cue("word").find_iter(text).map(|found| found.as_str()) {
        if word.starts_with(is_han) {
            let ends: Vec<usize> = word.char_indices().map(|(at, _)| at).chain([word.len()]).collect();
            found.extend(ends.windows(3).map(|pair| &word[pair[0]..pair[2]]));
        } else if word.len() > 1 && word.contains(char::is_alphabetic) && !is_listed("stop", word) {
            found.push(word);
        }
    }
    found
}

/// [`words`], reduced.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    words(text).into_iter().map(stem).collect()
}

#[cfg(test)]
#[path = "lexicon_tests.rs"]
mod tests;
