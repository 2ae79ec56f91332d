//! All documents, cut into units that can be quoted, each with its place and with what it is worth for a request.
//!
//! Lines are sorted into kinds, blocks of them make tables, headings and paragraphs, and paragraphs are cut into sentences.

use crate::conversation::Document;
use crate::lexicon::{Ask, REASONS, cue, has, is_han, tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// What a unit may be instead of a finding: names of a cue, of the cue with `-section` for headings, and of a heading.
pub(crate) const ASIDES: [&str; 3] = ["denied", "proposed", "open"];
/// Bytes up to which sentences are joined and a list item stays whole.
const MAX_JOINED: usize = 600;

/// `page` or `line`, say, and its number.
pub(crate) type Place = (String, String);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sentence,
    Item,
    Row,
    /// The row above the others of its table.
    Header,
    Heading,
}

pub(crate) struct Unit {
    /// Which document.
    pub(crate) source: usize,
    pub(crate) text: String,
    pub(crate) kind: Kind,
    pub(crate) place: Place,
    /// The heading above, as an index of units.
    pub(crate) section: Option<usize>,
    /// Of a row of a table.
    pub(crate) cells: Vec<String>,
    /// Its words, reduced; those of a row without the heads of its columns.
    pub(crate) tokens: BTreeSet<String>,
}

struct Line<'a> {
    place: Place,
    text: &'a str,
    kind: Kind,
    /// Something that is not text stands before it.
    gap: bool,
}

#[derive(Default)]
pub(crate) struct Corpus {
    pub(crate) units: Vec<Unit>,
    /// The units of each, from the header on.
    pub(crate) tables: Vec<Range<usize>>,
    /// What is seen in each unit.
    pub(crate) marks: Vec<Mark>,
    /// In how many units each word is.
    pub(crate) frequency: BTreeMap<String, f64>,
}

pub(crate) struct Mark {
    score: f64,
    /// Share of the request's words that it has, by weight: 0 to 1.
    pub(crate) query: f64,
    pub(crate) aside: Option<&'static str>,
    /// Can be quoted.
    prose: bool,
}

impl Corpus {
    pub(crate) fn new(documents: &[&Document], ask: &Ask) -> Self {
        let mut corpus = Self::default();
        documents.iter().enumerate().for_each(|(source, document)| corpus.cut(source, document));
        for token in corpus.units.iter().flat_map(|unit| &unit.tokens) {
            *corpus.frequency.entry(token.clone()).or_default() += 1.0;
        }
        corpus.marks = (0..corpus.units.len()).map(|at| corpus.mark(at, ask)).collect();
        corpus
    }

    /// Cuts a document into units.
    fn cut(&mut self, source: usize, document: &Document) {
        for block in lines(document).chunk_by(joins) {
            if block[0].kind == Kind::Row { self.table(source, block) } else { self.paragraph(source, block) }
        }
    }

    fn push(&mut self, source: usize, kind: Kind, place: &Place, text: &str, cells: Vec<String>) {
        let last = self.units.last().filter(|last| last.source == source);
        let section = match last {
            Some(last) if last.kind == Kind::Heading => Some(self.units.len() - 1),
            // What follows a list is not of it.
            Some(last) if last.kind == Kind::Item && kind == Kind::Sentence => None,
            last => last.and_then(|last| last.section),
        };
        let text = cue("stray").replace(text, "").into_owned();
        let tokens = if cells.is_empty() { tokens(&text).collect() } else { tokens(&cells.join(" ")).collect() };
        self.units.push(Unit { source, text, kind, place: place.clone(), section, cells, tokens });
    }

    fn table(&mut self, source: usize, block: &[Line]) {
        let start = self.units.len();
        let heads = cells(block[0].text);
        for line in block {
            let cells = cells(line.text);
            let filled = heads.iter().zip(&cells).filter(|(_, cell)| !cell.is_empty());
            let text = filled.map(|(head, cell)| format!("{head}: {cell}")).collect::<Vec<_>>().join("; ");
            let kind = if start == self.units.len() { Kind::Header } else { Kind::Row };
            if cells.iter().any(|cell| cell.contains(|c| !"-:= ".contains(c))) {
                self.push(source, kind, &line.place, &text, cells);
            }
        }
        // One with nothing in its cells is none.
        self.tables.extend((start < self.units.len()).then_some(start..self.units.len()));
    }

    fn paragraph(&mut self, source: usize, block: &[Line]) {
        let (mut text, mut starts) = (String::new(), Vec::new());
        for line in block {
            let line = line.text.trim().replace("**", "");
            let joined = |c: char| is_han(c) || "，。；、：".contains(c);
            text.push_str(if text.ends_with(joined) || line.starts_with(joined) { "" } else { " " });
            starts.push(text.len());
            text.push_str(&cue("marker").replace(&line, ""));
        }
        // An item is one thought, unless it is a whole paragraph.
        let whole = block[0].kind != Kind::Sentence && text.len() <= MAX_JOINED;
        let own = text.trim().trim_end_matches([':', '：']);
        for (at, sentence) in if whole { vec![(1, own)] } else { sentences(&text) } {
            let line = starts.partition_point(|start| *start <= at).saturating_sub(1);
            self.push(source, block[0].kind, &block[line].place, sentence, Vec::new());
        }
    }

    /// Whether the unit has the cue.
    pub(crate) fn says(&self, at: usize, cue: &str) -> bool {
        has(cue, &self.units[at].text)
    }

    /// How much a word tells: the rarer, the more.
    pub(crate) fn rarity(&self, token: &str) -> f64 {
        (1.0 + self.units.len() as f64 / (1.0 + self.frequency.get(token).unwrap_or(&0.0))).ln()
    }

    /// Share of the request's words that the unit has.
    fn query(&self, at: usize, ask: &Ask) -> f64 {
        let asked = |term: &String| self.rarity(term);
        let said = ask.terms.keys().filter(|term| self.units[at].tokens.contains(*term));
        said.map(asked).sum::<f64>() / ask.terms.keys().map(asked).sum::<f64>().max(f64::MIN_POSITIVE)
    }

    /// How far the unit has words that come back, but not everywhere: 0 to about 1.
    fn centrality(&self, unit: &Unit) -> f64 {
        let worth = unit.tokens.iter().map(|token| self.frequency[token].ln_1p() * self.rarity(token)).sum::<f64>();
        // No word can be worth more than this.
        let most = ((1.0 + self.units.len() as f64).ln() / 2.0).powi(2);
        worth / most / (unit.tokens.len() as f64).max(8.0)
    }

    fn mark(&self, at: usize, ask: &Ask) -> Mark {
        let unit = &self.units[at];
        let reasons = ask.task == REASONS;
        let above = unit.section.filter(|_| unit.kind == Kind::Item);
        let item_of = |aside: &str| above.is_some_and(|at| self.says(at, &format!("{aside}-section")));
        let fits = |aside: &&str| (reasons || *aside != "denied") && (self.says(at, aside) || item_of(aside));
        let aside = ASIDES.into_iter().find(fits);
        // What stands under a heading speaks of it.
        let query = self.query(at, ask).max(unit.section.map_or(0.0, |at| 0.5 * self.query(at, ask)));
        let said = |cue: &str, weight: f64| if self.says(at, cue) { weight } else { 0.0 };
        let telling = said("cause", 1.0) + said("loss", 0.5) + said("root", 0.8);
        let told = said("figure", 0.4) + telling * if reasons { 1.0 } else { 0.2 };
        let worth = 1.2 * query + 0.7 * self.centrality(unit) + told;
        let question = unit.text.ends_with(['?', '？']);
        let han = unit.text.chars().filter(|c| is_han(*c)).count();
        let words = (unit.text.split_whitespace().count() + han / 2).max(1) as f64;
        // A short sentence says little, and a long one too much.
        let length = if question { 0.2 } else { (words / 6.0).min(45.0 / words).min(1.0).sqrt() };
        let prose = match unit.kind {
            Kind::Header | Kind::Heading => false,
            // The table stands for its rows, unless one is asked for.
            Kind::Row => query > 0.0 && !reasons,
            Kind::Sentence | Kind::Item => !question || aside == Some("open"),
        };
        Mark { score: worth * length, query, aside, prose }
    }

    /// Quotable units that fit.
    pub(crate) fn prose(&self, fits: impl Fn(usize, &Mark) -> bool) -> Vec<usize> {
        (0..self.units.len()).filter(|at| self.marks[*at].prose && fits(*at, &self.marks[*at])).collect()
    }

    /// The best of `candidates` by score and `bonus`, best first, none with most of its words in common with another.
    pub(crate) fn pick(&self, mut candidates: Vec<usize>, count: usize, bonus: impl Fn(usize) -> f64) -> Vec<usize> {
        let worth = |at: &usize| self.marks[*at].score + bonus(*at);
        candidates.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
        let mut chosen: Vec<usize> = Vec::new();
        for at in candidates {
            let own = &self.units[at];
            let alike = |other: &usize| {
                let other = &self.units[*other].tokens;
                own.tokens.intersection(other).count() * 2 >= own.tokens.union(other).count().max(1)
            };
            if chosen.len() < count && (own.kind == Kind::Row || !chosen.iter().any(alike)) {
                chosen.push(at);
            }
        }
        chosen
    }
}

/// The lines of a document that say something.
fn lines(document: &Document) -> Vec<Line<'_>> {
    // What stands on most pages, but for the numbers, is a footer.
    let pages = document.lines.iter().filter(|line| has("page-mark", line)).count();
    let undated = |line: &str| line.trim().replace(|c: char| c.is_ascii_digit(), "");
    let mut repeated: BTreeMap<String, usize> = BTreeMap::new();
    for line in document.lines.iter().filter(|line| pages > 2 && line.len() < 120) {
        *repeated.entry(undated(line)).or_default() += 1;
    }
    let tabular = document.name().ends_with(".csv") || document.name().ends_with(".tsv");
    let (mut mark, mut gap, mut code, mut lines) = (None, true, false, Vec::new());
    for (text, number) in document.lines.iter().zip(1..) {
        mark = cue("page-mark").captures(text).map(|found| (found[1].to_lowercase(), found[2].to_owned())).or(mark);
        let fence = text.trim_start().starts_with("```");
        code ^= fence;
        let footer = repeated.get(&undated(text)).is_some_and(|count| *count > 2 && *count * 2 > pages);
        if fence || code || footer || has("noise", text) {
            gap = true;
            continue;
        }
        let next = document.lines.get(number).map_or("", String::as_str);
        let kind = match () {
            () if tabular || text.trim_start().starts_with('|') => Kind::Row,
            () if is_heading(text, next, gap) => Kind::Heading,
            () if has("item", text) => Kind::Item,
            () => Kind::Sentence,
        };
        lines.push(Line { place: mark.clone().unwrap_or(("line".to_owned(), number.to_string())), text, kind, gap });
        gap = false;
    }
    lines
}

/// Whether a line goes on with what the one before it began.
fn joins(before: &Line, line: &Line) -> bool {
    let open = has("unfinished", before.text);
    let goes_on = open && line.text.starts_with(char::is_lowercase);
    match (before.kind, line.kind) {
        (Kind::Row, Kind::Row) => !line.gap,
        (Kind::Sentence | Kind::Item, Kind::Sentence) => (!line.gap || goes_on) && (open || !has("label", line.text)),
        _ => false,
    }
}

/// Whether a line is marked as a heading, or short, alone and without an end.
fn is_heading(text: &str, next: &str, gap: bool) -> bool {
    let listed = has("item", next);
    let bare = text.trim().trim_end_matches([':', '：']);
    let titled = has("title", bare) && has("unfinished", if listed { bare } else { text }) && !has("label", bare);
    // A paragraph does not break its first line that early; a number before it may be that of an item.
    let broken = !listed && text.len().max(20) * 2 < next.len();
    let alone = broken || (!has("item", text) && (listed || has("noise", next)));
    has("marked", text) || (gap && titled && alone)
}

/// The cells of a row of a Markdown table or of separated values.
fn cells(line: &str) -> Vec<String> {
    let value = |cell: &str| cell.trim().to_owned();
    if let Some(row) = line.trim().strip_prefix('|') {
        return row.trim_end_matches('|').split('|').map(value).collect();
    }
    let often = |delimiter: &u8| line.bytes().filter(|byte| byte == delimiter).count();
    let delimiter = [b'\t', b';', b','].into_iter().max_by_key(often).unwrap_or(b',');
    let mut reader = csv::ReaderBuilder::new().has_headers(false).delimiter(delimiter).from_reader(line.as_bytes());
    reader.records().flatten().next().map_or_else(Vec::new, |row| row.iter().map(value).collect())
}

/// Sentences with the byte at which each starts.
fn sentences(text: &str) -> Vec<(usize, &str)> {
    let mut starts: Vec<usize> = Vec::new();
    for (at, piece) in text.split_sentence_bound_indices() {
        // "That is why …" says nothing without the sentence before it.
        let leans = |start: &usize| has("leans", piece) || has("abbreviated", &text[*start..at]);
        let joined = starts.last().is_some_and(|start| at - start < MAX_JOINED && leans(start));
        starts.extend((!joined).then_some(at));
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let pieces = starts.iter().zip(ends).map(|(start, end)| (*start, text[*start..end].trim()));
    pieces.filter(|(_, piece)| piece.contains(char::is_alphanumeric)).collect()
}
