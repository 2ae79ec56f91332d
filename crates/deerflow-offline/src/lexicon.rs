//! The words, cues and wordings that the rules know, how words are cut and reduced, and a request in those terms.

use regex::Regex;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// `name = pattern`, one a line, in letters of either size. Word boundaries are ASCII ones: Unicode ones are slow on text
/// in other scripts.
#[expect(clippy::expect_used, reason = "every pattern is a literal, and the tests compile each of them")]
static CUES: LazyLock<BTreeMap<&str, Regex>> = LazyLock::new(|| {
    let pattern = |text: &str| Regex::new(&format!("(?i){}", text.replace(r"\b", r"(?-u:\b)")));
    let cues = entries(include_str!("cues.txt"), " = ");
    cues.map(|(name, text)| (name, pattern(text).expect("a literal pattern compiles"))).collect()
});
/// `list: word word …`, one a line: for each word, as written and without its ending, the lists that have it and the first
/// word of its line.
static WORDS: LazyLock<BTreeMap<String, Vec<(&str, &str)>>> = LazyLock::new(|| {
    let mut lists: BTreeMap<String, Vec<(&str, &str)>> = BTreeMap::new();
    for (list, line) in entries(include_str!("lexicon.txt"), ": ") {
        let first = line.split(' ').next().unwrap_or_default();
        for form in line.split(' ').flat_map(|word| [word.to_owned(), cut(word)]) {
            lists.entry(form).or_default().push((list, first));
        }
    }
    lists
});
/// `ending=what stands for it`; the first that fits is cut.
const ENDINGS: &str = "'s= ’s= ies=y ss=ss us=us is=is pped=p pping=p tted=t tting=t nned=n nning=n gged=g gging=g dded=d \
                       dding=d mmed=m mming=m rring=r rred=r ings= ing= ed= es= s= e=";

/// Tasks: each names a cue and the heading of the main part. The first whose cue fits is taken.
pub(crate) const REASONS: &str = "reasons";
pub(crate) const COMPARE: &str = "compare";
pub(crate) const LIST: &str = "list";
pub(crate) const SUMMARY: &str = "summary";
pub(crate) const QUESTION: &str = "question";
const TASKS: [&str; 4] = [REASONS, COMPARE, LIST, SUMMARY];

/// The request, as far as rules see it.
pub(crate) struct Ask {
    pub(crate) text: String,
    pub(crate) task: &'static str,
    pub(crate) chinese: bool,
    /// Words of the subject, reduced, and as written.
    pub(crate) terms: BTreeMap<String, String>,
}

impl Ask {
    pub(crate) fn new(text: &str) -> Self {
        let han = text.chars().filter(|c| is_han(*c)).count();
        let letters = text.chars().filter(|c| c.is_alphabetic()).count() - han;
        let task = TASKS.into_iter().find(|task| has(task, text)).unwrap_or(QUESTION);
        let own = cue("named-file").replace_all(text, " ");
        let terms = words(&own).into_iter().map(|word| (stem(word), word.to_owned()));
        let terms = terms.filter(|(stem, _)| !is_listed("generic.task", stem)).collect();
        Self { text: text.to_owned(), task, chinese: han * 2 > letters, terms }
    }

    /// The wording of that name in the language of the request.
    pub(crate) fn say(&self, name: &str) -> &'static str {
        // `name | English | Chinese`, one a line.
        let line = entries(include_str!("wording.txt"), " | ").find(|(line, _)| *line == name);
        let both = line.and_then(|(_, both)| both.split_once(" | "));
        both.map_or("", |(english, chinese)| if self.chinese { chinese } else { english })
    }

    /// [`say`](Self::say), with `value` in place of `#`.
    pub(crate) fn say_of(&self, name: &str, value: &str) -> String {
        self.say(name).replace('#', value)
    }
}

/// The lines of a data file, each cut at its first `mark`.
fn entries(data: &'static str, mark: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    data.lines().filter_map(move |line| line.split_once(mark))
}

/// The pattern of that name. The tests look up each name that the code has.
pub(crate) fn cue(name: &str) -> &'static Regex {
    &CUES[name]
}

/// Whether the text has the cue.
pub(crate) fn has(name: &str, text: &str) -> bool {
    cue(name).is_match(text)
}

/// Whether the list, or one under it (`generic.task` is under `generic`), has this word or stem.
pub(crate) fn is_listed(list: &str, word: &str) -> bool {
    WORDS.get(&word.to_lowercase()).is_some_and(|lists| lists.iter().any(|(name, _)| name.starts_with(list)))
}

pub(crate) fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// A word reduced to what its forms, and words of about the same meaning, share: the words of a line `same` or `subject`
/// all count as its first.
pub(crate) fn stem(word: &str) -> String {
    let word = word.to_lowercase();
    let base = cut(&word);
    let mut lists = [&word, &base].into_iter().filter_map(|form| WORDS.get(form)).flatten();
    let group = lists.find(|(list, _)| matches!(*list, "same" | "subject"));
    group.map_or(base.clone(), |(_, first)| (*first).to_owned())
}

/// A word in small letters without its ending: `deliveries` and `delivery` come to the same.
fn cut(word: &str) -> String {
    let replaced = |ending: &str| {
        let (end, put) = ending.split_once('=')?;
        word.strip_suffix(end).filter(|start| start.len() > 2).map(|start| format!("{start}{put}"))
    };
    ENDINGS.split(' ').find_map(replaced).unwrap_or(word.to_owned())
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
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = String> {
    words(text).into_iter().map(stem)
}
