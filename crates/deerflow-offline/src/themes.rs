//! Sentences that give causes, gathered under the words they share.

use crate::lexicon::{CAUSE_COLUMN, akin, is_generic, is_han, listed, stem, subject, surfaces, tokens};
use crate::report::capital;
use crate::request::Ask;
use crate::score::{Corpus, Mark};
use crate::sentences::Table;
use std::collections::{BTreeMap, BTreeSet};

const MAX_THEMES: usize = 6;
const MAX_CANDIDATES: usize = 80;

#[derive(Debug)]
pub(crate) struct Theme {
    /// A phrase from the text.
    pub(crate) title: String,
    /// The rest of the table row that gives it, and where it is.
    pub(crate) row: Option<(String, usize)>,
    /// Sentences that speak of it.
    pub(crate) mentions: usize,
    /// The ones to quote, best first.
    pub(crate) quotes: Vec<usize>,
}

/// Themes by weight, and the causes that fit none of them. A table of causes in a source goes before our own counting.
pub(crate) fn gather(corpus: &Corpus, marks: &[Mark], ask: &Ask) -> (Vec<Theme>, Vec<usize>) {
    let telling = |at: &usize| marks[*at].prose && (marks[*at].cause || marks[*at].loss) && !marks[*at].aside;
    let pool: Vec<usize> = (0..marks.len()).filter(telling).collect();
    let (mut themes, mut free) = tabled(corpus, marks);
    if themes.is_empty() {
        (themes, free) = clustered(corpus, marks, ask, &pool);
    }
    let free = free.into_iter().filter(|at| telling(at) && marks[*at].cause);
    let left = corpus.pick(marks, free, 4);
    (themes, left)
}

/// One theme for each row of a table whose first column is headed "cause" or "reason".
fn tabled(corpus: &Corpus, marks: &[Mark]) -> (Vec<Theme>, Vec<usize>) {
    let titled = |table: &Table| table.rows[0].first().is_some_and(|cell| CAUSE_COLUMN.is_match(cell));
    let Some(at) = corpus.tables.iter().position(titled) else { return (Vec::new(), Vec::new()) };
    let (header, rows) =
        corpus.tables[at].rows.split_first().map_or((&[][..], &[][..]), |(head, rows)| (&head[..], rows));
    let named = |row: &&Vec<String>| row.first().is_some_and(|cell| cell.len() > 2 && !listed("dull", cell));
    let rows: Vec<Row> = rows.iter().filter(named).take(8).map(|row| Row::new(corpus, row)).collect();
    // Each sentence goes to the row that it fits best.
    let mut fitting: Vec<Vec<(usize, f64)>> = vec![Vec::new(); rows.len()];
    let mut free = Vec::new();
    for at in (0..marks.len()).filter(|at| marks[*at].prose && !marks[*at].aside) {
        let fits = rows.iter().map(|row| row.fit(corpus, at)).enumerate();
        match fits.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).filter(|(_, fit)| *fit >= 0.4) {
            Some((row, fit)) => fitting[row].push((at, fit * 2.0 + marks[at].score)),
            None => free.push(at),
        }
    }
    let theme = |(row, mut fitting): (&Row, Vec<(usize, f64)>)| {
        fitting.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let cells = header.iter().zip(row.cells).skip(1).filter(|(_, cell)| !cell.is_empty());
        let rest = cells.map(|(head, cell)| format!("{head}: {cell}")).collect::<Vec<_>>().join("; ");
        let mentions = fitting.len() + 1;
        let quotes = corpus.unlike(fitting.into_iter().map(|(at, _)| at), 3);
        Theme { title: row.cells[0].clone(), row: Some((rest, at)), mentions, quotes }
    };
    (rows.iter().zip(fitting).map(theme).collect(), free)
}

/// A row of a table of causes, with what a sentence about it has.
struct Row<'a> {
    cells: &'a [String],
    words: BTreeMap<String, f64>,
    figures: Vec<&'a str>,
}

impl<'a> Row<'a> {
    fn new(corpus: &Corpus, cells: &'a [String]) -> Self {
        let telling = tokens(&cells[0]).into_iter().filter(|word| !is_generic(word));
        let words = telling.map(|word| (word.clone(), corpus.rarity(&word))).collect();
        let figure = |word: &&str| word.len() > 3 && word.starts_with(|c: char| c.is_ascii_digit());
        Self { cells, words, figures: cells.iter().flat_map(|cell| cell.split(' ')).filter(figure).collect() }
    }

    /// 0 to 1 for its words, and more for a figure.
    fn fit(&self, corpus: &Corpus, at: usize) -> f64 {
        let own = &corpus.tokens[at];
        let share = |(word, weight): (&String, &f64)| {
            let near = own.iter().any(|token| akin(token, word));
            weight * if own.contains(word) { 1.0 } else { 0.6 * f64::from(near) }
        };
        let said: f64 = self.words.iter().map(share).sum();
        let figure = self.figures.iter().any(|figure| corpus.units[at].text.contains(figure));
        said / self.words.values().sum::<f64>().max(1.0) + if figure { 0.4 } else { 0.0 }
    }
}

/// Themes by the words that the telling sentences share.
fn clustered(corpus: &Corpus, marks: &[Mark], ask: &Ask, pool: &[usize]) -> (Vec<Theme>, Vec<usize>) {
    let mut free = pool.to_vec();
    free.sort_by(|a, b| marks[*b].score.total_cmp(&marks[*a].score).then(a.cmp(b)));
    free.truncate(MAX_CANDIDATES);
    let names = names(corpus);
    let keys: BTreeMap<usize, BTreeSet<Key>> = pool.iter().map(|at| (*at, keys(corpus, *at, &names, ask))).collect();
    let mut themes: Vec<Theme> = Vec::new();
    while themes.len() < MAX_THEMES {
        let mut gains: BTreeMap<&Key, (usize, f64)> = BTreeMap::new();
        for at in &free {
            for key in &keys[at] {
                let gain = gains.entry(key).or_default();
                *gain =
                    (gain.0 + 1, gain.1 + marks[*at].score * if matches!(key, Key::Subject(_)) { 1.6 } else { 1.0 });
            }
        }
        let known = |n: usize, key: &Key| n > 1 || matches!(key, Key::Subject(_));
        let best = gains.into_iter().filter(|(key, (n, _))| known(*n, key));
        let Some((key, _)) = best.max_by(|a, b| a.1.1.total_cmp(&b.1.1).then(b.0.cmp(a.0))) else { break };
        let key = key.clone();
        let (members, rest): (Vec<usize>, Vec<usize>) = free.into_iter().partition(|at| keys[at].contains(&key));
        let speaks = |at: &usize| marks[*at].prose && corpus.tokens[*at].iter().any(|stem| key.holds(stem));
        let all: Vec<usize> = (0..marks.len()).filter(speaks).collect();
        let mut quotes = corpus.pick(marks, members.into_iter(), 3);
        quotes.sort_by(|a, b| marks[*b].score.total_cmp(&marks[*a].score).then(a.cmp(b)));
        themes.push(Theme { title: title(corpus, &all, &key, ask), row: None, mentions: all.len(), quotes });
        free = rest;
    }
    themes.sort_by_key(|theme| std::cmp::Reverse(theme.mentions));
    (themes, free)
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Subject(usize),
    Word(String),
}

impl Key {
    fn holds(&self, stem: &str) -> bool {
        match self {
            Self::Subject(number) => subject(stem) == Some(*number),
            Self::Word(word) => word == stem,
        }
    }
}

/// Stems that are never written small: names of people, firms and places.
fn names(corpus: &Corpus) -> BTreeSet<String> {
    let (mut small, mut great) = (BTreeSet::new(), BTreeSet::new());
    for word in corpus.units.iter().flat_map(|unit| surfaces(&unit.text)) {
        let capital = word.starts_with(char::is_uppercase);
        if capital { &mut great } else { &mut small }.insert(stem(&word));
    }
    great.difference(&small).cloned().collect()
}

fn keys(corpus: &Corpus, at: usize, names: &BTreeSet<String>, ask: &Ask) -> BTreeSet<Key> {
    let asked = |stem: &String| ask.terms.iter().any(|(_, term)| akin(term, stem));
    let words = corpus.tokens[at].iter().filter(|stem| !asked(stem));
    words
        .filter_map(|stem| match subject(stem) {
            Some(number) => Some(Key::Subject(number)),
            None if is_generic(stem) || names.contains(stem) || stem.chars().any(is_han) || stem.len() < 4 => None,
            None => Some(Key::Word(stem.clone())),
        })
        .collect()
}

/// The phrase of two words that comes back most with the key in it, else its most frequent word.
fn title(corpus: &Corpus, members: &[usize], key: &Key, ask: &Ask) -> String {
    let mut counts: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let mut count = |id: String, shown: String, worth: usize| counts.entry(id).or_insert((0, shown)).0 += worth;
    for at in members {
        let text = &corpus.units[*at].text;
        for clause in text.split(|c: char| ",;:()\"“”".contains(c)) {
            let words: Vec<&str> =
                clause.split_whitespace().map(|w| w.trim_matches(|c: char| !c.is_alphanumeric())).collect();
            for pair in words.windows(2) {
                let stems = [stem(pair[0]), stem(pair[1])];
                let fit = |at: usize| key.holds(&stems[at]);
                let plain = |at: usize| {
                    let lower = pair[at].chars().all(|c| c.is_lowercase() || c == '-') && pair[at].len() > 3;
                    lower && !surfaces(pair[at]).is_empty() && !is_generic(&stems[at]) && !pair[at].ends_with("ly")
                };
                if (fit(0) || fit(1)) && plain(0) && plain(1) && !ask.terms.iter().any(|(_, t)| stems.contains(t)) {
                    count(stems.join(" "), pair.join(" "), 3);
                }
            }
        }
        for word in surfaces(text) {
            let stem = stem(&word);
            if key.holds(&stem) {
                count(stem, word.to_lowercase(), 2);
            }
        }
    }
    // A pair must come twice.
    let fits = |id: &str, n: usize| !id.contains(' ') || n >= 6;
    let worth = |id: &str, n: usize| if id.contains(' ') { n * 2 } else { n };
    let best = counts.iter().filter(|(id, (n, _))| fits(id, *n));
    let best = best.max_by(|a, b| worth(a.0, a.1.0).cmp(&worth(b.0, b.1.0)).then(b.0.cmp(a.0)));
    let shown = best.map_or_else(String::new, |(_, (_, shown))| shown.clone());
    capital(&shown)
}
