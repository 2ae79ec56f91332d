//! Lines of a page to Markdown: paragraphs, headings by size, bullets, tables.

use super::columns;
use super::glyphs::Rule;
use super::lines::Line;
use super::tables;
use crate::markdown::{Blocks, table};

/// Text this much larger than the body is a heading.
const HEADING_RATIO: f64 = 1.14;
/// Longest heading, in characters.
const MAX_HEADING: usize = 140;
/// Lines further apart than this (in em) are paragraphs of their own.
const PARAGRAPH_GAP: f64 = 1.62;

/// Knows the sizes of one document.
#[derive(Debug)]
pub(super) struct Renderer {
    body: f64,
    /// Heading sizes, largest first.
    headings: Vec<f64>,
}

impl Renderer {
    pub(super) fn new<'a>(lines: impl Iterator<Item = &'a Line> + Clone) -> Self {
        let mut sizes: Vec<(f64, usize)> = Vec::new();
        for line in lines.clone() {
            let count = line.text().chars().count();
            match sizes.iter_mut().find(|(size, _)| same(*size, line.size)) {
                Some((_, total)) => *total += count,
                None => sizes.push((line.size, count)),
            }
        }
        let total: usize = sizes.iter().map(|(_, count)| count).sum();
        let body = sizes.iter().max_by_key(|(_, count)| *count).map_or(10.0, |(size, _)| *size);
        let mut headings: Vec<f64> = Vec::new();
        for line in lines {
            if is_heading_text(line)
                && line.size >= body * HEADING_RATIO
                && !headings.iter().any(|s| same(*s, line.size))
            {
                headings.push(line.size);
            }
        }
        let large: usize = sizes.iter().filter(|(s, _)| headings.iter().any(|h| same(*h, *s))).map(|(_, c)| c).sum();
        // Where much of the text is large, size means something else.
        if large * 10 > total * 4 {
            headings.clear();
        }
        headings.sort_by(|a, b| b.total_cmp(a));
        Self { body, headings }
    }

    /// The level of a heading line, or `None` for body text.
    fn heading(&self, line: &Line) -> Option<usize> {
        if !is_heading_text(line) || line.size < self.body * HEADING_RATIO {
            return None;
        }
        self.headings.iter().position(|size| same(*size, line.size)).map(|at| at.min(3) + 1)
    }

    pub(super) fn page(&self, lines: &[Line], rules: &[Rule]) -> String {
        let mut out = Blocks::new(usize::MAX);
        for block in columns::blocks(lines.to_vec()) {
            self.block(&block, rules, &mut out);
        }
        out.into_text()
    }

    fn block(&self, lines: &[Line], rules: &[Rule], out: &mut Blocks) {
        let mut at = 0;
        let mut previous: Option<&Line> = None;
        let mut heading: Option<(usize, String)> = None;
        while at < lines.len() {
            let line = &lines[at];
            let level = self.heading(line);
            let gap = previous.map_or(f64::INFINITY, |above| (line.y - above.y) / line.size.max(above.size));
            if let (Some((open, text)), Some(level)) = (heading.as_mut(), level)
                && *open == level
                && gap <= PARAGRAPH_GAP
            {
                text.push(' ');
                text.push_str(&line.text());
                previous = Some(line);
                at += 1;
                continue;
            }
            if let Some((level, text)) = heading.take() {
                out.push(&format!("{} {text}", "#".repeat(level)));
                previous = None;
            }
            if let Some(level) = level {
                heading = Some((level, safe(&line.text())));
                previous = Some(line);
                at += 1;
                continue;
            }
            if let Some(found) = tables::at(lines, at, rules) {
                let rows: Vec<Vec<String>> =
                    found.rows.iter().map(|row| row.iter().map(|cell| safe(cell)).collect()).collect();
                out.push(&table(&rows));
                previous = None;
                at = found.end;
                continue;
            }
            let (bullet, text) = bullet(&line.text());
            let text = if bullet { format!("- {}", safe(&text)) } else { safe(&text) };
            let joins = previous.is_some() && (0.0..=PARAGRAPH_GAP).contains(&gap);
            if joins {
                out.push_line(&text)
            } else {
                out.push(&text)
            }
            previous = Some(line);
            at += 1;
        }
        if let Some((level, text)) = heading {
            out.push(&format!("{} {text}", "#".repeat(level)));
        }
    }
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() < 0.4
}

fn is_heading_text(line: &Line) -> bool {
    let text = line.text();
    text.chars().count() <= MAX_HEADING
        && text.chars().filter(|character| character.is_alphabetic()).count() >= 2
        && line.segments.len() <= 2
}

/// A line without its bullet, and whether it had one.
fn bullet(text: &str) -> (bool, String) {
    let rest = text.trim_start().strip_prefix(['•', '▪', '●', '◦', '‣', '■', '□', '∙', '\u{F0B7}']);
    rest.map_or_else(|| (false, text.to_owned()), |rest| (true, rest.trim_start().to_owned()))
}

/// Text from a file that cannot pass for our marks or headings.
pub(super) fn safe(text: &str) -> String {
    let text = text.replace("<!--", "&lt;!--");
    let hashes = text.bytes().take_while(|byte| *byte == b'#').count();
    let heading = (1..=6).contains(&hashes) && text[hashes..].starts_with(' ');
    if heading { format!("\\{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::lines::{build, tests::set};
    use super::*;

    fn render(glyphs: Vec<super::super::glyphs::Glyph>) -> String {
        let lines = build(glyphs);
        Renderer::new(lines.iter()).page(&lines, &[])
    }

    #[test]
    fn large_lines_are_headings_gaps_are_paragraphs_and_dots_are_bullets() {
        let mut glyphs = set("Why sales fell", 10.0, 20.0, 20.0);
        glyphs.extend(set("in the second year", 10.0, 44.0, 20.0));
        glyphs.extend(set("First line of a longer paragraph of text,", 10.0, 80.0, 10.0));
        glyphs.extend(set("and its second line that goes on.", 10.0, 92.0, 10.0));
        glyphs.extend(set("Causes", 10.0, 120.0, 14.0));
        glyphs.extend(set("• price", 10.0, 140.0, 10.0));
        glyphs.extend(set("• stock, which was out for many weeks in all", 10.0, 152.0, 10.0));
        glyphs.extend(set("# 1 is not a heading", 10.0, 180.0, 10.0));
        assert_eq!(
            render(glyphs),
            "# Why sales fell in the second year\n\nFirst line of a longer paragraph of text,\n\
             and its second line that goes on.\n\n## Causes\n\n- price\n- stock, which was out for many weeks in all\n\n\
             \\# 1 is not a heading"
        );
    }

    #[test]
    fn a_file_cannot_forge_a_page_mark() {
        assert_eq!(safe("<!-- page 99 -->"), "&lt;!-- page 99 -->");
    }
}
