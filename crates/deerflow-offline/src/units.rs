//! A document as units that can be quoted, each with its place.
//!
//! Lines are sorted into kinds, blocks of them make tables, headings and paragraphs, and paragraphs are cut into sentences.

use crate::conversation::Document;
use crate::corpus::Corpus;
use crate::lexicon::{cue, has, is_han, tokens};
use std::collections::{BTreeMap, BTreeSet};
use unicode_segmentation::UnicodeSegmentation;

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

impl Corpus {
    pub(crate) fn cut(&mut self, source: usize, document: &Document) {
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
        let mut heads = Vec::new();
        for line in block {
            let cells = cells(line.text);
            if heads.is_empty() {
                heads.clone_from(&cells);
            }
            let filled = heads.iter().zip(&cells).filter(|(_, cell)| !cell.is_empty());
            let text = filled.map(|(head, cell)| format!("{head}: {cell}")).collect::<Vec<_>>().join("; ");
            let kind = if start == self.units.len() { Kind::Header } else { Kind::Row };
            if cells.iter().any(|cell| cell.contains(|c| !"-:= ".contains(c))) {
                self.push(source, kind, &line.place, &text, cells);
            }
        }
        self.tables.push(start..self.units.len());
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

/// The cells of a row of a Markdown table or of separated values, without formulas that were never computed.
fn cells(line: &str) -> Vec<String> {
    let value = |cell: &str| if has("formulas", cell) { String::new() } else { cell.trim().to_owned() };
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
