//! Card and telephone numbers. Both are groups of digits with single separators between, so the text is first taken apart
//! into such runs; then each kind looks for its own groupings in them.
//!
//! Digits alone prove little: dates, ISBNs, invoice and order numbers look the same. A card needs a valid check digit, the
//! start of an issuer and a customary grouping. A telephone number needs a plus sign, a shape that only telephone numbers have, or a
//! word such as `phone:` in front of it.

use super::super::pattern::pattern;
use super::detect::{Found, Kind};
use super::validate::{digits, is_date, is_issued, luhn};
use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// A group of digits.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    range: Range<usize>,
    /// A letter, a digit of another number or an underscore is stuck to it.
    attached: bool,
}

/// Groups with at most two separators between each two, on one line.
#[derive(Debug, Default)]
struct Run {
    groups: Vec<Group>,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// All runs of a folded text.
fn runs(text: &str) -> Vec<Run> {
    let bytes = text.as_bytes();
    let mut runs: Vec<Run> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && bytes[at].is_ascii_digit() {
            at += 1;
        }
        let attached = start.checked_sub(1).is_some_and(|before| is_word(bytes[before]))
            || bytes.get(at).is_some_and(|after| is_word(*after));
        let group = Group { range: start..at, attached };
        let joined = runs.last().and_then(|run| run.groups.last()).is_some_and(|last| {
            let between = &bytes[last.range.end..start];
            (1..=2).contains(&between.len()) && between.iter().all(|b| matches!(b, b' ' | b'-' | b'.' | b'(' | b')'))
        });
        match runs.last_mut() {
            Some(run) if joined => run.groups.push(group),
            _ => runs.push(Run { groups: vec![group] }),
        }
    }
    runs
}

impl Run {
    fn digits<'t>(&self, text: &'t str, at: usize) -> &'t str {
        &text[self.groups[at].range.clone()]
    }
    /// What stands between the group and the next one; empty after the last.
    fn separator<'t>(&self, text: &'t str, at: usize) -> &'t str {
        match self.groups.get(at + 1) {
            Some(next) => &text[self.groups[at].range.end..next.range.start],
            None => "",
        }
    }
    fn span(&self, groups: &Range<usize>) -> Range<usize> {
        self.groups[groups.start].range.start..self.groups[groups.end - 1].range.end
    }
    fn number(&self, text: &str, groups: &Range<usize>) -> String {
        groups.clone().map(|at| self.digits(text, at)).collect()
    }
    fn lengths(&self, groups: &Range<usize>) -> Vec<usize> {
        self.groups[groups.clone()].iter().map(|group| group.range.len()).collect()
    }
    /// The one separator between all of the groups; `None` when they differ.
    fn uniform<'t>(&self, text: &'t str, groups: &Range<usize>) -> Option<&'t str> {
        let mut separators = (groups.start..groups.end - 1).map(|at| self.separator(text, at));
        let first = separators.next()?;
        separators.all(|other| other == first).then_some(first)
    }
    fn is_attached(&self, groups: &Range<usize>) -> bool {
        self.groups[groups.clone()].iter().any(|group| group.attached)
    }
    /// Whether a point joins the groups to a neighbour: they are a part of a decimal number or of an address.
    fn is_fraction(&self, text: &str, groups: &Range<usize>) -> bool {
        let before = groups.start.checked_sub(1).is_some_and(|before| self.separator(text, before) == ".");
        before || self.separator(text, groups.end - 1) == "."
    }
    /// Whether three neighbouring groups are a date.
    fn has_date(&self, text: &str, groups: &Range<usize>) -> bool {
        let value = |at: usize| self.digits(text, at).parse::<u32>().unwrap_or(u32::MAX);
        (groups.start..groups.end.saturating_sub(2)).any(|at| {
            let (a, b, c) = (value(at), value(at + 1), value(at + 2));
            let lengths = self.lengths(&(at..at + 3));
            let short = |length: usize| (1..=2).contains(&length);
            match lengths[..] {
                [4, month, day] if short(month) && short(day) => is_date(a, b, c) || is_date(a, c, b),
                [day, month, 4] if short(month) && short(day) => is_date(c, b, a) || is_date(c, a, b),
                _ => false,
            }
        })
    }
}

/// Groupings that cards are written in.
fn is_card_grouping(lengths: &[usize]) -> bool {
    match lengths {
        [4, 4, 4, last] => (1..=4).contains(last),
        [4, 4, 4, 4, last] => (1..=3).contains(last),
        [4, 6, 4 | 5] | [8, 8] => true,
        _ => false,
    }
}

/// Card numbers of a folded text.
pub(super) fn cards(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for run in runs(text) {
        let mut at = 0;
        while at < run.groups.len() {
            match card_at(text, &run, at) {
                None => at += 1,
                Some(groups) => {
                    at = groups.end;
                    let (range, value) = (run.span(&groups), run.number(text, &groups));
                    found.push(Found { range, kind: Kind::CreditCard, value });
                }
            }
        }
    }
    found
}

/// The groups of a card that begins at this one, the longest first.
fn card_at(text: &str, run: &Run, start: usize) -> Option<Range<usize>> {
    let valid = |groups: &Range<usize>| {
        let number = digits(&run.number(text, groups));
        luhn(&number) && is_issued(&number) && !run.is_attached(groups)
    };
    let longest = run.groups.len().min(start + 5);
    let grouped = (start + 2..=longest).rev().map(|end| start..end).find(|groups| {
        let separated = matches!(run.uniform(text, groups), Some(" " | "-" | "."));
        separated && is_card_grouping(&run.lengths(groups)) && valid(groups)
    });
    let single = start..start + 1;
    // However it is grouped: when nothing else is in the run it is one number.
    let whole = 0..run.groups.len();
    let in_one = |groups: &Range<usize>| (13..=19).contains(&run.number(text, groups).len()) && valid(groups);
    grouped.or_else(|| (!run.is_fraction(text, &single) && in_one(&single)).then(|| single.clone())).or_else(|| {
        let odd = start == 0 && (2..=19).contains(&whole.len()) && matches!(run.uniform(text, &whole), Some(" " | "-"));
        (odd && in_one(&whole)).then(|| whole.clone())
    })
}

/// Words that announce a telephone number.
static LABEL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i:\b(?:tel(?:ephone|efono|éfono|efon|éphone)?|phones?|mobile|móvil|movil|cell(?:ular|phone)?|celular|fax|whatsapp|handy|sms)|电话|電話|手机|手機|联系方式|聯絡方式|传真|傳真)(?i:号码|號碼|号|號)?[ .]*(?i:numbers?|number|no|nr|#)?[ .]*(?i:is|are|是|为|為)?[ ]*[:=：]?[ ]*[(+]?$",
    )
});
/// Bytes before a number in which its label must stand.
const LABEL_REACH: usize = 48;

fn is_labelled(text: &str, start: usize) -> bool {
    let mut from = start.saturating_sub(LABEL_REACH);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let before = text[from..start].rsplit('\n').next().unwrap_or_default();
    LABEL.is_match(before)
}

/// Telephone numbers of a folded text.
pub(super) fn phones(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for run in runs(text) {
        let mut at = 0;
        while at < run.groups.len() {
            match phone_at(text, &run, at) {
                None => at += 1,
                Some(groups) => {
                    at = groups.end;
                    let value = run.number(text, &groups);
                    let mut range = run.span(&groups);
                    range.start = with_prefix(text, range.start);
                    found.push(Found { range, kind: Kind::Phone, value });
                }
            }
        }
    }
    found
}

/// Where the number begins with its plus sign and opening bracket.
fn with_prefix(text: &str, start: usize) -> usize {
    let before = &text[..start];
    let bare = before.strip_suffix('(').unwrap_or(before);
    match bare.strip_suffix('+') {
        Some(rest) => rest.strip_suffix('(').unwrap_or(rest).len(),
        None if before.len() > bare.len() => bare.len(),
        None => start,
    }
}

fn phone_at(text: &str, run: &Run, start: usize) -> Option<Range<usize>> {
    let first = run.groups[start].range.clone();
    let before = text[..first.start].trim_end_matches('(');
    let plus = before.ends_with('+') && !before[..before.len() - 1].bytes().next_back().is_some_and(is_word);
    if plus {
        return international(text, run, start);
    }
    if run.is_attached(&(start..start + 1)) {
        return None;
    }
    let labelled = || start == 0 && is_labelled(text, first.start);
    american(text, run, start)
        .or_else(|| chinese(text, run, start))
        .or_else(|| with_trunk_prefix(text, run, start))
        .or_else(|| labelled().then(|| up_to_fifteen(text, run, start)).flatten())
}

/// The longest start of the run with 8 to 15 digits and no date in it.
fn up_to_fifteen(text: &str, run: &Run, start: usize) -> Option<Range<usize>> {
    (start + 1..=run.groups.len()).rev().map(|end| start..end).find(|groups| {
        let count = run.lengths(groups).iter().sum::<usize>();
        (8..=15).contains(&count) && !run.is_attached(groups) && !run.has_date(text, groups)
    })
}

/// `+86 138 0013 8000`: a country code never begins with 0.
fn international(text: &str, run: &Run, start: usize) -> Option<Range<usize>> {
    let groups = up_to_fifteen(text, run, start).filter(|_| !run.digits(text, start).starts_with('0'))?;
    // `+12345678.90` and `+1.234.567` are amounts.
    let amount = run.uniform(text, &groups) == Some(".")
        && (groups.len() == 2 || run.lengths(&(groups.start + 1..groups.end)).iter().all(|length| *length == 3));
    (!amount).then_some(groups)
}

/// `(212) 555-0123`, `212-555-0123`, `1 212 555 0123`: area and exchange begin with 2 to 9.
fn american(text: &str, run: &Run, start: usize) -> Option<Range<usize>> {
    let begin = if run.digits(text, start) == "1" { start + 1 } else { start };
    let groups = begin..begin + 3;
    if groups.end > run.groups.len() || run.lengths(&groups) != [3, 3, 4] || run.is_attached(&(start..groups.end)) {
        return None;
    }
    let high = |at: usize| matches!(run.digits(text, at).as_bytes().first(), Some(b'2'..=b'9'));
    let separators = (run.separator(text, begin), run.separator(text, begin + 1));
    let alone = start == 0 && groups.end == run.groups.len();
    let customary = match separators {
        (") " | ")" | ")-", "-" | " " | ".") => text[..run.groups[begin].range.start].ends_with('('),
        ("-", "-") | (" ", "-") => true,
        // Points and blanks also stand in addresses and columns of numbers.
        (".", ".") | (" ", " ") => alone,
        _ => false,
    };
    (customary && high(begin) && high(begin + 1) && !run.is_fraction_of_longer(text, &(start..groups.end)))
        .then_some(start..groups.end)
}

/// A mobile number of China, `13800138000` or `138 0013 8000`, with or without `86`.
fn chinese(text: &str, run: &Run, start: usize) -> Option<Range<usize>> {
    let begin = if run.digits(text, start) == "86" { start + 1 } else { start };
    let mobile = |number: &str| {
        let number = number.as_bytes();
        number.len() == 11 && number[0] == b'1' && (b'3'..=b'9').contains(&number[1])
    };
    let single = start..begin + 1;
    let grouped = start..begin + 3;
    if single.end <= run.groups.len() && !run.is_attached(&single) && !run.is_fraction(text, &single) {
        let number = run.digits(text, begin);
        let number = number.strip_prefix("86").filter(|rest| rest.len() == 11).unwrap_or(number);
        if mobile(number) {
            return Some(single);
        }
    }
    let customary = grouped.end <= run.groups.len()
        && !run.is_attached(&grouped)
        && matches!(run.lengths(&(begin..grouped.end))[..], [3, 4, 4] | [3, 3, 5])
        && matches!(run.uniform(text, &(begin..grouped.end)), Some(" " | "-"))
        && mobile(&run.number(text, &(begin..grouped.end)));
    customary.then_some(grouped)
}

/// National numbers with their leading 0, `020 7946 0958` or `(010) 1234-5678`, and international ones with 00.
fn with_trunk_prefix(text: &str, run: &Run, start: usize) -> Option<Range<usize>> {
    let groups = start..run.groups.len();
    let lengths = run.lengths(&groups);
    let count: usize = lengths.iter().sum();
    let first = run.digits(text, start);
    let abroad = first.starts_with("00") && first.as_bytes().get(2).is_some_and(|digit| *digit != b'0');
    let (fewest, most) = if abroad { (10, 17) } else { (9, 12) };
    let shaped = start == 0
        && first.starts_with('0')
        && (abroad || !first.starts_with("00"))
        && (2..=5).contains(&first.len())
        && (2..=6).contains(&groups.len())
        && lengths.iter().all(|length| *length >= 2)
        && (fewest..=most).contains(&count);
    // The shape of a CPF, which has its own check.
    let cpf = lengths == [3, 3, 3, 2];
    (shaped && !cpf && !run.is_attached(&groups) && !run.has_date(text, &groups)).then_some(groups)
}

impl Run {
    /// Whether hyphens or points go on beyond the groups: they are a part of a longer identifier.
    fn is_fraction_of_longer(&self, text: &str, groups: &Range<usize>) -> bool {
        let sticks = |separator: &str| separator == "-" || separator == ".";
        let before = groups.start.checked_sub(1).is_some_and(|before| sticks(self.separator(text, before)));
        before || sticks(self.separator(text, groups.end - 1))
    }
}
