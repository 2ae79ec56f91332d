//! What is quoted where.

use crate::ask::{Ask, LIST, REASONS, SUMMARY};
use crate::conversation::Document;
use crate::corpus::{ASIDES, Corpus, Mark};
use crate::lexicon::{is_generic, tokens};
use crate::themes::{Theme, gather};
use crate::units::Place;
use deerflow_core::text;
use std::collections::BTreeSet;

const MAX_TABLES: usize = 3;

pub(crate) struct Findings<'a> {
    pub(crate) ask: &'a Ask,
    pub(crate) documents: &'a [Document],
    pub(crate) corpus: Corpus,
    /// The main part, by theme or by file.
    pub(crate) themes: Vec<Theme>,
    pub(crate) figures: Vec<usize>,
    /// Indices of tables worth showing whole.
    pub(crate) tables: Vec<usize>,
    /// What is no finding, by [`ASIDES`].
    pub(crate) asides: Vec<(&'static str, Vec<usize>)>,
    /// Words of the request that no source has.
    pub(crate) missing: Vec<&'a str>,
    /// Nothing fits the request; the points are the general ones.
    pub(crate) off_topic: bool,
}

impl<'a> Findings<'a> {
    pub(crate) fn new(ask: &'a Ask, documents: &'a [Document]) -> Self {
        let corpus = Corpus::new(documents, ask);
        let reasons = ask.task == REASONS;
        let specific = !ask.terms.is_empty() && ask.task != SUMMARY;
        let about_causes = reasons && corpus.prose(|_, mark| mark.cause).len() > 1;
        let off_topic = specific && !about_causes && corpus.marks.iter().all(|mark| mark.query == 0.0);
        let mut themes = if reasons && !off_topic { gather(&corpus, ask) } else { Vec::new() };
        if themes.is_empty() {
            let size = if ask.task == LIST { 20 } else { (corpus.units.len() / 10).clamp(5, 10) };
            let fits = |mark: &Mark| if specific && !off_topic { mark.query > 0.0 } else { mark.aside.is_none() };
            themes.extend(documents.iter().enumerate().map(|(source, document)| {
                let own = corpus.prose(|at, mark| corpus.units[at].source == source && fits(mark));
                let title = if documents.len() > 1 { document.name.clone() } else { String::new() };
                Theme::plain(title, corpus.pick(own, size))
            }));
            themes.retain(|theme| !theme.quotes.is_empty());
        }
        let mut used: BTreeSet<usize> = themes.iter().flat_map(|theme| &theme.quotes).copied().collect();
        let mut take = |candidates: Vec<(usize, f64)>, count: usize| {
            let mut chosen = corpus.pick(candidates.into_iter().filter(|(at, _)| !used.contains(at)).collect(), count);
            chosen.sort_unstable();
            used.extend(&chosen);
            chosen
        };
        let figures = take(corpus.prose(|_, mark| mark.figure && mark.aside.is_none()), 8);
        let asides = ASIDES.map(|aside| (aside, take(corpus.prose(|_, mark| mark.aside == Some(aside)), 6))).to_vec();
        // Words of movement have too many names to be missed.
        let vague = |term: &str| is_generic(term) || ["fall", "rise"].contains(&term);
        let said: BTreeSet<&String> = corpus.tokens.iter().flatten().collect();
        let missed = ask.terms.iter().filter(|(_, term)| !vague(term) && !said.contains(term));
        let missing = missed.map(|(word, _)| word.as_str()).collect();
        let text = |at: &usize| corpus.tables[*at].rows[1..].concat().join(" ");
        let touched = |at: &usize| tokens(&text(at)).iter().any(|own| ask.terms.iter().any(|(_, term)| term == own));
        let mut tables: Vec<usize> = (0..corpus.tables.len()).collect();
        tables.retain(|at| text(at).contains(|c: char| c.is_ascii_digit()));
        tables.sort_by_cached_key(|at| !touched(at));
        tables.truncate(MAX_TABLES);
        Self { ask, documents, corpus, themes, figures, tables, asides, missing, off_topic }
    }

    /// `“…” (notes.pdf, p. 3)`
    pub(crate) fn quote(&self, at: usize) -> String {
        let unit = &self.corpus.units[at];
        let text = text::ellipsis(&unit.text, 320);
        // A quotation may go on in the next sentence.
        let odd = text.matches(['“', '”', '"']).count() % 2 == 1;
        let text = if odd { text.trim_matches(['“', '”', '"']) } else { &text };
        format!("“{text}” {}", self.cite(unit.source, &unit.place))
    }

    /// `(notes.pdf, p. 3)`
    pub(crate) fn cite(&self, source: usize, (kind, number): &Place) -> String {
        let name = self.documents.get(source).map_or("", |document| &document.name);
        format!("({name}, {})", self.ask.say_of(kind, number))
    }

    /// The files that were read.
    pub(crate) fn names(&self) -> String {
        let read = self.documents.iter().filter(|document| document.failure.is_none());
        read.map(|document| document.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}
