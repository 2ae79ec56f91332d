//! What is personal in a text. Each kind proves what it finds: by check digits where there are some, otherwise by a form that
//! nothing else has.

use super::super::pattern::pattern;
use super::PiiRedactionConfig;
use super::fold::Folded;
use super::numbers::{cards, phones};
use super::validate::{chinese_resident_id, cpf, digits, is_date, rfc_check};
use regex::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// A kind of personal data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Email,
    ApiKey,
    NationalId,
    CreditCard,
    Phone,
}

/// The kinds in the order in which they look; each sees what those before it have replaced. Identity numbers come before
/// cards, since one in ten also passes a card's check.
pub(super) const ORDER: [Kind; 5] = [Kind::Email, Kind::ApiKey, Kind::NationalId, Kind::CreditCard, Kind::Phone];

impl Kind {
    /// As in the placeholder.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Email => "EMAIL",
            Self::ApiKey => "API_KEY",
            Self::NationalId => "NATIONAL_ID",
            Self::CreditCard => "CREDIT_CARD",
            Self::Phone => "PHONE",
        }
    }

    pub(super) fn is_on(self, config: &PiiRedactionConfig) -> bool {
        match self {
            Self::Email => config.redact_email,
            Self::ApiKey => config.redact_api_key,
            Self::NationalId => config.redact_national_id,
            Self::CreditCard => config.redact_credit_card,
            Self::Phone => config.redact_phone,
        }
    }

    /// All of this kind in a text, in order and without overlaps; ranges are those of the text itself.
    pub(super) fn find(self, text: &str) -> Vec<Found> {
        let folded = Folded::new(text);
        let mut found = match self {
            Self::Email => emails(&folded.text),
            Self::ApiKey => api_keys(&folded.text),
            Self::NationalId => national_ids(&folded.text),
            Self::CreditCard => cards(&folded.text),
            Self::Phone => phones(&folded.text),
        };
        for one in &mut found {
            one.range = folded.original(&one.range);
        }
        found
    }
}

/// One value in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) range: Range<usize>,
    pub(super) kind: Kind,
    /// The value without the ways of writing it: the same for `4111 1111…` and `4111-1111…`.
    pub(super) value: String,
}

static EMAIL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"[A-Za-z0-9._%+'-]*[A-Za-z0-9_%+]@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*\.[A-Za-z]{2,24}",
    )
});
static API_KEY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}|xox[a-z]-[A-Za-z0-9-]{10,}|AIza[0-9A-Za-z_-]{35}",
    )
});
static CHINA: LazyLock<Regex> = LazyLock::new(|| pattern(r"[1-9][0-9]{5}[ -]?[0-9]{8}[ -]?[0-9]{3}[0-9Xx]"));
static CPF: LazyLock<Regex> = LazyLock::new(|| pattern(r"[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}|[0-9]{9}-?[0-9]{2}"));
static CUIT: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:20|2[3-7]|30|33|34)-[0-9]{8}-[0-9]"));
static RFC: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"([A-ZÑ&]{3,4})([ -]?)([0-9]{2})([0-9]{2})([0-9]{2})[ -]?([A-Z0-9]{3})"));

/// Matches that stand alone and that `accept` takes for a value. One that is refused does not hide another that begins in it.
fn scan(text: &str, pattern: &Regex, kind: Kind, accept: impl Fn(&str, usize) -> Option<String>) -> Vec<Found> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(candidate) = pattern.find_at(text, at) {
        match accept(candidate.as_str(), candidate.start()) {
            Some(value) if stands_alone(text, &candidate.range()) => {
                at = candidate.end();
                found.push(Found { range: candidate.range(), kind, value });
            }
            _ => {
                let step = text[candidate.start()..].chars().next().map_or(1, char::len_utf8);
                at = candidate.start() + step;
            }
        }
    }
    found
}

/// Whether no letter or digit of the Latin alphabet is stuck to either side. Chinese writes no blanks around a number.
fn stands_alone(text: &str, range: &Range<usize>) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text[..range.start].chars().next_back().is_some_and(word) && !text[range.end..].chars().next().is_some_and(word)
}

/// Whether a number is the part of a decimal one: a point and a digit next to it.
fn is_fraction(text: &str, range: &Range<usize>) -> bool {
    let mut before = text[..range.start].chars().rev();
    let mut after = text[range.end..].chars();
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    (before.next() == Some('.') && digit(before.next())) || (after.next() == Some('.') && digit(after.next()))
}

fn emails(text: &str) -> Vec<Found> {
    if !text.contains('@') {
        return Vec::new();
    }
    let mut found = Vec::new();
    for candidate in EMAIL.find_iter(text) {
        let address = candidate.as_str();
        // `git@github.com:owner/repository` is where a repository is, not where somebody is.
        if address.starts_with("git@") && text[candidate.end()..].starts_with([':', '/']) {
            continue;
        }
        let trimmed = address.trim_start_matches(['.', '\'', '-']);
        let range = candidate.end() - trimmed.len()..candidate.end();
        found.push(Found { range, kind: Kind::Email, value: trimmed.to_ascii_lowercase() });
    }
    found
}

fn api_keys(text: &str) -> Vec<Found> {
    scan(text, &API_KEY, Kind::ApiKey, |key, _| {
        // `sk-` also begins words of names with hyphens: a key has digits, or one long piece.
        let wordy = key.strip_prefix("sk-").is_some_and(|rest| {
            !rest.bytes().any(|b| b.is_ascii_digit()) && rest.split(['-', '_']).all(|piece| piece.len() < 20)
        });
        (!wordy).then(|| key.to_owned())
    })
}

fn national_ids(text: &str) -> Vec<Found> {
    let plain = |number: &str| number.replace([' ', '-', '.'], "").to_ascii_uppercase();
    let whole = |number: &str, at: usize| !is_fraction(text, &(at..at + number.len()));
    let china = scan(text, &CHINA, Kind::NationalId, |number, at| {
        Some(plain(number)).filter(|value| chinese_resident_id(value) && whole(number, at))
    });
    let brazil = scan(text, &CPF, Kind::NationalId, |number, at| {
        Some(plain(number)).filter(|value| cpf(&digits(value)) && whole(number, at))
    });
    let argentina = scan(text, &CUIT, Kind::NationalId, |number, _| Some(plain(number)));
    let mexico = scan(text, &RFC, Kind::NationalId, |number, _| is_rfc(number).then(|| plain(number)));
    without_overlaps([china, brazil, argentina, mexico].concat())
}

/// Letters, a birthday or founding day, three more characters. An invoice number may look like that too (`INV260115001`), so
/// where the last three are digits the check character decides.
fn is_rfc(text: &str) -> bool {
    let Some(parts) = RFC.captures(text) else { return false };
    let number = |at: usize| parts[at].parse::<u32>().unwrap_or(0);
    // The century is not written; a leap day counts in either.
    let (year, month, day) = (number(3), number(4), number(5));
    if !is_date(1900 + year, month, day) && !is_date(2000 + year, month, day) {
        return false;
    }
    let plain: Vec<char> = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    !parts[6].bytes().all(|b| b.is_ascii_digit()) || rfc_check(&plain)
}

/// The first of those that overlap.
fn without_overlaps(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by_key(|one| (one.range.start, std::cmp::Reverse(one.range.end)));
    let mut end = 0;
    found.retain(|one| {
        let free = one.range.start >= end;
        if free {
            end = one.range.end;
        }
        free
    });
    found
}
