//! What is quoted where.

use crate::ask::{Ask, COMPARE, LIST, QUESTION, REASONS, SUMMARY};
use crate::conversation::Document;
use crate::corpus::{ASIDES, Corpus, Mark};
use crate::lexicon::{has, is_han, is_listed};
use crate::themes::{Theme, gather};
use crate::units::{Kind, Unit};
use deerflow_core::text;
use std::collections::BTreeSet;
use std::ops::Range;

const MAX_TABLES: usize = 3;
/// Items of a list.
const MAX_ITEMS: usize = 60;
/// Headings after the main part: figures, and the asides.
const SECTIONS: [&str; 4] = ["figures", ASIDES[0], ASIDES[1], ASIDES[2]];
/// Marks of a quotation.
const QUOTES: [char; 3] = ['“', '”', '"'];

pub(crate) struct Findings<'a> {
    pub(crate) ask: &'a Ask,
    /// The files that were read.
    pub(crate) documents: Vec<&'a Document>,
    /// The others.
    pub(crate) failed: Vec<&'a Document>,
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
        let (documents, failed): (Vec<_>, Vec<_>) = documents.iter().partition(|document| document.failure.is_none());
        let corpus = Corpus::new(&documents, ask);
        let vague = |term: &str| is_listed("generic", term) || is_listed("movement", term);
        let missed = ask.terms.iter().filter(|(term, _)| !vague(term) && corpus.frequency(term) == 0);
        let missing: Vec<&str> = missed.map(|(_, word)| word.as_str()).collect();
        let best = corpus.marks.iter().map(|mark| mark.query).fold(0.0, f64::max);
        // A name that no source has: what shares another word with the question is no answer.
        let named = ask.task == QUESTION && missing.iter().any(|word| word.starts_with(char::is_uppercase));
        let unanswered = !missing.is_empty() && (best == 0.0 || (named && best < 0.5));
        let han = corpus.units.iter().filter(|unit| unit.text.contains(is_han)).count();
        let off_topic = match ask.task {
            SUMMARY | COMPARE => false,
            REASONS => unanswered && corpus.prose(|at, _| corpus.says(at, "cause")).len() < 2,
            // Words of one language are not looked for in another.
            _ => unanswered && ask.chinese == (han * 2 > corpus.units.len()),
        };
        let mut themes = match ask.task {
            REASONS if !off_topic => gather(&corpus, ask),
            LIST if !off_topic => listed(&corpus, ask),
            _ => Vec::new(),
        };
        if themes.is_empty() && !off_topic {
            themes = by_file(&corpus, ask, &documents, best > 0.0);
        }
        let mut used: BTreeSet<usize> = themes.iter().flat_map(|theme| &theme.quotes).copied().collect();
        let sections = SECTIONS.map(|name| {
            let fits = |at, mark: &Mark| mark.aside.or(corpus.says(at, "figure").then_some("figures")) == Some(name);
            let mut quotes = corpus.pick(corpus.prose(|at, mark| !used.contains(&at) && fits(at, mark)), 8);
            quotes.sort_unstable();
            used.extend(&quotes);
            (name, quotes)
        });
        let figures = |at: usize| corpus.units[at].cells.concat().contains(|c: char| c.is_ascii_digit());
        let tables = corpus.tables.iter().filter(|table| table.len() > 1 && (*table).clone().any(figures)).cloned();
        let tables = tables.take(if off_topic { 0 } else { MAX_TABLES }).collect();
        Self { ask, documents, failed, corpus, themes, sections, tables, missing, off_topic }
    }

    /// `“…” (notes.pdf, p. 3)`
    pub(crate) fn quote(&self, at: usize) -> String {
        let text = text::ellipsis(&self.corpus.units[at].text, 320);
        let own = text.strip_prefix(QUOTES).and_then(|text| text.strip_suffix(QUOTES)).unwrap_or(&text);
        match self.corpus.units[at].kind {
            Kind::Row => format!("{text} {}", self.cite(at)),
            _ => format!("“{}” {}", own.replace(QUOTES, "'"), self.cite(at)),
        }
    }

    /// `(notes.pdf, p. 3)`
    pub(crate) fn cite(&self, at: usize) -> String {
        let Unit { source, place: (kind, number), .. } = &self.corpus.units[at];
        format!("({}, {})", self.documents[*source].name(), self.ask.say_of(kind, number))
    }
}

/// All items under each heading that is asked for.
fn listed(corpus: &Corpus, ask: &Ask) -> Vec<Theme> {
    let theme = |(at, unit): (usize, &Unit)| {
        let about = unit.tokens.iter().any(|token| ask.terms.contains_key(token));
        let tasks = has("tasks", &ask.text) && has("proposed-section", &unit.text);
        let own = |item: &usize| corpus.units[*item].section == Some(at) && corpus.units[*item].kind == Kind::Item;
        let items = || (at..corpus.units.len()).filter(own).take(MAX_ITEMS).collect();
        (unit.kind == Kind::Heading && (about || tasks)).then(|| Theme::plain(unit.text.clone(), items()))
    };
    corpus.units.iter().enumerate().filter_map(theme).filter(|theme| !theme.quotes.is_empty()).collect()
}

/// The best of each file: what answers the request where something does, else what tells most.
fn by_file(corpus: &Corpus, ask: &Ask, documents: &[&Document], answered: bool) -> Vec<Theme> {
    let size = if ask.task == LIST { 20 } else { (corpus.units.len() / 10).clamp(5, 10) };
    let wanted = |at| ask.wanted.is_some_and(|cue| corpus.says(at, cue));
    let told = (0..corpus.units.len()).any(|at| corpus.marks[at].query > 0.0 && wanted(at));
    let fits = |at, mark: &Mark| match ask.task {
        COMPARE => true,
        LIST | QUESTION if answered || ask.wanted.is_some() => mark.query > 0.0 || (!told && wanted(at)),
        _ => mark.aside.is_none(),
    };
    let theme = |(source, document): (usize, &&Document)| {
        let own = corpus.prose(|at, mark| corpus.units[at].source == source && fits(at, mark));
        let title = if documents.len() > 1 { document.name() } else { "" };
        Theme::plain(title.to_owned(), corpus.pick(own, size))
    };
    let themes = documents.iter().enumerate().map(theme);
    themes.filter(|theme| !theme.quotes.is_empty() || !theme.title.is_empty()).collect()
}
