//! What kind of text an output is, and what is in it, without asking a model.

mod code;
mod data;
mod markup;
mod table;

use super::preview::one_line;
use std::collections::{HashSet, VecDeque};

/// Larger outputs, in bytes, are not parsed.
const MAX_PARSED_BYTES: usize = 5_000_000;
/// Keys shown of an object, kinds of children of an element.
const KEYS: usize = 12;
/// Headings shown of a text.
const HEADINGS: usize = 16;
/// Longest excerpt, longest line of a synopsis, in characters.
pub(super) const EXCERPT_CHARS: usize = 420;
/// Longest value or name within a line.
const VALUE_CHARS: usize = 80;
/// Lines about errors shown from the start, and as many from the end.
const ERROR_LINES: usize = 3;

/// Kinds that a synopsis tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Xml,
    Tsv,
    Csv,
    Yaml,
    Code,
    Text,
    Unknown,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Xml => "xml",
            Self::Tsv => "tsv",
            Self::Csv => "csv",
            Self::Yaml => "yaml",
            Self::Code => "code",
            Self::Text => "text",
            Self::Unknown => "unknown",
        }
    }
}

/// A description in a few lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Synopsis {
    pub(super) kind: Kind,
    /// Control characters have to be left out of samples.
    pub(super) is_binary: bool,
    title: &'static str,
    summary: Vec<String>,
    structure: Vec<String>,
    notable: Vec<String>,
}

impl Synopsis {
    /// Describes any text. The order of the kinds matters: JSON is YAML, too, and a table has commas like prose.
    pub(super) fn of(text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::new(Kind::Unknown, "Empty output", "The tool returned nothing but blank space.");
        }
        if text.len() > MAX_PARSED_BYTES {
            let size = format!("{} bytes, too long to be analysed.", text.len());
            return Self::new(Kind::Unknown, "Very long output", size);
        }
        if looks_binary(text) {
            let size = format!("{} characters, with control characters among them.", text.chars().count());
            return Self { is_binary: true, ..Self::new(Kind::Unknown, "Binary output", size) };
        }
        data::json(text)
            .or_else(|| markup::xml(text))
            .or_else(|| table::table(text, b'\t'))
            .or_else(|| table::table(text, b','))
            .or_else(|| data::yaml(text))
            .or_else(|| code::code(text))
            .unwrap_or_else(|| plain(text))
    }

    fn new(kind: Kind, title: &'static str, summary: impl Into<String>) -> Self {
        Self {
            kind,
            is_binary: false,
            title,
            summary: vec![summary.into()],
            structure: Vec::new(),
            notable: Vec::new(),
        }
    }

    /// As text, a line for each fact.
    pub(super) fn render(&self) -> String {
        let mut out = format!("{}:", self.title);
        let sections =
            [("", &self.summary), ("\n\nStructure:", &self.structure), ("\n\nNotable items:", &self.notable)];
        for (heading, items) in sections {
            if items.is_empty() {
                continue;
            }
            out.push_str(heading);
            for item in items {
                out.push_str("\n- ");
                out.push_str(&one_line(item, EXCERPT_CHARS));
            }
        }
        out
    }
}

/// A NUL anywhere, or more than one in twenty of the first thousand characters that is no text. Colour codes are text;
/// replacement characters stand for bytes that were none.
fn looks_binary(text: &str) -> bool {
    let odd = |c: &char| *c == '\u{fffd}' || (c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{1b}'));
    let sample = || text.chars().take(1000);
    text.contains('\0') || sample().filter(odd).count() * 20 > sample().count()
}

fn plain(text: &str) -> Synopsis {
    let mut headings = Vec::new();
    let mut seen = HashSet::new();
    let (mut first, mut last) = (Vec::new(), VecDeque::new());
    let (mut lines, mut words) = (0_usize, 0_usize);
    for line in text.lines() {
        lines += 1;
        words += line.split_whitespace().count();
        // What matters in a line is at its start; a line may have megabytes.
        let start = deerflow_core::text::head(line, EXCERPT_CHARS).trim();
        if headings.len() < HEADINGS && is_heading(start) && seen.insert(start) {
            headings.push(one_line(start, VALUE_CHARS));
        }
        if speaks_of_failure(start) {
            let line = format!("line {lines}: {}", one_line(start, 2 * VALUE_CHARS));
            if first.len() < ERROR_LINES {
                first.push(line);
            } else {
                last.push_back(line);
                if last.len() > ERROR_LINES {
                    last.pop_front();
                }
            }
        }
    }
    let size = format!("Text with {} characters, {words} words and {lines} lines.", text.chars().count());
    let mut synopsis = Synopsis::new(Kind::Text, "Text output", size);
    if !headings.is_empty() {
        synopsis.summary.push(format!("Headings: {}", headings.join(" | ")));
    }
    synopsis.notable = first.into_iter().chain(last).collect();
    synopsis
}

/// `# Markdown`, or SHOUTING of seven characters or more.
fn is_heading(line: &str) -> bool {
    let markdown = line.trim_start_matches('#');
    let level = line.len() - markdown.len();
    if (1..=6).contains(&level) {
        return markdown.starts_with(' ');
    }
    let shouted = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || matches!(c, ' ' | ':' | '_' | '-');
    line.len() >= 7
        && line.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit())
        && line.chars().all(shouted)
        && line.contains(|c: char| c.is_ascii_uppercase())
}

fn speaks_of_failure(line: &str) -> bool {
    let line = line.to_lowercase();
    ["error", "failed", "failure", "fatal", "panic", "exception", "traceback"].iter().any(|word| line.contains(word))
}

#[cfg(test)]
mod tests;
