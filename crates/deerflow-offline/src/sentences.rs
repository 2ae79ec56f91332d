//! A document as units that can be quoted, each with its place.

use crate::conversation::Document;
use crate::lexicon::{is_han, listed, patterns};

use deerflow_core::text;
use std::collections::BTreeMap;

/// More units than this are not looked at; the report says so.
pub(crate) const MAX_UNITS: usize = 30_000;
/// A run of characters without an end is cut here.
const MAX_CHARS: usize = 600;
const ENDS: [char; 14] = ['.', '!', '?', ':', ';', ',', '"', '”', '。', '！', '？', '：', '；', '，'];

patterns! {
    MARK = r"^\s*<!--\s*(page|sheet|chapter|slide)\s+(.+?)\s*-->\s*$";
    ITEM = r"^\s*(?:[-*•·▪–]|\(?\d{1,2}[.)]|[（(]?[一二三四五六七八九十]{1,2}[）)、])\s+";
    LABEL = r"^(?:\*\*)?([\p{Lu}][\p{L}.'’-]*(?: [\p{Lu}(&][\p{L}.,'’&)-]*){0,6}|[\p{Han}·]{2,8}(?:（[^）]{1,20}）)?)(?:\*\*)?\s?[:：](?:\*\*)?\s*(\S.*)$";
    SAID = r"(?:\b(\p{Lu}\p{Ll}+ \p{Lu}[\p{L}'’-]+)(?:,[^,.]{2,50},| \([^)]{2,50}\))? (?:said|says|told|reported|reports|explained|explains|noted|mentioned|added|wrote|confirmed)\b|[Aa]ccording to (\p{Lu}\p{Ll}+ \p{Lu}[\p{L}'’-]+))";
    LEANS = r"^(?:That|This)(?: is|'s|’s) (?:why|because)\b|^(?:As a result|Therefore|Hence|That),? ";
    NUMBERED = r"^\s*(?:page|seite|第)?\s*\d{1,4}\s*(?:页|/\s*\d+|of \d+)?\s*$";
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    Mark(String, String),
    Line(usize),
}

impl Default for Place {
    fn default() -> Self {
        Self::Line(1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sentence,
    Item,
    Row,
    Heading,
}

#[derive(Debug, Clone)]
pub(crate) struct Unit {
    /// Which document.
    pub(crate) source: usize,
    pub(crate) text: String,
    pub(crate) kind: Kind,
    pub(crate) place: Place,
    pub(crate) speaker: Option<String>,
    /// The heading above, as an index of units.
    pub(crate) section: Option<usize>,
    /// The first sentence of its section.
    pub(crate) lead: bool,
    /// Asked by the one who interviews.
    pub(crate) asked: bool,
}

#[derive(Debug, Clone)]
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
    /// How often each `Name:` opens a line of this document.
    labels: BTreeMap<String, usize>,
    mark: Option<Place>,
    speaker: Option<String>,
    asked: bool,
    section: Option<usize>,
    /// Nothing of the section has come yet.
    fresh: bool,
    text: String,
    /// Where the lines of the text start, and their places.
    starts: Vec<(usize, Place)>,
    item: bool,
    rows: Vec<Vec<String>>,
    rows_at: Place,
}

impl Cutter {
    pub(crate) fn cut(&mut self, source: usize, document: &Document) {
        let (units, tables) = (std::mem::take(&mut self.units), std::mem::take(&mut self.tables));
        *self = Self { units, tables, source, fresh: true, ..Self::default() };
        let pages = document.lines.iter().filter(|(_, line)| MARK.is_match(line)).count();
        let mut repeated: BTreeMap<String, usize> = BTreeMap::new();
        for (_, line) in &document.lines {
            if pages > 2 && line.len() < 120 {
                *repeated.entry(undated(line)).or_default() += 1;
            }
            if let Some((name, _)) = label(line) {
                *self.labels.entry(name).or_default() += 1;
            }
        }
        let blank = |line: &str| line.trim().is_empty() || MARK.is_match(line);
        let (mut gap, mut turned) = (true, false);
        for (index, (number, line)) in document.lines.iter().enumerate() {
            if let Some(found) = MARK.captures(line) {
                self.end_table();
                self.mark = Some(Place::Mark(found[1].to_owned(), found[2].to_owned()));
                turned = true;
                continue;
            }
            let footer = repeated.get(&undated(line)).is_some_and(|n| *n > 2 && *n * 2 > pages);
            if line.trim().is_empty() || footer || NUMBERED.is_match(line) {
                gap = true;
                continue;
            }
            if self.units.len() >= MAX_UNITS {
                break;
            }
            let place = self.mark.clone().unwrap_or(Place::Line(*number));
            // A paragraph does not break its first line that early.
            let early = |next: &str| line.len() < 40 && next.len() > line.len() + 20;
            let alone = gap && document.lines.get(index + 1).is_none_or(|(_, next)| blank(next) || early(next));
            if let Some(row) = line.trim().strip_prefix('|') {
                if !self.text.is_empty() {
                    self.end_paragraph();
                }
                self.row(place, row);
            } else if let Some(title) = heading(line, alone) {
                self.end_paragraph();
                self.heading(place, title);
            } else {
                let open = !self.text.is_empty() && !self.text.ends_with(ENDS);
                let goes_on = turned && open && line.starts_with(char::is_lowercase);
                let labelled = !open && LABEL.is_match(line);
                if (gap && !goes_on) || labelled || ITEM.is_match(line) || self.name(line).is_some() {
                    self.end_paragraph();
                }
                self.line(place, line.trim());
            }
            (gap, turned) = (false, false);
        }
        self.end_paragraph();
    }

    fn push(&mut self, kind: Kind, place: Place, text: String, speaker: Option<String>) {
        let lead = self.fresh && matches!(kind, Kind::Sentence | Kind::Item);
        self.fresh &= !lead;
        let (source, section, asked) = (self.source, self.section, self.asked);
        self.units.push(Unit { source, text, kind, place, speaker, section, lead, asked });
    }

    fn heading(&mut self, place: Place, title: &str) {
        self.section = Some(self.units.len());
        (self.fresh, self.asked, self.speaker) = (true, false, None);
        self.push(Kind::Heading, place, title.replace("**", ""), None);
    }

    fn row(&mut self, place: Place, row: &str) {
        let cells: Vec<String> = row.trim_end_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        if cells.iter().any(|cell| cell.contains(|c| !"-:= ".contains(c))) {
            if self.rows.is_empty() {
                self.rows_at = place;
            } else {
                self.push(Kind::Row, place, cells.join(" | "), None);
            }
            self.rows.push(cells);
        }
    }

    fn end_table(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        if rows.len() > 1 {
            self.tables.push(Table { source: self.source, place: self.rows_at.clone(), rows });
        }
    }

    /// The speaker that the line opens with: a label that comes back, or that looks like a full name.
    fn name(&self, line: &str) -> Option<(String, String)> {
        label(line).filter(|(name, _)| {
            let often = self.labels.get(name).is_some_and(|n| *n > 1);
            let surname = name.chars().count() < 5 && listed("surname", text::head(name, 1));
            often || surname || name.split(' ').count() == 2 || name.ends_with('）') || listed("asks", name)
        })
    }

    /// One more line of a paragraph.
    fn line(&mut self, place: Place, line: &str) {
        self.end_table();
        let mut line = line.to_owned();
        if self.text.is_empty() {
            self.item = ITEM.is_match(&line);
            if self.item {
                line = ITEM.replace(&line, "").into_owned();
            } else if let Some((name, rest)) = self.name(&line) {
                self.asked = listed("asks", &name);
                self.speaker = (!self.asked && name.chars().count() > 1).then_some(name);
                line = rest;
            } else if LABEL.is_match(&line) {
                (self.asked, self.speaker) = (false, None);
            }
        }
        let han = |c: char| is_han(c) || "，。；、：".contains(c);
        if !self.text.is_empty() && !self.text.ends_with(han) && !line.starts_with(han) {
            self.text.push(' ');
        }
        self.starts.push((self.text.len(), place));
        self.text.push_str(line.replace("**", "").trim());
    }

    /// Ends the table or the paragraph that is open.
    fn end_paragraph(&mut self) {
        self.end_table();
        let (text, starts) = (std::mem::take(&mut self.text), std::mem::take(&mut self.starts));
        // An item is one thought, unless it is a whole paragraph.
        let whole = self.item && !text.is_empty() && text.len() <= MAX_CHARS;
        let kind = if self.item { Kind::Item } else { Kind::Sentence };
        for (at, sentence) in if whole { vec![(0, text.as_str())] } else { split(&text) } {
            let line = starts.partition_point(|(start, _)| *start <= at).saturating_sub(1);
            let place = starts.get(line).map(|(_, place)| place.clone()).unwrap_or_default();
            let said = SAID.captures(sentence).and_then(|found| found.get(1).or(found.get(2)));
            let speaker = said.map(|name| name.as_str().to_owned()).or_else(|| self.speaker.clone());
            // "That is why …" says nothing without the sentence before it.
            match self.units.last_mut().filter(|_| at > 0 && LEANS.is_match(sentence)) {
                Some(before) if before.text.len() < MAX_CHARS / 2 => {
                    before.text = format!("{} {sentence}", before.text);
                }
                _ => self.push(kind, place, sentence.to_owned(), speaker),
            }
        }
    }
}

fn undated(line: &str) -> String {
    line.chars().filter(|c| !c.is_ascii_digit()).collect::<String>().trim().to_owned()
}

/// The heading that a line is: marked, or short, alone and without an end.
fn heading(line: &str, alone: bool) -> Option<&str> {
    let text = line.trim();
    if let Some(title) = text.strip_prefix('#') {
        return title.trim_start_matches('#').strip_prefix(' ').map(str::trim);
    }
    let (chars, first) = (text.chars().count(), text.chars().next()?);
    let short = chars <= 70 && text.split_whitespace().count() <= 10 && !text.ends_with(ENDS);
    let starts = first.is_uppercase() || first.is_ascii_digit() || (is_han(first) && chars <= 20);
    (alone && short && starts && !ITEM.is_match(line) && label(text).is_none()).then_some(text)
}

/// `Name: text` as (name, text).
fn label(line: &str) -> Option<(String, String)> {
    let found = LABEL.captures(line.trim())?;
    (!listed("no-name", &found[1])).then(|| (found[1].to_owned(), found[2].to_owned()))
}

/// Sentences with the byte at which each starts.
pub(crate) fn split(text: &str) -> Vec<(usize, &str)> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let (mut found, mut start, mut index) = (Vec::new(), 0, 0);
    let mut length = 0;
    while index < chars.len() {
        let (at, c) = chars[index];
        length += 1;
        let mut end = index + 1;
        let stops = match c {
            '。' | '！' | '？' | '；' => true,
            '.' | '!' | '?' | '…' => {
                while chars.get(end).is_some_and(|(_, c)| "\"”’'»)]".contains(*c)) {
                    end += 1;
                }
                let next = chars[end.min(chars.len())..].iter().map(|(_, c)| *c).find(|c| !c.is_whitespace());
                let spaced = chars.get(end).is_none_or(|(_, c)| c.is_whitespace() || is_han(*c));
                let capital = next.is_none_or(|c| !c.is_lowercase());
                spaced && capital && (c != '.' || !abbreviated(&text[start..at], next))
            }
            ' ' | '，' => length > MAX_CHARS,
            _ => length > 2 * MAX_CHARS,
        };
        if stops {
            while chars.get(end).is_some_and(|(_, c)| "”」』）".contains(*c)) {
                end += 1;
            }
            let stop = chars.get(end).map_or(text.len(), |(at, _)| *at);
            add(text, start, stop, &mut found);
            (start, length) = (stop, 0);
        }
        index = end;
    }
    add(text, start, text.len(), &mut found);
    found
}

fn add<'a>(text: &'a str, start: usize, stop: usize, found: &mut Vec<(usize, &'a str)>) {
    let piece = &text[start..stop];
    let lead = piece.len() - piece.trim_start().len();
    if piece.chars().any(char::is_alphanumeric) {
        found.push((start + lead, piece.trim()));
    }
}

fn abbreviated(before: &str, next: Option<char>) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    let initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase);
    let numbered = next.is_some_and(|c| c.is_ascii_digit()) && word.eq_ignore_ascii_case("no");
    initial || numbered || listed("abbreviation", word)
}
