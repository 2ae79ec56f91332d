//! A document as units that can be quoted, each with its place.

use crate::conversation::Document;
use crate::lexicon::{is_han, patterns};
use std::collections::BTreeMap;

/// More units than this are not looked at; the report says so.
pub(crate) const MAX_UNITS: usize = 30_000;
/// A run of characters without an end is cut here.
const MAX_CHARS: usize = 600;

patterns! {
    MARK = r"^\s*<!--\s*(page|sheet|chapter|slide)\s+(.+?)\s*-->\s*$";
    ITEM = r"^\s*(?:[-*•·▪–]|\(?\d{1,2}[.)]|[（(]?[一二三四五六七八九十]{1,2}[）)、])\s+";
    LABEL = r"^(?:\*\*)?([\p{Lu}][\p{L}.'’-]*(?: [\p{Lu}(&][\p{L}.,'’&)-]*){0,6}|[\p{Han}·]{2,8}(?:（[^）]{1,20}）)?)(?:\*\*)?\s?[:：](?:\*\*)?\s*(\S.*)$";
    SAID = r"(?:\b(\p{Lu}\p{Ll}+ \p{Lu}[\p{L}'’-]+)(?:,[^,.]{2,50},| \([^)]{2,50}\))? (?:said|says|told|reported|reports|explained|explains|noted|mentioned|added|wrote|confirmed)\b|[Aa]ccording to (\p{Lu}\p{Ll}+ \p{Lu}[\p{L}'’-]+))";
    CREDIT = r"[”»'’]\s*[—–-]\s*(\p{Lu}\p{Ll}+ \p{Lu}[\p{L}'’-]+)";
    MEETING = r"(?i)^(?:interview|call|visit|meeting|conversation|talk|notes?|访谈|采访)\b.*?(?:with|:|：|—|–| - )\s*(\p{Lu}.{2,58}|\p{Han}.{1,40})$";
    NUMBERED = r"^\s*(?:page|seite|第)?\s*\d{1,4}\s*(?:页|/\s*\d+|of \d+)?\s*$";
    RULE_ROW = r"^\s*\|?[\s:|=-]+\|?\s*$";
}

/// Labels before a colon that name no person.
const NO_NAME: &str = " note notes summary conclusion conclusions date time place location subject to from cc re account result results method \
methods introduction background total figure table source sources example warning important agenda action actions participants attendees present \
author version status page abstract objective purpose topic decision decisions 时间 地点 主题 参会 参会人 参会人员 参加人员 出席 主持 记录 记录人 议题 \
结论 决议 备注 日期 摘要 背景 目的 结果 原因 说明 总结 问题 ";
const INTERVIEWER: &str = " q question interviewer moderator interview 问 采访者 记者 主持人 ";
const ABBREVIATIONS: &str = " mr mrs ms dr prof st fig figs eq approx ca vs etc e.g i.e inc ltd co corp dept est jan feb mar apr jun jul aug \
sep sept oct nov dec p pp vol ed al u.s u.k a.m p.m incl excl max min bzw z.b d.h nr ";

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    Mark(String, String),
    Line(usize),
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

/// Cuts one document up; units and tables are appended.
pub(crate) fn cut(source: usize, document: &Document, units: &mut Vec<Unit>, tables: &mut Vec<Table>) {
    let lines: Vec<(usize, &str)> = document.lines.iter().map(|(at, line)| (*at, line.trim_end())).collect();
    let mut repeated: BTreeMap<String, usize> = BTreeMap::new();
    let mut labels: BTreeMap<String, usize> = BTreeMap::new();
    let pages = lines.iter().filter(|(_, line)| MARK.is_match(line)).count();
    for (_, line) in &lines {
        if pages > 2 && line.chars().count() < 90 {
            *repeated.entry(undated(line)).or_default() += 1;
        }
        if let Some(label) = label(line) {
            *labels.entry(label.0).or_default() += 1;
        }
    }
    let mut cutter = Cutter {
        source,
        labels,
        units,
        tables,
        mark: None,
        speaker: None,
        asked: false,
        section: None,
        fresh: true,
        text: String::new(),
        starts: Vec::new(),
        item: false,
        rows: Vec::new(),
        rows_at: Place::Line(1),
    };
    let blank = |at: usize| lines.get(at).is_none_or(|(_, line)| line.trim().is_empty() || MARK.is_match(line));
    let (mut gap, mut turned) = (true, false);
    for (index, (number, line)) in lines.iter().enumerate() {
        if cutter.units.len() >= MAX_UNITS {
            return;
        }
        let place = cutter.place(*number);
        if let Some(found) = MARK.captures(line) {
            cutter.end_table();
            cutter.mark = Some(Place::Mark(found[1].to_owned(), found[2].to_owned()));
            turned = true;
            continue;
        }
        let boilerplate =
            NUMBERED.is_match(line) || repeated.get(&undated(line)).is_some_and(|n| *n * 2 > pages && *n > 2);
        if line.trim().is_empty() || boilerplate || line.starts_with("```") {
            gap = true;
            continue;
        }
        let cells = cells(line);
        if cells.len() > 1 || (!cells.is_empty() && !cutter.rows.is_empty()) {
            cutter.end_paragraph();
            cutter.row(place, line, cells);
        } else if let Some(title) = heading(line, gap && blank(index + 1) && !lines.is_empty()) {
            cutter.end_table();
            cutter.end_paragraph();
            cutter.heading(place, title);
        } else {
            cutter.end_table();
            let goes_on = turned
                && gap
                && !cutter.text.is_empty()
                && !cutter.text.ends_with(['.', '!', '?', ':', '。', '！', '？'])
                && line.starts_with(char::is_lowercase);
            let starts = ITEM.is_match(line) || cutter.name(line).is_some();
            if (gap && !goes_on) || starts {
                cutter.end_paragraph();
            }
            cutter.line(place, line);
        }
        (gap, turned) = (false, false);
    }
    cutter.end_table();
    cutter.end_paragraph();
}

fn undated(line: &str) -> String {
    line.chars().filter(|c| !c.is_ascii_digit()).collect::<String>().trim().to_owned()
}

/// Cells of a table row: Markdown, tabs, or columns set apart by spaces.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let tidy = |cell: &str| cell.trim().to_owned();
    if line.starts_with('|') && line.len() > 1 {
        return line.trim_matches('|').split('|').map(tidy).collect();
    }
    let wide: Vec<String> = if line.contains('\t') {
        line.split('\t').map(tidy).collect()
    } else {
        line.split("  ").map(tidy).filter(|cell| !cell.is_empty()).collect()
    };
    if wide.len() > 2 && wide.iter().all(|cell| cell.chars().count() < 50) { wide } else { Vec::new() }
}

/// The heading that a line is: marked, or short, alone and without an end.
fn heading(line: &str, alone: bool) -> Option<&str> {
    let text = line.trim();
    if let Some(title) = text.strip_prefix('#') {
        let title = title.trim_start_matches('#');
        return (title.starts_with(' ')).then(|| title.trim());
    }
    let short = text.chars().count() <= 70 && text.split_whitespace().count() <= 10;
    let plain = !text.ends_with(['.', '!', '?', ':', ';', ',', '。', '！', '？', '：', '；', '，', '"', '”'])
        && !ITEM.is_match(line);
    let starts = text
        .chars()
        .next()
        .is_some_and(|c| c.is_uppercase() || c.is_ascii_digit() || (is_han(c) && text.chars().count() <= 20));
    (alone && short && plain && starts && label(text).is_none()).then_some(text)
}

/// `Name: text` as (name, text).
fn label(line: &str) -> Option<(String, String)> {
    let found = LABEL.captures(line.trim())?;
    let name = found[1].trim().to_owned();
    (!NO_NAME.contains(&format!(" {} ", name.to_lowercase()))).then(|| (name, found[2].to_owned()))
}

struct Cutter<'a> {
    source: usize,
    labels: BTreeMap<String, usize>,
    units: &'a mut Vec<Unit>,
    tables: &'a mut Vec<Table>,
    mark: Option<Place>,
    speaker: Option<String>,
    asked: bool,
    section: Option<usize>,
    fresh: bool,
    text: String,
    starts: Vec<(usize, Place)>,
    item: bool,
    rows: Vec<Vec<String>>,
    rows_at: Place,
}

impl Cutter<'_> {
    fn place(&self, line: usize) -> Place {
        self.mark.clone().unwrap_or(Place::Line(line))
    }

    fn push(&mut self, kind: Kind, place: Place, text: String, speaker: Option<String>) {
        let lead = self.fresh && matches!(kind, Kind::Sentence | Kind::Item);
        self.fresh &= !lead;
        let (source, section, asked) = (self.source, self.section, self.asked);
        self.units.push(Unit { source, text, kind, place, speaker, section, lead, asked });
    }

    fn heading(&mut self, place: Place, title: &str) {
        self.section = Some(self.units.len());
        self.fresh = true;
        self.asked = false;
        self.speaker = MEETING.captures(title).map(|found| found[1].trim().to_owned());
        self.push(Kind::Heading, place, title.replace("**", ""), None);
    }

    fn row(&mut self, place: Place, line: &str, cells: Vec<String>) {
        if RULE_ROW.is_match(line) {
            return;
        }
        if self.rows.is_empty() {
            self.rows_at = place.clone();
        } else {
            let asked = std::mem::take(&mut self.asked);
            self.push(Kind::Row, place, cells.join(" | "), None);
            self.asked = asked;
        }
        self.rows.push(cells);
    }

    fn end_table(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        if rows.len() > 1 {
            self.tables.push(Table { source: self.source, place: self.rows_at.clone(), rows });
        } else if let Some(row) = rows.into_iter().next() {
            self.push(Kind::Item, self.rows_at.clone(), row.join(" "), None);
        }
    }

    /// The speaker that the line opens with: a label that comes back, or that looks like a full name.
    fn name(&self, line: &str) -> Option<(String, String)> {
        let (name, rest) = label(line)?;
        let known =
            self.labels.get(&name).is_some_and(|n| *n > 1) || name.split(' ').count() == 2 || name.ends_with('）');
        let asks = INTERVIEWER.contains(&format!(" {} ", name.to_lowercase()));
        (known || asks).then_some((name, rest))
    }

    fn line(&mut self, place: Place, line: &str) {
        let mut line = line.trim().to_owned();
        if self.text.is_empty() {
            self.item = ITEM.is_match(&line);
            if self.item {
                line = ITEM.replace(&line, "").into_owned();
            } else if let Some((name, rest)) = self.name(&line) {
                self.asked = INTERVIEWER.contains(&format!(" {} ", name.to_lowercase()));
                self.speaker = (!self.asked && name.chars().count() > 1).then_some(name);
                line = rest;
            }
        }
        let joint = match (self.text.chars().next_back(), line.chars().next()) {
            (Some(a), Some(b)) if is_han(a) || is_han(b) || "，。；、：".contains(a) => "",
            (None, _) => "",
            _ => " ",
        };
        self.text.push_str(joint);
        self.starts.push((self.text.len(), place));
        self.text.push_str(line.replace("**", "").trim());
    }

    fn end_paragraph(&mut self) {
        let (text, starts) = (std::mem::take(&mut self.text), std::mem::take(&mut self.starts));
        let credit = CREDIT.captures(&text).map(|found| found[1].to_owned());
        // An item is one thought, unless it is a whole paragraph.
        let whole = self.item && text.chars().count() <= MAX_CHARS / 2;
        let pieces = if whole && !text.is_empty() { vec![(0, text.as_str())] } else { split(&text) };
        for (at, sentence) in pieces {
            let line = starts.partition_point(|(start, _)| *start <= at).saturating_sub(1);
            let place = starts.get(line).map_or(Place::Line(1), |(_, place)| place.clone());
            let said = SAID
                .captures(sentence)
                .and_then(|found| found.get(1).or(found.get(2)))
                .map(|name| name.as_str().to_owned());
            let speaker = said.or_else(|| credit.clone()).or_else(|| self.speaker.clone());
            let kind = if self.item { Kind::Item } else { Kind::Sentence };
            self.push(kind, place, sentence.to_owned(), speaker);
        }
    }
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
    initial || numbered || ABBREVIATIONS.contains(&format!(" {} ", word.to_lowercase()))
}
