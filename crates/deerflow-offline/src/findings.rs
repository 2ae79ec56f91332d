//! What is quoted where.

use crate::ask::{Ask, COMPARE, LIST, QUESTION, REASONS, SUMMARY};
use crate::conversation::Document;
use crate::corpus::{Corpus, Mark};
use crate::lexicon::{has, is_han, is_listed};
use crate::themes::{Theme, gather};
use crate::units::{Kind, Unit};
use deerflow_core::text;
use std::collections::BTreeSet;
use std::ops::Range;

const MAX_TABLES: usize = 3;
/// Items of a list.
const MAX_ITEMS: usize = 60;
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
    /// Tables worth showing whole.
    pub(crate) tables: Vec<Range<usize>>,
    /// What else is quoted, each under its heading.
    pub(crate) sections: [(&'static str, Vec<usize>); SECTIONS.len()],
    /// Words of the request that no source has.
    pub(crate) missing: Vec<&'a str>,
    /// Nothing fits the request.
    pub(crate) off_topic: bool,
}

impl<'a> Findings<'a> {
    pub(crate) fn new(ask: &'a Ask, documents: &'a [Document]) -> Self {
        let corpus = Corpus::new(documents, ask);
        // Words of one language are not looked for in another.
        let han = corpus.units.iter().filter(|unit| unit.text.contains(is_han)).count();
        let specific = ![SUMMARY, COMPARE].contains(&ask.task) && ask.chinese == (han * 2 > corpus.units.len());
        let said: BTreeSet<&String> = corpus.units.iter().flat_map(|unit| &unit.tokens).collect();
        let missed = ask.terms.iter().filter(|(term, _)| !is_listed("generic", term) && !said.contains(term));
        let missing: Vec<&str> = missed.map(|(_, word)| word.as_str()).collect();
        let best = corpus.marks.iter().map(|mark| mark.query).fold(0.0, f64::max);
        // A name that no source has: what shares another word with the question is no answer.
        let stranger =
            ask.task == QUESTION && best < 0.5 && missing.iter().any(|word| word.starts_with(char::is_uppercase));
        let about_causes = ask.task == REASONS && corpus.prose(|_, mark| mark.cause).len() > 1;
        let off_topic = specific && !about_causes && !missing.is_empty() && (best == 0.0 || stranger);
        let mut themes = match ask.task {
            REASONS if !off_topic => gather(&corpus, ask),
            LIST if !off_topic => listed(&corpus, ask),
            _ => Vec::new(),
        };
        if themes.is_empty() && !off_topic {
            let size = if ask.task == LIST { 20 } else { (corpus.units.len() / 10).clamp(5, 10) };
            let told = corpus.marks.iter().any(|mark| mark.wanted && mark.query > 0.0);
            let fits = |mark: &Mark| match specific && (best > 0.0 || ask.wanted.is_some()) {
                true => mark.query > 0.0 || (mark.wanted && !told),
                false => mark.aside.is_none() || ask.task == COMPARE,
            };
            let read = documents.iter().enumerate().filter(|(_, document)| document.failure.is_none());
            themes.extend(read.map(|(source, document)| {
                let own = corpus.prose(|at, mark| corpus.units[at].source == source && fits(mark));
                let title = if documents.len() > 1 { document.name() } else { "" };
                Theme::plain(title.to_owned(), corpus.pick(own, size))
            }));
            themes.retain(|theme| !theme.quotes.is_empty() || !theme.title.is_empty());
        }
        let mut used: BTreeSet<usize> = themes.iter().flat_map(|theme| &theme.quotes).copied().collect();
        let sections = SECTIONS.map(|name| {
            let fits = |mark: &Mark| mark.aside.or(mark.figure.then_some(FIGURES)) == Some(name);
            let mut quotes = corpus.pick(corpus.prose(|at, mark| fits(mark) && !used.contains(&at)), 8);
            quotes.sort_unstable();
            used.extend(&quotes);
            (name, quotes)
        });
        let figures = |at: usize| corpus.units[at].cells.concat().contains(|c: char| c.is_ascii_digit());
        let tables = corpus.tables.iter().filter(|table| table.len() > 1 && (*table).clone().any(figures)).cloned();
        let tables = tables.take(if off_topic { 0 } else { MAX_TABLES }).collect();
        Self { ask, documents, corpus, themes, sections, tables, missing, off_topic }
    }

    /// `“…” (notes.pdf, p. 3)`
    pub(crate) fn quote(&self, at: usize) -> String {
        let unit = &self.corpus.units[at];
        let text = text::ellipsis(&unit.text, 320);
        let cite = self.cite(at);
        let marks = ['“', '”', '"'];
        let bare = text.trim_matches(marks);
        // A quotation may go on in the next sentence; one at the edge of the quote stands in marks of its own.
        match bare.matches(marks).count() % 2 {
            _ if unit.kind == Kind::Row => format!("{text} {cite}"),
            1 if bare.len() < text.len() => format!("“{}” {cite}", text.replace('“', "‘").replace(['”', '"'], "’")),
            _ => format!("“{bare}” {cite}"),
        }
    }

    /// `(notes.pdf, p. 3)`
    pub(crate) fn cite(&self, at: usize) -> String {
        let Unit { source, place: (kind, number), .. } = &self.corpus.units[at];
        format!("({}, {})", self.documents[*source].name(), self.ask.say_of(kind, number))
    }

    /// The files that were read.
    pub(crate) fn read(&self) -> impl Iterator<Item = &Document> {
        self.documents.iter().filter(|document| document.failure.is_none())
    }
}

/// All items under each heading that is asked for.
fn listed(corpus: &Corpus, ask: &Ask) -> Vec<Theme> {
    let theme = |(at, unit): (usize, &Unit)| {
        let about = unit.tokens.iter().any(|token| ask.terms.contains_key(token));
        let tasks = ask.is("tasks") && has("proposed-section", &unit.text);
        let own = |item: &usize| corpus.units[*item].section == Some(at) && corpus.units[*item].kind == Kind::Item;
        let items = || (at..corpus.units.len()).filter(own).take(MAX_ITEMS).collect();
        (unit.kind == Kind::Heading && (about || tasks)).then(|| Theme::plain(unit.text.clone(), items()))
    };
    corpus.units.iter().enumerate().filter_map(theme).filter(|theme| !theme.quotes.is_empty()).collect()
}
