//! What is quoted where.

use crate::ask::{Ask, LIST, REASONS, SUMMARY};
use crate::conversation::Document;
use crate::corpus::{Corpus, Mark};
use crate::lexicon::{is_generic, tokens};
use crate::themes::{Theme, gather};
use crate::units::Place;
use deerflow_core::text;
use std::collections::BTreeSet;

const MAX_TABLES: usize = 3;
/// Headings after the main part: figures, and the asides of [`Mark`].
const SECTIONS: [&str; 4] = [FIGURES, "denied", "proposed", OPEN];
pub(crate) const FIGURES: &str = "figures";
pub(crate) const OPEN: &str = "open";

pub(crate) struct Findings<'a> {
    pub(crate) ask: &'a Ask,
    pub(crate) documents: &'a [Document],
    pub(crate) corpus: Corpus,
    /// The main part, by theme or by file.
    pub(crate) themes: Vec<Theme>,
    /// Indices of tables worth showing whole.
    pub(crate) tables: Vec<usize>,
    /// What else is quoted, each under its heading.
    pub(crate) sections: [(&'static str, Vec<usize>); SECTIONS.len()],
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
        let sections = SECTIONS.map(|name| {
            let fits =
                |mark: &Mark| mark.aside == Some(name) || (name == FIGURES && mark.figure && mark.aside.is_none());
            let mut quotes = corpus.pick(corpus.prose(|at, mark| fits(mark) && !used.contains(&at)), 8);
            quotes.sort_unstable();
            used.extend(&quotes);
            (name, quotes)
        });
        // Words of movement have too many names to be missed.
        let vague = |term: &str| is_generic(term) || ["fall", "rise"].contains(&term);
        let said: BTreeSet<&String> = corpus.tokens.iter().flatten().collect();
        let missed = ask.terms.iter().filter(|(term, _)| !vague(term) && !said.contains(term));
        let missing = missed.map(|(_, word)| word.as_str()).collect();
        let text = |at: &usize| corpus.tables[*at].rows.concat().join(" ");
        let touched = |at: &usize| tokens(&text(at)).iter().any(|own| ask.terms.contains_key(own));
        let mut tables: Vec<usize> = (0..corpus.tables.len()).collect();
        tables.retain(|at| text(at).contains(|c: char| c.is_ascii_digit()));
        tables.sort_by_cached_key(|at| !touched(at));
        tables.truncate(MAX_TABLES);
        Self { ask, documents, corpus, themes, sections, tables, missing, off_topic }
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
