//! The headings of a Markdown text: what a model is shown before it reads a file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::marks::is_mark;

/// Headings listed before the rest is cut.
const MAX_ENTRIES: usize = 50;
/// Lines shown when there is no heading.
const PREVIEW_LINES: usize = 5;
/// Longest heading or preview line, in characters.
const MAX_LINE_CHARS: usize = 200;
/// Words that open a section in filings and contracts, where headings are only bold.
const SECTION_WORDS: [&str; 8] = ["ITEM", "PART", "SECTION", "SCHEDULE", "EXHIBIT", "APPENDIX", "ANNEX", "CHAPTER"];

/// One heading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutlineEntry {
    /// The heading's text without its marks.
    pub title: String,
    /// Its line, counted from 1.
    pub line: usize,
}

/// The headings of a text, or its first lines when it has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outline {
    /// At most 50 headings in order.
    pub entries: Vec<OutlineEntry>,
    /// Whether there are more.
    pub truncated: bool,
    /// The first 5 non-blank lines; only when there is no heading.
    pub preview: Vec<String>,
}

/// The outline of a Markdown text: `#` headings, lines that are one bold block opening with a section word
/// (`**ITEM 1. Business**`), and numbers split from their titles (`**1.2** **Title**`). Fenced code is skipped.
#[must_use]
pub fn outline(markdown: &str) -> Outline {
    let mut outline = Outline::default();
    let mut fence: Option<&str> = None;
    for (index, line) in markdown.lines().enumerate() {
        let text = line.trim();
        if let Some(open) = fence {
            if text.starts_with(open) && text.trim_matches(|c| open.starts_with(c)).is_empty() {
                fence = None;
            }
            continue;
        }
        fence = ["```", "~~~"].into_iter().find(|mark| text.starts_with(mark));
        if fence.is_some() {
            continue;
        }
        let Some(title) = heading(text) else { continue };
        if outline.entries.len() == MAX_ENTRIES {
            outline.truncated = true;
            break;
        }
        outline.entries.push(OutlineEntry { title: shorten(&title), line: index + 1 });
    }
    if outline.entries.is_empty() {
        let lines = markdown.lines().map(str::trim).filter(|line| !line.is_empty() && !is_mark(line));
        outline.preview = lines.take(PREVIEW_LINES).map(shorten).collect();
    }
    outline
}

fn heading(text: &str) -> Option<String> {
    let hashes = text.bytes().take_while(|byte| *byte == b'#').count();
    if (1..=6).contains(&hashes) {
        let rest = &text[hashes..];
        if !rest.starts_with([' ', '\t']) {
            return None;
        }
        let title = plain(rest.trim().trim_end_matches('#').trim_end());
        return (!title.is_empty()).then_some(title);
    }
    bold_heading(text)
}

/// `**SECTION …**` alone on its line, or `**1.2** **Title**`.
fn bold_heading(text: &str) -> Option<String> {
    let inner = text.strip_prefix("**")?.strip_suffix("**")?;
    let parts: Vec<&str> = inner.split("**").collect();
    match parts.as_slice() {
        [one] => {
            let word = one.trim().split(|c: char| !c.is_alphanumeric()).next()?;
            SECTION_WORDS.contains(&word.to_uppercase().as_str()).then(|| one.trim().to_owned())
        }
        [number, gap, title] if gap.trim().is_empty() => {
            let number = number.trim();
            let numeric = number.starts_with(|c: char| c.is_ascii_digit())
                && number.chars().all(|c| c.is_ascii_digit() || c == '.' || c == ')');
            (numeric && !title.trim().is_empty()).then(|| format!("{number} {}", title.trim()))
        }
        _ => None,
    }
}

fn plain(text: &str) -> String {
    text.replace("**", "").trim().to_owned()
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= MAX_LINE_CHARS {
        return text.to_owned();
    }
    text.chars().take(MAX_LINE_CHARS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn entries(text: &str) -> Vec<(String, usize)> {
        outline(text).entries.into_iter().map(|entry| (entry.title, entry.line)).collect()
    }

    #[test]
    fn headings_bold_sections_and_split_numbers_are_found_with_their_lines() {
        let text = "# Sales **review**\n\ntext\n**ITEM 1. Business**\n**Item 2**\n**not a heading**\n\
                    **1.2** **Scope**\n#hashtag\n####### seven\n## Closed ##\n**Chapters of life**";
        let expected = [("Sales review", 1), ("ITEM 1. Business", 4), ("Item 2", 5), ("1.2 Scope", 7), ("Closed", 10)];
        assert_eq!(entries(text), expected.map(|(title, line)| (title.to_owned(), line)));
        assert!(outline(text).preview.is_empty());
    }

    #[test]
    fn comments_in_fenced_code_are_no_headings() {
        assert_eq!(entries("```sh\n# not a heading\n```\n# real"), [("real".to_owned(), 4)]);
        assert_eq!(entries("~~~\n# no\n```\n# no\n~~~\n# yes"), [("yes".to_owned(), 6)]);
    }

    #[test]
    fn more_than_fifty_headings_are_cut_and_said_so() {
        let text: String = (0..51).map(|i| format!("# h{i}\n")).collect();
        let outline = outline(&text);
        assert_eq!((outline.entries.len(), outline.truncated), (50, true));
    }

    #[test]
    fn without_headings_the_first_five_lines_are_shown_without_page_marks() {
        let outline = outline("<!-- page 1 -->\n\na\n\nb\nc\nd\ne\nf");
        assert_eq!(outline.preview, ["a", "b", "c", "d", "e"]);
        assert!(!outline.truncated);
    }
}
