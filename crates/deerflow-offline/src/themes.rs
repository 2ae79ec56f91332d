//! Causes, gathered under themes.
//!
//! A theme is a few words; each sentence goes to the theme it fits best. The themes are the rows of a source's own table of
//! causes, in its order; without one they are what the telling sentences name.

use crate::ask::Ask;
use crate::corpus::{Corpus, Mark};
use crate::lexicon::{cue, has, is_han, is_listed, tokens};
use deerflow_core::text;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

const MAX_THEMES: usize = 8;
/// Share of a theme's words that a sentence about it has.
const FIT: f64 = 0.4;
const MAX_WORDS: usize = 8;

#[derive(Default)]
pub(crate) struct Theme {
    /// A cell of the table, a phrase from the text, or the name of a file.
    pub(crate) title: String,
    /// Sentences that speak of it, and the row; 0 for quotes that only stand together.
    pub(crate) mentions: usize,
    /// The ones to quote: the table row that gives it, then the best.
    pub(crate) quotes: Vec<usize>,
    /// Its words, reduced, with their weights.
    words: BTreeMap<String, f64>,
    /// Figures of the row, as written.
    figures: Vec<String>,
    /// How plainly a source calls it the cause: 0 to 2.
    root: usize,
}

/// Themes by weight, and last the causes that fit none of them.
pub(crate) fn gather(corpus: &Corpus, ask: &Ask) -> Vec<Theme> {
    let mut themes = tabled(corpus);
    let given = !themes.is_empty();
    if !given {
        themes = led(corpus, ask);
    }
    let mut members: Vec<Vec<(usize, f64)>> = vec![Vec::new(); themes.len()];
    let mut free = Vec::new();
    for at in corpus.prose(|_, mark| mark.aside.is_none()) {
        let fits = themes.iter().map(|theme| theme.fit(corpus, at)).zip(&mut members);
        match fits.rev().max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(fit, _)| *fit >= FIT) {
            Some((fit, members)) => members.push((at, fit * 2.0)),
            None => free.extend(corpus.says(at, "cause").then_some(at)),
        }
    }
    for (theme, mut members) in themes.iter_mut().zip(members) {
        theme.mentions = members.len() + theme.quotes.len();
        members.retain(|(at, _)| given || tells(corpus, *at));
        theme.quotes.extend(corpus.pick_ranked(members, 3));
    }
    if !given {
        themes.retain(|theme| !theme.quotes.is_empty());
        themes.sort_by_key(|theme| Reverse((theme.root, theme.mentions)));
        themes.truncate(MAX_THEMES);
    }
    let title = if themes.is_empty() { "" } else { ask.say("other-reasons") };
    let others = Theme::plain(title.to_owned(), corpus.pick(free, 4));
    themes.extend(Some(others).filter(|others| !others.quotes.is_empty()));
    themes
}

/// Whether the unit names a cause or a loss.
fn tells(corpus: &Corpus, at: usize) -> bool {
    corpus.says(at, "cause") || corpus.says(at, "loss")
}

impl Theme {
    /// Quotes that only stand together.
    pub(crate) fn plain(title: String, quotes: Vec<usize>) -> Self {
        Self { title, quotes, ..Self::default() }
    }

    /// 0 to 1 for its words, by weight, and more for a figure.
    fn fit(&self, corpus: &Corpus, at: usize) -> f64 {
        let said = self.words.iter().filter(|(word, _)| corpus.units[at].tokens.contains(*word));
        let figure = self.figures.iter().any(|figure| corpus.units[at].text.contains(figure));
        let share = said.map(|(_, weight)| weight).sum::<f64>() / self.words.values().sum::<f64>().max(1.0);
        share + FIT * f64::from(figure)
    }
}

/// One theme for each row of the first table whose first column is headed "cause" or "reason".
fn tabled(corpus: &Corpus) -> Vec<Theme> {
    let first = |at: usize| corpus.units[at].cells.first().filter(|cell| cell.len() > 2 && !is_listed("dull", cell));
    let titled = |table: &&Range<usize>| first(table.start).is_some_and(|head| has("cause-column", head));
    let Some(table) = corpus.tables.iter().find(titled) else { return Vec::new() };
    let theme = |at: usize| {
        let title = first(at)?.clone();
        let telling = tokens(&title).filter(|word| !is_listed("generic", word));
        let words = telling.map(|word| (word.clone(), corpus.rarity(&word))).collect();
        let figure = |word: &&str| word.len() > 3 && word.starts_with(|c: char| c.is_ascii_digit());
        let figures = corpus.units[at].cells.iter().flat_map(|cell| cell.split(' '));
        let figures = figures.filter(figure).map(str::to_owned).collect();
        Some(Theme { title, words, figures, quotes: vec![at], ..Theme::default() })
    };
    table.clone().skip(1).filter_map(theme).take(MAX_THEMES).collect()
}

/// One theme for each sentence, best first, that names a cause and fits no theme before it. Known subjects weigh most;
/// what is asked about tells no theme from another.
fn led(corpus: &Corpus, ask: &Ask) -> Vec<Theme> {
    let mut themes: Vec<Theme> = Vec::new();
    let known = |word: &String| is_listed("subject", word);
    // Beside a cause that is called one, a loss alone is none.
    let rooted = (0..corpus.units.len()).any(|at| corpus.says(at, "root"));
    let loses = |at: usize| !rooted && tells(corpus, at) && corpus.units[at].tokens.iter().any(known);
    let leads = |at, mark: &Mark| mark.aside.is_none() && (corpus.says(at, "cause") || loses(at));
    for at in corpus.pick(corpus.prose(leads), 4 * MAX_THEMES) {
        if themes.iter().all(|theme| theme.fit(corpus, at) < FIT) {
            let title = title(&corpus.units[at].text);
            let telling = tokens(&title).filter(|word| !is_listed("generic", word) && !ask.terms.contains_key(word));
            let weigh = |word: String| (word.clone(), corpus.rarity(&word) * if known(&word) { 9.0 } else { 1.0 });
            let root = ["root", "main-cause"].into_iter().filter(|cue| corpus.says(at, cue)).count();
            let words = telling.map(weigh).collect();
            themes.push(Theme { title, words, root, ..Theme::default() });
        }
    }
    themes
}

/// A few words of a sentence: the cause it names, or its start.
fn title(text: &str) -> String {
    let own = text.split_once([':', '：']).filter(|_| has("label", text)).map_or(text, |(_, own)| own);
    let named = |name: &str| clause(cue(name).captures(own)?.iter().skip(1).flatten().next()?.as_str());
    let start = || capital(&own.split_whitespace().take(MAX_WORDS).collect::<Vec<_>>().join(" "));
    named("root").or_else(|| named("named-cause")).or_else(|| clause(own)).unwrap_or_else(start)
}

/// The first clause that can stand alone, without articles.
fn clause(text: &str) -> Option<String> {
    let title = |clause: &str| {
        let words = clause.split_whitespace().skip_while(|word| has("article", word)).take(MAX_WORDS);
        let title = words.collect::<Vec<_>>().join(" ");
        let title = cue("title-end").replace(&title, "");
        let whole = title.contains(is_han) || (title.contains(' ') && !has("pronoun", &title));
        whole.then(|| capital(text::head(&title, 80)))
    };
    cue("clause-end").split(text.trim()).find_map(title)
}

pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
