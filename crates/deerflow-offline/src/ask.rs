//! What is asked for, and in which language to answer.

use crate::lexicon::{cue, entries, has, is_han, is_listed, stem, words};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// `name | English | Chinese`, one a line.
static WORDING: LazyLock<BTreeMap<&str, Vec<&str>>> = LazyLock::new(|| {
    entries(include_str!("wording.txt"), " | ").map(|(name, both)| (name, both.split(" | ").collect())).collect()
});

/// Tasks: each names a cue and the heading of the main part. The first whose cue fits is taken.
pub(crate) const REASONS: &str = "reasons";
pub(crate) const COMPARE: &str = "compare";
pub(crate) const LIST: &str = "list";
pub(crate) const SUMMARY: &str = "summary";
pub(crate) const QUESTION: &str = "question";
const TASKS: [&str; 4] = [REASONS, COMPARE, LIST, SUMMARY];
/// What a question may want to know: the cue of an answer; that of the question has `-asked` at its end.
const WANTED: [&str; 4] = ["duration", "number", "person", "date"];

/// The request, as far as rules see it.
pub(crate) struct Ask {
    pub(crate) text: String,
    pub(crate) task: &'static str,
    pub(crate) chinese: bool,
    /// The cue of the answer to a question of a known kind.
    pub(crate) wanted: Option<&'static str>,
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
        let wanted = WANTED.into_iter().find(|kind| task == QUESTION && has(&format!("{kind}-asked"), text));
        Self { text: text.to_owned(), task, chinese: han * 2 > letters, wanted, terms }
    }

    /// The wording of that name in the language of the request.
    pub(crate) fn say(&self, name: &str) -> &'static str {
        WORDING.get(name).and_then(|both| both.get(usize::from(self.chinese))).copied().unwrap_or_default()
    }

    /// [`say`](Self::say), with `value` in place of `#`.
    pub(crate) fn say_of(&self, name: &str, value: &str) -> String {
        self.say(name).replace('#', value)
    }
}
