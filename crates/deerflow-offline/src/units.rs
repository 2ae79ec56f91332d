//! A document as units that can be quoted, each with its place.

use crate::conversation::Document;
use crate::lexicon::{cue, has, is_han};
use std::collections::BTreeMap;
use unicode_segmentation::UnicodeSegmentation;

/// More units than this are not looked at.
const MAX_UNITS: usize = 30_000;
/// Bytes up to which sentences are joined and a list item stays whole.
const MAX_JOINED: usize = 600;
/// Lines after which a paragraph without an end is cut.
const MAX_LINES: usize = 200;

/// `page` or `line`, say, and its number.
pub(crate) type Place = (String, String);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sentence,
    Item,
    Row,
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
    /// The first of its section.
    pub(crate) lead: bool,
}

pub(crate) struct Table {
    pub(crate) source: usize,
    pub(crate) place: Place,
    /// Cells; the first row is the header.
    pub(crate) rows: Vec<Vec<String>>,
}

/// Cuts documents up, one after the other.
#[derive(Default)]
pub(crate) struct Cutter {
    pub(crate) units: Vec<Unit>,
    pub(crate) tables: Vec<Table>,
    source: usize,
    section: Option<usize>,
    /// Lines of the paragraph that is open.
    lines: Vec<(Place, String)>,
    /// Whether the last table is open.
    in_table: bool,
}

impl Cutter {
    pub(crate) fn cut(&mut self, source: usize, document: &Document) {
        (self.source, self.section) = (source, None);
        let pages = document.lines.iter().filter(|(_, line)| has("page-mark", line)).count();
        let undated = |line: &str| line.trim().replace(|c: char| c.is_ascii_digit(), "");
        let mut repeated: BTreeMap<String, usize> = BTreeMap::new();
        for (_, line) in document.lines.iter().filter(|(_, line)| pages > 2 && line.len() < 120) {
            *repeated.entry(undated(line)).or_default() += 1;
        }
        let (mut mark, mut gap, mut code) = (None, true, false);
        for (index, (number, line)) in document.lines.iter().enumerate() {
            if let Some(found) = cue("page-mark").captures(line) {
                (mark, self.in_table) = (Some((found[1].to_lowercase(), found[2].to_owned())), false);
                continue;
            }
            let fence = line.trim_start().starts_with("```");
            code ^= fence;
            let footer = repeated.get(&undated(line)).is_some_and(|n| *n > 2 && *n * 2 > pages);
            if fence || code || footer || has("noise", line) || self.units.len() >= MAX_UNITS {
                gap = true;
                continue;
            }
            let place = mark.clone().unwrap_or(("line".to_owned(), number.to_string()));
            // A paragraph does not break its first line that early.
            let ends = |next: &str| has("noise", next) || has("page-mark", next) || line.len().max(20) * 2 < next.len();
            let next = document.lines.get(index + 1).map(|(_, next)| next);
            let listed = next.is_some_and(|next| has("item", next));
            let alone = gap && (listed || next.is_none_or(|next| ends(next)));
            let bare = if listed { line.trim_end().trim_end_matches([':', '：']) } else { line };
            if let Some(cells) = cells(&document.name, line) {
                self.end_paragraph();
                self.row(place, cells);
                continue;
            }
            self.in_table = false;
            if let Some(title) = heading(bare, alone) {
                self.end_paragraph();
                self.section = Some(self.units.len());
                self.push(Kind::Heading, place, title.replace("**", ""));
            } else {
                let open = self.lines.last().is_some_and(|(_, last)| has("unfinished", last));
                let goes_on = open && line.starts_with(char::is_lowercase);
                let starts = (gap && !goes_on) || (!open && has("label", line)) || has("item", line);
                if starts || self.lines.len() > MAX_LINES {
                    self.end_paragraph();
                }
                self.lines.push((place, line.replace("**", "").trim().to_owned()));
            }
            gap = false;
        }
        self.end_paragraph();
        self.in_table = false;
    }

    fn push(&mut self, kind: Kind, place: Place, text: String) {
        let (source, section) = (self.source, self.section);
        let lead = self.units.last().is_none_or(|last| last.kind == Kind::Heading || last.source != source);
        let text = cue("stray").replace(&text, "").into_owned();
        self.units.push(Unit { source, text, kind, place, section, lead });
    }

    fn row(&mut self, place: Place, cells: Vec<String>) {
        if !cells.iter().any(|cell| cell.contains(|c| !"-:= ".contains(c))) {
            return;
        }
        match self.tables.last_mut().filter(|_| self.in_table) {
            Some(table) => {
                let text = labelled(&table.rows[0], &cells);
                table.rows.push(cells);
                self.push(Kind::Row, place, text);
            }
            None => self.tables.push(Table { source: self.source, place, rows: vec![cells] }),
        }
        self.in_table = true;
    }

    fn end_paragraph(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        let Some((_, first)) = lines.first() else { return };
        let item = has("item", first);
        // What follows a list is not of it.
        if !item && self.units.last().is_some_and(|last| last.kind == Kind::Item) {
            self.section = None;
        }
        let (mut text, mut starts) = (cue("item").replace(first, "").into_owned(), vec![0]);
        for (_, line) in &lines[1..] {
            let joins = |c: char| is_han(c) || "，。；、：".contains(c);
            text.push_str(if text.ends_with(joins) || line.starts_with(joins) { "" } else { " " });
            starts.push(text.len());
            text.push_str(line);
        }
        // An item is one thought, unless it is a whole paragraph.
        let whole = item && text.len() <= MAX_JOINED;
        for (at, sentence) in if whole { vec![(0, text.as_str())] } else { sentences(&text) } {
            let line = starts.partition_point(|start| *start <= at) - 1;
            let kind = if item { Kind::Item } else { Kind::Sentence };
            self.push(kind, lines[line].0.clone(), sentence.to_owned());
        }
    }
}

/// `Site: Oslo; Rent: 1200`
pub(crate) fn labelled(heads: &[String], cells: &[String]) -> String {
    let cells = heads.iter().zip(cells).filter(|(_, cell)| !cell.is_empty());
    cells.map(|(head, cell)| format!("{head}: {cell}")).collect::<Vec<_>>().join("; ")
}

/// The cells of a table row, without formulas that were never computed: of a Markdown table, or of any line of a file of rows.
fn cells(name: &str, line: &str) -> Option<Vec<String>> {
    let value = |cell: &str| if has("formulas", cell) { String::new() } else { cell.trim().to_owned() };
    if let Some(row) = line.trim().strip_prefix('|') {
        return Some(row.trim_end_matches('|').split('|').map(value).collect());
    }
    let tabular = name.ends_with(".csv") || name.ends_with(".tsv");
    let often = |delimiter: &u8| line.bytes().filter(|byte| byte == delimiter).count();
    let delimiter = [b'\t', b';', b','].into_iter().max_by_key(often).filter(|_| tabular)?;
    let mut reader = csv::ReaderBuilder::new().has_headers(false).delimiter(delimiter).from_reader(line.as_bytes());
    Some(reader.records().next()?.ok()?.iter().map(value).collect())
}

/// The heading that a line is: marked, or short, alone and without an end.
fn heading(line: &str, alone: bool) -> Option<&str> {
    let text = line.trim();
    if text.starts_with('#') {
        return text.trim_start_matches('#').strip_prefix(' ').map(str::trim);
    }
    let chars = text.chars().count();
    let short = chars <= 70 && text.split_whitespace().count() <= 10 && has("unfinished", text);
    let starts = |c: char| c.is_uppercase() || c.is_ascii_digit() || (is_han(c) && chars <= 20);
    (alone && short && text.starts_with(starts) && !has("item", line) && !has("label", text)).then_some(text)
}

/// Sentences with the byte at which each starts.
fn sentences(text: &str) -> Vec<(usize, &str)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for (at, piece) in text.split_sentence_bound_indices() {
        // "That is why …" says nothing without the sentence before it.
        let joins = |(start, end): &&mut (usize, usize)| {
            end - *start < MAX_JOINED && (has("leans", piece) || has("abbreviated", &text[*start..at]))
        };
        match ranges.last_mut().filter(joins) {
            Some(last) => last.1 = at + piece.len(),
            None => ranges.push((at, at + piece.len())),
        }
    }
    let pieces = ranges.into_iter().map(|(start, end)| (start, text[start..end].trim()));
    pieces.filter(|(_, piece)| piece.contains(char::is_alphanumeric)).collect()
}
